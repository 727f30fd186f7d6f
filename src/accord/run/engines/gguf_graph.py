"""A llama-style GGUF as an ONNX graph for ONNX Runtime.

In: a `gguf.GGUFReader`. Out: the graph and its weights file in a folder, and the `Dimensions` callers need.
Inputs: hidden (batch, run, width), seqlens_k (batch,) = KV length after the run minus 1, total () = longest
KV length after the run, pick (rows,) = flat positions whose logits are wanted, past_k0, past_v0 ... and
outputs present_k0, present_v0 ... (batch, kv heads, capacity, head width), which share the caller's memory.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from accord.run.engines.gguf_weights import BLOCK, WEIGHTS, Place, Weights
from accord.terms.errors import BrokenEdge

if TYPE_CHECKING:
    from gguf import GGUFReader
    from onnx import NodeProto, ValueInfoProto

VERSION = 1
GRAPH = "graph.onnx"
SPARE_TOKENS = 16  # positions beyond the context, which rows without a request may scribble on
_MICROSOFT = "com.microsoft"


class Dimensions(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the model; `table` and `table_scales` are the embedding as int8 blocks in the weights file."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    context_tokens: int
    vocabulary: int
    rope_base: float
    epsilon: float
    table: Place
    table_scales: Place


def build(reader: "GGUFReader", folder: Path) -> Dimensions:
    """Writes graph and weights into `folder`; BrokenEdge for an architecture or a shape that isn't known."""
    import onnx

    architecture = str(reader.fields["general.architecture"].contents())
    if architecture != "llama":
        raise BrokenEdge(f"GGUF: general.architecture: {architecture}: only llama is known; use engine llamacpp")
    with (folder / WEIGHTS).open("wb") as file:
        weights = Weights(reader, file)
        sizes = _dimensions(reader, weights)
        graph = _Graph(sizes, weights)
        graph.write()
        model = onnx.helper.make_model(
            onnx.helper.make_graph(graph.nodes, "llama", graph.inputs, graph.outputs, weights.initializers),
            opset_imports=[onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid(_MICROSOFT, 1)],
            ir_version=10,
        )
    onnx.save(model, str(folder / GRAPH))
    return sizes


def _dimensions(reader: "GGUFReader", weights: Weights) -> Dimensions:
    def number(key: str) -> float:
        found = reader.fields.get(f"llama.{key}")
        if found is None:
            raise BrokenEdge(f"GGUF: llama.{key} is missing; fetch the weights again")
        return float(found.contents())

    table, scales = weights.blocks(["token_embd.weight"])
    width, heads = int(number("embedding_length")), int(number("attention.head_count"))
    if int(number("rope.dimension_count")) != width // heads or weights.has("rope_freqs.weight"):
        raise BrokenEdge("GGUF: only plain RoPE over whole heads is known; use engine llamacpp")
    return Dimensions(
        layers=int(number("block_count")),
        width=width,
        heads=heads,
        kv_heads=int(number("attention.head_count_kv")),
        head_width=width // heads,
        context_tokens=int(number("context_length")),
        vocabulary=len(table),
        rope_base=number("rope.freq_base"),
        epsilon=number("attention.layer_norm_rms_epsilon"),
        table=weights.put("table", table),
        table_scales=weights.put("table.scales", scales),
    )


class _Graph:
    """Nodes, inputs and outputs under construction."""

    def __init__(self, sizes: Dimensions, weights: Weights) -> None:
        self._sizes = sizes
        self._weights = weights
        self.nodes: list[NodeProto] = []
        self.inputs: list[ValueInfoProto] = []
        self.outputs: list[ValueInfoProto] = []

    def write(self) -> None:
        """Embedding in, logits out."""
        self._declare()
        stream, delta = "hidden", ""
        for layer in range(self._sizes.layers):
            normed, stream = self._norm(stream, delta, f"blk.{layer}.attn_norm.weight")
            delta = self._attention(normed, layer)
            normed, stream = self._norm(stream, delta, f"blk.{layer}.ffn_norm.weight")
            delta = self._feed_forward(normed, layer)
        normed, _ = self._norm(stream, delta, "output_norm.weight")
        self._weights.constant("flat", np.array([-1, self._sizes.width], np.int64))
        self._node("Reshape", [normed, "flat"], ["rows"])
        self._node("Gather", ["rows", "pick"], ["picked"], axis=0)
        if self._weights.has("output.weight"):
            self._linear("picked", ["output.weight"], "logits")
        else:
            size = self._sizes
            self._matmul(["picked", "table", "table.scales"], "logits", rows=size.vocabulary, columns=size.width)

    def _declare(self) -> None:
        from onnx import TensorProto
        from onnx.helper import make_tensor_value_info as info

        size = self._sizes
        # Plain floats here: numpy's power differs in the last bit between kinds of CPU.
        periods = np.array([size.rope_base ** (index / size.head_width) for index in range(0, size.head_width, 2)])
        angles = np.arange(size.context_tokens + SPARE_TOKENS)[:, None] / periods
        self._weights.put("cos", np.cos(angles).astype(np.float32))
        self._weights.put("sin", np.sin(angles).astype(np.float32))
        self.inputs += [
            info("hidden", TensorProto.FLOAT, ["batch", "run", size.width]),
            info("seqlens_k", TensorProto.INT32, ["batch"]),
            info("total", TensorProto.INT32, []),
            info("pick", TensorProto.INT64, ["rows"]),
        ]
        self.outputs.append(info("logits", TensorProto.FLOAT, ["rows", size.vocabulary]))
        cache: list[str | int | None] = ["batch", size.kv_heads, "capacity", size.head_width]
        for name in cache_names(size.layers):
            self.inputs.append(info(f"past_{name}", TensorProto.FLOAT, cache))
            self.outputs.append(info(f"present_{name}", TensorProto.FLOAT, cache))

    def _norm(self, stream: str, delta: str, name: str) -> tuple[str, str]:
        """RMS norm of stream + delta; gives (normed, sum)."""
        self._weights.constant(name, self._weights.vector(name))
        normed, total = f"{name}.normed", f"{name}.sum"
        epsilon = self._sizes.epsilon
        if not delta:
            self._node("SimplifiedLayerNormalization", [stream, name], [normed], axis=-1, epsilon=epsilon, stash_type=1)
            return normed, stream
        inputs, outputs = [stream, delta, name], [normed, "", "", total]
        self._node("SkipSimplifiedLayerNormalization", inputs, outputs, domain=_MICROSOFT, epsilon=epsilon)
        return normed, total

    def _attention(self, normed: str, layer: int) -> str:
        """GGUF keeps q and k in the order of interleaved RoPE."""
        prefix = f"blk.{layer}.attn"
        packed = self._linear(normed, [f"{prefix}_{part}.weight" for part in "qkv"], f"{prefix}.qkv")
        cache = [f"k{layer}", f"v{layer}"]
        self._node(
            "GroupQueryAttention",
            [packed, "", "", *(f"past_{name}" for name in cache), "seqlens_k", "total", "cos", "sin"],
            [f"{prefix}.mixed", *(f"present_{name}" for name in cache)],
            domain=_MICROSOFT,
            num_heads=self._sizes.heads,
            kv_num_heads=self._sizes.kv_heads,
            do_rotary=1,
            rotary_interleaved=1,
        )
        return self._linear(f"{prefix}.mixed", [f"{prefix}_output.weight"], f"{prefix}.out")

    def _feed_forward(self, normed: str, layer: int) -> str:
        """SwiGLU; QuickGelu with alpha 1 is x * sigmoid(x)."""
        prefix = f"blk.{layer}.ffn"
        both = self._linear(normed, [f"{prefix}_gate.weight", f"{prefix}_up.weight"], f"{prefix}.both")
        self._node("Split", [both], [f"{prefix}.gate", f"{prefix}.up"], axis=-1, num_outputs=2)
        self._node("QuickGelu", [f"{prefix}.gate"], [f"{prefix}.silu"], domain=_MICROSOFT, alpha=1.0)
        self._node("Mul", [f"{prefix}.silu", f"{prefix}.up"], [f"{prefix}.fed"])
        return self._linear(f"{prefix}.fed", [f"{prefix}_down.weight"], f"{prefix}.out")

    def _linear(self, source: str, names: list[str], target: str) -> str:
        blocks, scales = self._weights.blocks(names)
        self._weights.put(f"{target}.blocks", blocks)
        self._weights.put(f"{target}.scales", scales)
        columns = blocks.shape[1] * BLOCK
        return self._matmul([source, f"{target}.blocks", f"{target}.scales"], target, rows=len(blocks), columns=columns)

    def _matmul(self, inputs: list[str], target: str, *, rows: int, columns: int) -> str:
        """`accuracy_level` 4 lets ONNX Runtime quantize activations to int8, block by block, as llama.cpp does."""
        sizes = {"K": columns, "N": rows, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
        self._node("MatMulNBits", inputs, [target], domain=_MICROSOFT, **sizes)
        return target

    def _node(self, kind: str, inputs: list[str], outputs: list[str], domain: str = "", **settings: float) -> None:
        from onnx.helper import make_attribute, make_node

        node = make_node(kind, inputs, outputs, domain=domain)
        node.attribute.extend(make_attribute(key, value) for key, value in settings.items())
        self.nodes.append(node)


def cache_names(layers: int) -> list[str]:
    """The KV buffers in order, without `past_` and `present_`."""
    return [f"{part}{layer}" for layer in range(layers) for part in "kv"]
