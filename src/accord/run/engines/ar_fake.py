"""The fakes of the autoregressive engine: a model whose next token depends on all tokens before it, and bytes as text.

In: the calls of the ports in ar_model.py. Out: the same kinds of answers, with no weights.
Invariant: a call that a real model could not honour (a hole in the KV, two rows of a slot) is an error here.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from accord.run.engines.ar_model import Logits, ModelShape, Row, Turn

END = 256
VOCABULARY = 257


class FakeTokenModel:
    """Keeps each slot's tokens as its "KV"; `end_share` is how often the end token wins."""

    def __init__(self, shape: ModelShape, *, end_share: float = 0.02) -> None:
        self._shape = shape
        self._end_share = end_share
        self.kv: dict[int, list[int]] = {}

    @property
    def shape(self) -> ModelShape:
        """As given."""
        return self._shape

    def forward(self, rows: Sequence[Row]) -> Sequence[Logits | None]:
        """Logits drawn from a hash of the slot's whole content."""
        if len({row.slot for row in rows}) != len(rows):
            raise ValueError("two rows of one slot")
        return [self._row(row) for row in rows]

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Copies the tokens; an error if the source has fewer."""
        if len(self.kv.get(source, [])) < tokens:
            raise ValueError(f"slot {source} holds fewer than {tokens} tokens")
        self.kv[target] = self.kv[source][:tokens]

    def free(self, slot: int, keep: int) -> None:
        """Forgets all but the first tokens."""
        self.kv[slot] = self.kv.get(slot, [])[:keep]

    def blocks_used(self) -> int:
        """Blocks under all slots now."""
        size = self._shape.block_tokens
        return sum(-(-len(tokens) // size) for tokens in self.kv.values())

    def _row(self, row: Row) -> Logits | None:
        held = self.kv.setdefault(row.slot, [])
        if row.start > len(held) or row.slot >= self._shape.slots or len(row.tokens) > self._shape.prefill_tokens:
            raise ValueError(f"row {row} doesn't fit a slot of {len(held)} tokens")
        held[row.start :] = row.tokens
        if len(held) > self._shape.context_tokens:
            raise ValueError(f"slot {row.slot} holds {len(held)} tokens")
        if not row.logits:
            return None
        digest = blake2b(np.asarray(held, np.int32).tobytes(), digest_size=8).digest()
        rng = np.random.default_rng(int.from_bytes(digest, "little"))
        logits = rng.standard_normal(VOCABULARY).astype(np.float32)
        logits[END] = 20.0 if rng.random() < self._end_share else -20.0
        return logits


class FakeTextCodec:
    """Every byte is a token."""

    @property
    def piece_bytes_max(self) -> int:
        """One."""
        return 1

    def encode(self, turns: Sequence[Turn]) -> list[int]:
        """`role:text` lines as bytes."""
        return list("".join(f"{turn.role}:{turn.text}\n" for turn in turns).encode())

    def piece(self, token: int) -> bytes | None:
        """The byte itself."""
        return None if token == END else bytes([token])
