"""Continuous batching: many answers under way in one model, a token each at every step.

In: PROMPT and TEXT chunks through the `Engine` port. Out: TEXT deltas, then one JobDone or JobFailed a job.
Invariant: one step computes at most one token for each running answer plus a bounded run of prompt tokens,
so new requests join while others generate, and nobody's step is long. Requests wait for KV room in order of
arrival; those that prefill take turns. Tokens depend on the request alone as far as the model's rows do.
"""

from collections import deque
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace

import msgspec

from accord.run.engines.ar_kv import KvPool
from accord.run.engines.ar_model import Logits, Row, TextCodec, TokenModel, Turn
from accord.run.engines.ar_sampler import Sampler
from accord.run.engines.ar_text import TextStream
from accord.run.engines.gather import Gather
from accord.run.ports import Chunk, Emission, Job, JobDone, JobFailed, Output, Step
from accord.terms.errors import BadInput
from accord.terms.graph import Payload
from accord.terms.request import ErrorCode, FinishReason, Usage

_ADMITTED_A_STEP_MAX = 4


@dataclass(slots=True)
class _Inbox:
    """A job whose inputs are still coming in, or whose end is known but not yet told."""

    job: Job
    gather: Gather = field(default_factory=Gather)
    ended: bool = False


@dataclass(slots=True, kw_only=True)
class _Answer:
    """A job that has its prompt. KV exists for the first `computed` of `tokens`."""

    job: Job
    tokens: list[int]
    prompt_tokens: int
    sampler: Sampler
    text: TextStream
    slot: int = -1
    computed: int = 0

    @property
    def room(self) -> int:
        """Positions that it may need in all; the last token sampled is never computed."""
        return self.prompt_tokens + self.job.params.max_tokens - 1

    @property
    def decoding(self) -> bool:
        """Whether its prompt is computed, so that it takes one token a step."""
        return len(self.tokens) > self.prompt_tokens


class ArEngine:
    """An `Engine` over any `TokenModel`.

    `deterministic`: prompts are computed in runs whose borders are the same whatever else runs, and only
    whole such runs are reused, so that a model whose rows don't influence each other gives the same bits.
    A step computes at most the model's `prefill_tokens` of prompts, half of that while others decode, and fewer
    far into a long prompt, where each costs more.
    """

    def __init__(self, model: TokenModel, codec: TextCodec, *, deterministic: bool) -> None:
        self._model = model
        self._codec = codec
        self._deterministic = deterministic
        self._run_tokens = max(1, model.shape.prefill_tokens // 2)
        self._pool = KvPool(model, align=self._run_tokens if deterministic else 1)
        self._inboxes: dict[int, _Inbox] = {}
        self._ready: deque[_Inbox] = deque()
        self._waiting: deque[_Answer] = deque()
        self._running: dict[int, _Answer] = {}

    def feed(self, job: Job, chunk: Chunk | None) -> None:
        """Keeps the chunk's bytes; the work is done in `step`."""
        inbox = self._inboxes.get(job.request_id)
        if inbox is None:
            inbox = self._inboxes[job.request_id] = _Inbox(job)
        if chunk is not None:
            inbox.gather.take(chunk)
        elif not inbox.ended:
            inbox.ended = True
            self._ready.append(inbox)

    def step(self, blocked: Set[int]) -> Step:
        """Admits, computes one batch, and hands out what it gave."""
        outputs: list[Output] = list(self._prepare(blocked))
        self._admit(blocked)
        chosen = [answer for answer in self._running.values() if answer.job.request_id not in blocked]
        batch = list(self._plan(chosen))
        if batch:
            answers = self._model.forward([row for _, row in batch])
            for (answer, row), logits in zip(batch, answers, strict=True):
                outputs.extend(self._advance(answer, row, logits))
        worked = tuple(answer.job.request_id for answer, _ in batch)
        return Step(outputs=outputs, more=self._more(blocked), worked=worked)

    def cancel(self, request_id: int) -> None:
        """Forgets the job; its KV is free when this returns."""
        inbox = self._inboxes.pop(request_id, None)
        if inbox is None:
            return
        self._ready = deque(item for item in self._ready if item is not inbox)
        self._waiting = deque(item for item in self._waiting if item.job.request_id != request_id)
        answer = self._running.pop(request_id, None)
        if answer is not None:
            self._pool.drop(answer.slot)

    def _more(self, blocked: Set[int]) -> bool:
        if any(request_id not in blocked for request_id in self._running):
            return True
        if any(inbox.job.request_id not in blocked for inbox in self._ready):
            return True
        head = self._head(blocked)
        return head is not None and self._pool.fits(head.room)

    def _prepare(self, blocked: Set[int]) -> Iterator[JobFailed]:
        """Turns a few complete inboxes into answers that wait for room, or into failures."""
        chosen = [inbox for inbox in self._ready if inbox.job.request_id not in blocked][:_ADMITTED_A_STEP_MAX]
        for inbox in chosen:
            self._ready.remove(inbox)
            try:
                self._waiting.append(self._start(inbox))
            except BadInput as error:
                del self._inboxes[inbox.job.request_id]
                yield JobFailed(request_id=inbox.job.request_id, code=ErrorCode.BAD_INPUT, text=str(error))

    def _start(self, inbox: _Inbox) -> _Answer:
        params = inbox.job.params
        turns = tuple(Turn(role=role, text=text) for role, text in inbox.gather.messages())
        limit = self._model.shape.context_tokens
        tokens_min = max(len(turns), sum(len(turn.text.encode()) for turn in turns) // self._codec.piece_bytes_max)
        if tokens_min >= limit:
            raise _too_long(f"at least {tokens_min}", limit)
        tokens = self._codec.encode(turns)
        if len(tokens) >= limit:
            raise _too_long(str(len(tokens)), limit)
        if params.max_tokens < 1:
            raise BadInput(field="max_tokens", value=params.max_tokens, problem="no answer", fix="ask for 1 or more")
        # An answer can't be longer than what the context leaves; one that gets there ends with `length`.
        params = replace(params, max_tokens=min(params.max_tokens, limit - len(tokens)))
        return _Answer(
            job=msgspec.structs.replace(inbox.job, params=params),
            tokens=tokens,
            prompt_tokens=len(tokens),
            sampler=Sampler(params),
            text=TextStream(params.stop),
        )

    def _head(self, blocked: Set[int]) -> _Answer | None:
        return next((answer for answer in self._waiting if answer.job.request_id not in blocked), None)

    def _admit(self, blocked: Set[int]) -> None:
        """First come, first served: nobody overtakes a request that waits for room."""
        while (head := self._head(blocked)) is not None and self._pool.fits(head.room):
            self._waiting.remove(head)
            lease = self._pool.take(head.tokens, head.room)
            head.slot, head.computed = lease.slot, lease.ready
            self._running[head.job.request_id] = head

    def _plan(self, chosen: Sequence[_Answer]) -> Iterator[tuple[_Answer, Row]]:
        """One row for each decoding answer, then runs of prompts, in turn, within the step's bound."""
        decoding = [answer for answer in chosen if answer.decoding]
        for answer in decoding:
            yield answer, _row(answer, 1)
        bound = self._run_tokens if decoding else 2 * self._run_tokens
        longest = self._run_tokens if self._deterministic else bound
        budget = bound
        for answer in chosen:
            if answer.decoding:
                continue
            shift = (1 + answer.computed // self._model.shape.attention_tokens).bit_length() - 1
            size = self._size(answer, max(2, longest >> shift))
            cost = min(size << shift, bound)
            if cost > budget:
                return
            budget -= cost
            self._running[answer.job.request_id] = self._running.pop(answer.job.request_id)
            yield answer, _row(answer, size)

    def _size(self, answer: _Answer, longest: int) -> int:
        """How much of the prompt to compute next."""
        left = answer.prompt_tokens - answer.computed
        size = min(left, longest)
        if self._deterministic:
            return min(size, self._run_tokens - answer.computed % self._run_tokens)
        return size - 1 if left - size == 1 else size  # a lone last token would be rounded otherwise: see KvPool

    def _advance(self, answer: _Answer, row: Row, logits: Logits | None) -> Iterator[Output]:
        answer.computed = row.start + len(row.tokens)
        if not (row.decode and self._deterministic):
            self._pool.learn(answer.slot, row.tokens)
        if logits is None:
            return
        token = answer.sampler.choose(logits)
        answer.tokens.append(token)
        piece = self._codec.piece(token)
        shown = answer.text.push(piece) if piece is not None else ""
        reason = self._reason(answer, piece)
        if reason is not None:
            shown += answer.text.finish()
        if shown:
            yield Emission(request_id=answer.job.request_id, payload=Payload.TEXT, buffers=(shown.encode(),))
        if reason is not None:
            yield self._end(answer, reason)

    def _reason(self, answer: _Answer, piece: bytes | None) -> FinishReason | None:
        if piece is None or answer.text.stopped:
            return FinishReason.STOP
        if len(answer.tokens) - answer.prompt_tokens >= answer.job.params.max_tokens:
            return FinishReason.LENGTH
        return None

    def _end(self, answer: _Answer, reason: FinishReason) -> JobDone:
        del self._running[answer.job.request_id]
        del self._inboxes[answer.job.request_id]
        self._pool.leave(answer.slot)
        usage = Usage(
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=len(answer.tokens) - answer.prompt_tokens,
            finish_reason=reason,
        )
        return JobDone(request_id=answer.job.request_id, usage=usage)


def _row(answer: _Answer, size: int) -> Row:
    end = answer.computed + size
    return Row(
        slot=answer.slot,
        start=answer.computed,
        tokens=tuple(answer.tokens[answer.computed : end]),
        logits=end == len(answer.tokens),
        decode=answer.decoding,
    )


def _too_long(tokens: str, limit: int) -> BadInput:
    return BadInput(
        field="messages",
        value=f"{tokens} tokens",
        problem=f"the context holds {limit} with the answer",
        fix="shorten or drop messages",
    )
