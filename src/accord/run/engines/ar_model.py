"""The floor of the autoregressive engine: a model that turns tokens into logits, and a codec for text.

In: `Row`s, each a run of tokens for one KV slot. Out: logits of the last token of each row that asks for them.
Invariant: a slot's KV is addressed by position; a row that starts before a slot's end replaces what follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What a loaded model can hold.

    One request has at most `context_tokens`. `slots` requests may hold KV at once, and together they hold at
    most `blocks` blocks of `block_tokens` tokens. `prefill_tokens` bounds the prompt tokens of one `forward`.
    `attention_tokens` is the position at which a token's attention costs as much as all its matrix products.
    `reuse`: whether KV may be copied between slots, and kept for a prompt that begins alike.
    """

    context_tokens: int
    slots: int
    block_tokens: int
    blocks: int
    prefill_tokens: int
    attention_tokens: int = 2048
    reuse: bool = True

    def __post_init__(self) -> None:
        if self.slots < 1 or not 2 <= self.context_tokens <= self.blocks * self.block_tokens:
            raise ValueError(f"a request at full context must fit: {self}")
        if self.prefill_tokens < 4:
            raise ValueError(f"runs of a prompt have at least 2 tokens, two to a step: {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Computes `tokens` at positions `start`, `start + 1` ... of `slot`; `decode` marks a row of one new token."""

    slot: int
    start: int
    tokens: tuple[int, ...]
    logits: bool
    decode: bool


class TokenModel(Protocol):
    """One set of weights with its KV slots. Called from one thread."""

    @property
    def shape(self) -> ModelShape:
        """Limits; constant."""
        ...

    def forward(self, rows: Sequence[Row]) -> Sequence[Logits | None]:
        """One answer a row: logits of its last token, (vocabulary,) float32, where the row asks for them.

        At most one row a slot. The arrays are the caller's to keep until the next call.
        """
        ...

    def copy(self, source: int, target: int, tokens: int) -> None:
        """Makes the KV of the first `tokens` positions of `target` equal to those of `source`."""
        ...

    def free(self, slot: int, keep: int) -> None:
        """Gives the memory of the slot's KV back, but for the first `keep` positions. Idempotent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a chat with all its parts joined."""

    role: str
    text: str


class TextCodec(Protocol):
    """Chats to token ids, and token ids back to bytes."""

    @property
    def piece_bytes_max(self) -> int:
        """The longest `piece`: no text of n bytes has fewer than n / piece_bytes_max tokens."""
        ...

    def encode(self, turns: Sequence[Turn]) -> list[int]:
        """The ids of the whole chat, ready for the assistant's answer. Text never becomes a control token."""
        ...

    def piece(self, token: int) -> bytes | None:
        """The bytes that a token stands for, perhaps a part of a character; None if it ends the answer."""
        ...
