"""Who holds which KV slot, and how many blocks: the budget of the autoregressive engine.

In: prompts that want room. Out: `Lease`s. Invariant: the blocks reserved by live requests plus those kept
for reuse never exceed the model's; a live request has reserved all that it can ever need, so it never waits
for room in mid-answer. Finished requests leave their KV behind until the room is wanted, and a new prompt
takes over the longest beginning that any slot already holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from accord.run.engines.ar_model import TokenModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A slot, and how many tokens at the beginning of the prompt it already holds."""

    slot: int
    ready: int


@dataclass(slots=True, kw_only=True)
class _Slot:
    """`tokens` are those whose KV may be reused; `blocks` are counted against the budget."""

    live: bool = False
    blocks: int = 0
    tokens: list[int] = field(default_factory=list)
    used_at: int = 0


class KvPool:
    """All slots of one model. `align`: reuse only whole multiples of this many tokens."""

    def __init__(self, model: TokenModel, *, align: int) -> None:
        self._model = model
        self._align = align
        self._slots = [_Slot() for _ in range(model.shape.slots)]
        self._clock = 0

    def fits(self, tokens: int) -> bool:
        """Whether `take` would find room for a request of this many tokens in all."""
        live = [slot for slot in self._slots if slot.live]
        room = self._model.shape.blocks - sum(slot.blocks for slot in live)
        return len(live) < len(self._slots) and self._blocks(tokens) <= room

    def take(self, prompt: Sequence[int], tokens: int) -> Lease:
        """Reserves room for `tokens` in all; only when `fits`."""
        source, ready = self._best(prompt)
        wanted = self._blocks(tokens)
        target = self._target(source, ready, wanted)
        self._make_room(wanted, target=target, source=source if ready else target)
        self._model.free(target, ready if source == target else 0)
        if ready and source != target:
            self._model.copy(source, target, ready)
        slot = self._slots[target]
        slot.live, slot.blocks, slot.tokens = True, wanted, list(prompt[:ready])
        return Lease(slot=target, ready=ready)

    def learn(self, slot: int, tokens: Sequence[int]) -> None:
        """Says that the slot now also holds these tokens, in a form fit for reuse."""
        self._slots[slot].tokens.extend(tokens)

    def leave(self, slot: int) -> None:
        """Ends a lease but keeps what may be reused, until the room is wanted."""
        held = self._slots[slot]
        if not self._model.shape.reuse:
            self.drop(slot)
            return
        self._clock += 1
        held.live, held.blocks, held.used_at = False, self._blocks(len(held.tokens)), self._clock
        self._model.free(slot, len(held.tokens))

    def drop(self, slot: int) -> None:
        """Ends a lease and gives its memory back."""
        self._slots[slot].live = False
        self._drop(slot)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._model.shape.block_tokens)

    def _best(self, prompt: Sequence[int]) -> tuple[int, int]:
        """The slot with the longest usable beginning. Two tokens at least stay to be computed, because
        engines compute single rows by other kernels than runs, which rounds otherwise."""
        limit = max(0, len(prompt) - 2) if self._model.shape.reuse else 0
        shared = [_common(prompt, slot.tokens, limit) // self._align * self._align for slot in self._slots]
        best = max(range(len(shared)), key=lambda index: (shared[index], not self._slots[index].live, -index))
        return best, shared[best]

    def _target(self, source: int, ready: int, wanted: int) -> int:
        """The source itself where little would be lost, or where it can't stay beside the new request;
        else the emptiest idle slot."""
        held = self._slots[source]
        if ready and not held.live:
            live_blocks = sum(slot.blocks for slot in self._slots if slot.live)
            if ready * 2 >= len(held.tokens) or live_blocks + held.blocks + wanted > self._model.shape.blocks:
                return source
        idle = [index for index, slot in enumerate(self._slots) if not slot.live and (index != source or not ready)]
        if not idle:
            return source
        return min(idle, key=lambda index: (len(self._slots[index].tokens) > 0, self._slots[index].used_at, index))

    def _make_room(self, wanted: int, *, target: int, source: int) -> None:
        """Evicts idle slots, least recently used first, until the target can hold `wanted` blocks."""
        idle = [index for index, slot in enumerate(self._slots) if not slot.live and index not in (target, source)]
        for index in sorted(idle, key=lambda index: self._slots[index].used_at):
            others = sum(slot.blocks for other, slot in enumerate(self._slots) if other != target)
            if others + wanted <= self._model.shape.blocks:
                return
            self._drop(index)

    def _drop(self, index: int) -> None:
        slot = self._slots[index]
        slot.blocks, slot.tokens = 0, []
        self._model.free(index, 0)


def _common(left: Sequence[int], right: Sequence[int], limit: int) -> int:
    size = min(len(left), len(right), limit)
    for index in range(size):
        if left[index] != right[index]:
            return index
    return size
