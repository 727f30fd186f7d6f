"""A small world around an `ArEngine`: jobs in, what came of each out.

In: prompts as text. Out: joined text and the ending of each job. Invariant: every promise of the `Engine` port
and of the budget that can be seen from outside is asserted at every step.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from accord.run.engines.ar import ArEngine
from accord.run.engines.ar_fake import FakeTextCodec, FakeTokenModel
from accord.run.engines.ar_model import Logits, ModelShape, Row
from accord.run.payloads import Message, Prompt, TextPart, pack_prompt
from accord.run.ports import Chunk, Emission, Engine, Job, JobDone, JobFailed, Step
from accord.terms.graph import DOOR, Payload
from accord.terms.request import Params


class WatchedModel(FakeTokenModel):
    """The fake, with what was asked of it kept and its budget asserted."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__(shape)
        self.steps: list[tuple[Row, ...]] = []

    def forward(self, rows: Sequence[Row]) -> Sequence[Logits | None]:
        self.steps.append(tuple(rows))
        prompts = sum(len(row.tokens) for row in rows if not row.decode)
        decodes = [row for row in rows if row.decode]
        assert all(len(row.tokens) == 1 for row in decodes)
        assert prompts <= (self.shape.prefill_tokens // 2 if decodes else self.shape.prefill_tokens)
        answers = super().forward(rows)
        assert self.blocks_used() <= self.shape.blocks
        return answers

    def copy(self, source: int, target: int, tokens: int) -> None:
        super().copy(source, target, tokens)
        assert self.blocks_used() <= self.shape.blocks


@dataclass
class Outcome:
    text: str = ""
    ending: JobDone | JobFailed | None = None
    cancelled: bool = False


@dataclass
class World:
    """One engine and its jobs."""

    engine: Engine
    jobs: dict[int, Outcome] = field(default_factory=dict)

    def ask(self, text: str, params: Params, *, system: str = "") -> int:
        """Feeds a whole job."""
        request_id = len(self.jobs) + 1
        self.jobs[request_id] = Outcome()
        job = Job(request_id=request_id, params=params, inputs=frozenset({DOOR}))
        turns = [Message(role="system", parts=(TextPart(text=system),))] if system else []
        prompt = Prompt(messages=(*turns, Message(role="user", parts=(TextPart(text=text),))))
        data = memoryview(pack_prompt(prompt))
        chunk = Chunk(source=DOOR, payload=Payload.PROMPT, index=0, data=data, meta=b"", release=lambda: None)
        self.engine.feed(job, chunk)
        self.engine.feed(job, None)
        return request_id

    def step(self, blocked: Set[int] = frozenset()) -> Step:
        """One step, with its outputs kept."""
        step = self.engine.step(blocked)
        assert not set(step.worked) & set(blocked)
        for output in step.outputs:
            outcome = self.jobs[output.request_id]
            assert outcome.ending is None
            assert not outcome.cancelled
            match output:
                case Emission():
                    assert output.request_id in step.worked
                    outcome.text += b"".join(output.buffers).decode()
                case JobDone() | JobFailed():
                    outcome.ending = output
        return step

    def cancel(self, request_id: int) -> None:
        self.engine.cancel(request_id)
        if self.jobs[request_id].ending is None:
            self.jobs[request_id].cancelled = True

    def run(self, steps_max: int = 100_000) -> None:
        """Steps until the engine says that there is nothing more to do."""
        for _ in range(steps_max):
            if not self.step().more:
                return
        raise AssertionError(f"not done after {steps_max} steps")


def fake_world(shape: ModelShape, *, deterministic: bool = False) -> tuple[World, WatchedModel]:
    """A world over the fake model."""
    model = WatchedModel(shape)
    return World(ArEngine(model, FakeTextCodec(), deterministic=deterministic)), model
