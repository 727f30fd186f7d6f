"""Engine `onnxruntime`: a llama-style GGUF as a batched ONNX Runtime graph with a KV cache of our own.

In: an EngineSpec whose assets hold one GGUF. Out: an `ArEngine`.
Invariant: a row's logits have the same bits alone and in any batch. The kernels of ONNX Runtime keep that on
the machines seen so far; it is checked at load, and in deterministic mode rows run one by one if it fails.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from accord.run.engines.ar import ArEngine
from accord.run.engines.ar_model import Logits, ModelShape, Row
from accord.run.engines.gguf_graph import GRAPH, SPARE_TOKENS, cache_names
from accord.run.engines.gguf_pack import Pack, open_pack
from accord.run.engines.gguf_spec import find_gguf, shape_of
from accord.run.engines.gguf_text import GgufText
from accord.run.engines.gguf_weights import WEIGHTS, Place, restore
from accord.run.engines.options import read_options
from accord.run.engines.ort_kv import KvMemory, block_tokens
from accord.run.ports import Engine, EngineSpec
from accord.terms.errors import BrokenEdge

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, IOBinding

Scalar = TypeVar("Scalar", bound=np.generic)

_HOLE_MAX = 3  # a dummy row costs about a fourth of starting another run


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`cache_dir`: where built graphs are kept, by default beside the folder of weights. `context_tokens`: at
    most so many tokens a request. `prefill_tokens`: prompt tokens of a step, which bounds how long it takes.
    `system`: the system message of chats that bring none, instead of the one in the model's template."""

    cache_dir: str = ""
    context_tokens: int = 1 << 20
    prefill_tokens: int = 64
    system: str = ""


def load(spec: EngineSpec) -> Engine:
    """Builds or finds the graph, loads it, and runs it once so that the first request finds it warm."""
    options = read_options(spec, Options)
    source = find_gguf(spec)
    pack = open_pack(
        source, Path(options.cache_dir) if options.cache_dir else Path(spec.assets[0][1]).parent / ".graphs"
    )
    model = OrtLlama(pack, spec, options)
    return ArEngine(model, GgufText(pack.folder, pack.text, system=options.system), deterministic=spec.deterministic)


class OrtLlama:
    """A `TokenModel`. Prompts run one by one, decoding rows of neighbouring slots together."""

    def __init__(self, pack: Pack, spec: EngineSpec, options: Options) -> None:
        size = pack.dimensions
        self._shape = shape_of(
            spec,
            token_bytes=2 * size.layers * size.kv_heads * size.head_width * 4,
            context_tokens=min(size.context_tokens, options.context_tokens),
            block_tokens=block_tokens(size.head_width),
            prefill_tokens=options.prefill_tokens,
            width=size.width,
        )
        self._width = size.width
        self._caches = cache_names(size.layers)
        self._kv = KvMemory(
            caches=len(self._caches),
            slots=self._shape.slots,
            heads=size.kv_heads,
            capacity=self._shape.context_tokens + max(SPARE_TOKENS, self._shape.block_tokens),
            width=size.head_width,
        )
        self._table = _map(pack.folder, size.table, np.uint8)
        self._scales = _map(pack.folder, size.table_scales, np.float32)
        self._session = _open(pack.folder / GRAPH, spec.threads)
        self._bindings: dict[tuple[int, int], IOBinding] = {}
        self._held = [0] * self._shape.slots
        self._alone = False
        independent = self._rows_independent()
        self._alone = spec.deterministic and not independent

    @property
    def shape(self) -> ModelShape:
        """As the budget allows."""
        return self._shape

    @property
    def alone(self) -> bool:
        """Whether rows run one by one, because this machine's kernels round otherwise in batches."""
        return self._alone

    def forward(self, rows: Sequence[Row]) -> Sequence[Logits | None]:
        """One run a prompt row, one run a group of decoding rows."""
        answers: list[Logits | None] = [None] * len(rows)
        for group in self._groups(rows):
            chosen = [rows[index] for index in group]
            wanted = [index for index in group if rows[index].logits]
            for index, logits in zip(wanted, self._run(chosen), strict=True):
                answers[index] = logits
        return answers

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Copies memory: far quicker than computing it again."""
        self._kv.copy(source, target, tokens)
        self._held[target] = tokens

    def free(self, slot: int, keep: int) -> None:
        """Gives pages back to the system."""
        if self._held[slot] > keep:
            self._kv.free(slot, keep)
            self._held[slot] = keep

    def _groups(self, rows: Sequence[Row]) -> Iterator[list[int]]:
        """Indices of rows that run together: their slots lie close to each other."""
        group: list[int] = []
        for index in sorted(range(len(rows)), key=lambda index: (not rows[index].decode, rows[index].slot)):
            row = rows[index]
            near = bool(group) and row.decode and row.slot - rows[group[-1]].slot <= _HOLE_MAX + 1
            if group and (self._alone or not near):
                yield group
                group = []
            group.append(index)
        if group:
            yield group

    def _run(self, rows: Sequence[Row]) -> Sequence[Logits]:
        """Runs slots first to last; those between without a row compute nothing of use behind their end."""
        first, count, length = rows[0].slot, rows[-1].slot - rows[0].slot + 1, len(rows[0].tokens)
        hidden = np.zeros((count, length, self._width), np.float32)
        starts = np.array(self._held[first : first + count], np.int32)
        for row in rows:
            hidden[row.slot - first] = restore(self._table[list(row.tokens)], self._scales[list(row.tokens)])
            starts[row.slot - first] = row.start
        pick = np.array([(row.slot - first + 1) * length - 1 for row in rows if row.logits], np.int64)
        binding = self._binding(first, count)
        binding.bind_cpu_input("hidden", hidden)
        binding.bind_cpu_input("seqlens_k", starts + np.int32(length - 1))
        binding.bind_cpu_input("total", np.array(int(starts.max()) + length, np.int32))
        binding.bind_cpu_input("pick", pick)
        binding.bind_output("logits", "cpu")
        self._session.run_with_iobinding(binding)
        for row in rows:
            self._held[row.slot] = row.start + length
        logits: npt.NDArray[np.float32] = binding.get_outputs()[0].numpy()
        return list(logits)

    def _binding(self, first: int, count: int) -> "IOBinding":
        """The KV of these slots as inputs and outputs; kept, since binding costs more than small kernels do."""
        found = self._bindings.get((first, count))
        if found is not None:
            return found
        binding = self._bindings[first, count] = self._session.io_binding()
        binding.bind_output("logits", "cpu")
        for index, name in enumerate(self._caches):
            view = self._kv.view(index, first, count)
            place = ("cpu", 0, np.float32, view.shape, view.ctypes.data)
            binding.bind_input(f"past_{name}", *place)
            binding.bind_output(f"present_{name}", *place)
        return binding

    def _rows_independent(self) -> bool:
        """Whether a row has the same bits alone and in batches of every size."""
        slots = range(self._shape.slots)
        self.forward([Row(slot=0, start=0, tokens=tuple(range(1, 9)), logits=False, decode=False)])
        rows = [Row(slot=slot, start=0 if slot else 8, tokens=(9,), logits=True, decode=True) for slot in slots]
        seen = {np.asarray(self.forward(rows[: slot + 1])[0]).tobytes() for slot in slots}
        for slot in slots:
            self.free(slot, 0)
        return len(seen) == 1


def _open(graph: Path, threads: int) -> "InferenceSession":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors share no narrower base than this
        raise BrokenEdge(f"{graph}: ONNX Runtime can't load it: {error}; delete its folder") from error


def _map(folder: Path, place: Place, kind: type[Scalar]) -> npt.NDArray[Scalar]:
    return np.memmap(folder / WEIGHTS, kind, "r", offset=place.offset, shape=place.shape)
