"""Engine `llamacpp`: any GGUF through llama.cpp, by the cyllama binding.

In: an EngineSpec whose assets hold one GGUF. Out: an `ArEngine`.
Invariant: a KV slot is a sequence id. llama.cpp rounds by batch size and by where in the cache a token lies,
so in deterministic mode every row is a call of its own, and every slot has its own equal part of the cache.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from accord.run.engines.ar import ArEngine
from accord.run.engines.ar_model import Logits, ModelShape, Row, Turn
from accord.run.engines.gguf_chat import ChatTemplate, byte_piece
from accord.run.engines.gguf_spec import find_gguf, shape_of
from accord.run.engines.options import read_options
from accord.run.ports import Engine, EngineSpec
from accord.terms.errors import BrokenEdge

if TYPE_CHECKING:
    from cyllama.llama.llama_cpp import LlamaContext, LlamaModel

_BLOCK_TOKENS = 256  # llama.cpp pads a sequence's part of the cache to this
_VALUE_BYTES = 2  # its cache is float16


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`context_tokens`: at most so many tokens a request. `prefill_tokens`: prompt tokens of a step. `system`: the
    system message of chats that bring none, instead of the one in the model's template."""

    context_tokens: int = 1 << 20
    prefill_tokens: int = 32
    system: str = ""


def load(spec: EngineSpec) -> Engine:
    """Loads the GGUF; BrokenEdge if llama.cpp can't."""
    options = read_options(spec, Options)
    source = find_gguf(spec)
    weights = open_weights(source)
    codec = LlamaCppText(weights, system=options.system)
    return ArEngine(LlamaCpp(weights, spec, options), codec, deterministic=spec.deterministic)


def open_weights(source: Path) -> "LlamaModel":
    """A model with readable logits; BrokenEdge if llama.cpp can't load it."""
    from cyllama.llama import llama_cpp as binding

    binding.disable_logging()
    # cyllama 0.2.18 reads `model.n_vocab` where it hands out logits, but its own model class lacks it.
    kind = type("Weights", (binding.LlamaModel,), {"n_vocab": property(lambda model: model.get_vocab().n_vocab)})
    try:
        weights: LlamaModel = kind(str(source), binding.LlamaModelParams())
    except (ValueError, OSError) as error:
        raise BrokenEdge(f"{source}: llama.cpp can't load it: {error}; fetch the weights again") from error
    return weights


class LlamaCpp:
    """A `TokenModel` over one llama.cpp context."""

    def __init__(self, weights: "LlamaModel", spec: EngineSpec, options: Options) -> None:
        from cyllama.llama import llama_cpp as binding

        head_width = weights.n_embd // weights.n_head
        shape = shape_of(
            spec,
            token_bytes=2 * weights.n_layer * weights.n_head_kv * head_width * _VALUE_BYTES,
            context_tokens=min(weights.n_ctx_train, options.context_tokens),
            block_tokens=_BLOCK_TOKENS,
            prefill_tokens=options.prefill_tokens,
            width=weights.n_embd,
        )
        self._shape = _parted(shape) if spec.deterministic else shape
        self._alone = spec.deterministic
        self._batch_tokens = self._shape.slots + self._shape.prefill_tokens
        settings = binding.LlamaContextParams()
        settings.n_ctx = self._shape.blocks * _BLOCK_TOKENS
        settings.n_seq_max = self._shape.slots
        settings.kv_unified = not spec.deterministic
        settings.n_batch = settings.n_ubatch = self._batch_tokens
        settings.n_threads = settings.n_threads_batch = spec.threads
        try:
            self._context: LlamaContext = binding.LlamaContext(weights, settings)
        except (ValueError, RuntimeError, MemoryError) as error:
            raise BrokenEdge(f"stages.{spec.stage}: llama.cpp can't hold {settings.n_ctx} tokens: {error}") from error
        self._batch = binding.LlamaBatch(n_tokens=self._batch_tokens, embd=0, n_seq_max=self._shape.slots)

    @property
    def shape(self) -> ModelShape:
        """As the budget allows."""
        return self._shape

    def forward(self, rows: Sequence[Row]) -> Sequence[Logits | None]:
        """One call for all rows, or one each in deterministic mode."""
        if self._alone:
            return [logits for row in rows for logits in self._call([row])]
        return self._call(rows)

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Shares cells between the two sequences."""
        self.free(target, 0)
        self._context.memory_seq_cp(source, target, 0, tokens)

    def free(self, slot: int, keep: int) -> None:
        """Gives the cells back to the cache, which itself keeps its size."""
        self._context.memory_seq_rm(slot, keep, -1)

    def _call(self, rows: Sequence[Row]) -> list[Logits | None]:
        self._batch.clear()
        lasts = []
        for row in rows:
            self._context.memory_seq_rm(row.slot, row.start, -1)
            for index, token in enumerate(row.tokens):
                last = index + 1 == len(row.tokens)
                self._batch.add(token, row.start + index, [row.slot], last and row.logits)
            lasts.append(self._batch.n_tokens - 1)
        self._context.decode(self._batch)
        return [
            np.array(self._context.get_logits_ith(last), np.float32) if row.logits else None
            for row, last in zip(rows, lasts, strict=True)
        ]


class LlamaCppText:
    """A `TextCodec` by llama.cpp's own tokenizer."""

    def __init__(self, weights: "LlamaModel", *, system: str) -> None:
        self._weights = weights  # the vocabulary points into it, without holding it
        self._vocabulary = weights.get_vocab()
        size = range(self._vocabulary.n_vocab)
        kind = weights.meta_val_str("tokenizer.ggml.model")
        if kind != "gpt2":
            raise BrokenEdge(f"GGUF: tokenizer.ggml.model: {kind}: only byte-level BPE (gpt2) is known")
        names = {token: self._vocabulary.get_text(token) for token in size}
        self._controls = {name: token for token, name in names.items() if self._vocabulary.is_control(token)}
        self._pieces = [b"" if names[token] in self._controls else byte_piece(names[token]) for token in size]
        self._ends = frozenset(token for token in self._controls.values() if self._vocabulary.is_eog(token))
        self._chat = ChatTemplate(
            weights.get_default_chat_template(),
            controls=tuple(self._controls),
            bos=names.get(self._vocabulary.token_bos(), ""),
            eos=names.get(self._vocabulary.token_eos(), ""),
            system=system,
        )
        self.piece_bytes_max = max(len(piece) for piece in self._pieces)

    def encode(self, turns: Sequence[Turn]) -> list[int]:
        """The chat through its template, control tokens only where the template wrote them."""
        ids: list[int] = []
        for part, control in self._chat.segments(turns):
            ids.extend([self._controls[part]] if control else self._vocabulary.tokenize(part, False, False))
        return ids

    def piece(self, token: int) -> bytes | None:
        """Control tokens that don't end the answer are empty."""
        return None if token in self._ends else self._pieces[token]


def _parted(shape: ModelShape) -> ModelShape:
    """The same budget in equal parts, one a slot. A budget too small for that has fewer slots."""
    slots = min(shape.slots, shape.blocks)
    blocks = min(shape.blocks // slots, shape.context_tokens // _BLOCK_TOKENS)
    context = blocks * _BLOCK_TOKENS
    return replace(shape, slots=slots, context_tokens=context, blocks=slots * blocks, reuse=False)
