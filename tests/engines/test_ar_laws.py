"""Laws of continuous batching, over the fake model: budget, fairness, isolation, endings."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.run.engines.ar_fake import END, FakeTextCodec, FakeTokenModel
from accord.run.engines.ar_model import ModelShape, Row, Turn
from accord.run.engines.ar_sampler import Sampler
from accord.run.ports import JobDone, JobFailed
from accord.terms.request import ErrorCode, FinishReason, Params
from tests.engines.ar_world import World, fake_world

SHAPE = ModelShape(context_tokens=96, slots=3, block_tokens=4, blocks=40, prefill_tokens=16)
PROMPTS = ("hi", "hi there, how are you", "hi there, how is the weather today in the north", "x" * 60, "ünïcödé")


@dataclass(frozen=True)
class Ask:
    text: str
    params: Params
    at_step: int
    cancel_at_step: int | None


params = st.builds(
    Params,
    max_tokens=st.integers(1, 24),
    temperature=st.sampled_from((0.0, 0.7, 1.5)),
    top_p=st.sampled_from((1.0, 0.9, 0.1)),
    seed=st.integers(0, 5),
    stop=st.sampled_from(((), ("e",), ("ab", "\ufffd\ufffd"), ("zzzz",))),
)
asks = st.lists(
    st.builds(
        Ask,
        text=st.sampled_from(PROMPTS),
        params=params,
        at_step=st.integers(0, 30),
        cancel_at_step=st.none() | st.integers(0, 60),
    ),
    min_size=1,
    max_size=10,
)
shapes = st.builds(
    ModelShape,
    context_tokens=st.just(96),
    slots=st.integers(1, 4),
    block_tokens=st.sampled_from((1, 4, 16)),
    blocks=st.integers(96, 150),
    prefill_tokens=st.integers(4, 20),
    attention_tokens=st.sampled_from((8, 2048)),
)


def alone(text: str, asked: Params) -> str:
    """The answer by the plainest way there is: one slot, one token after the other, text cut at the end."""
    shape = ModelShape(context_tokens=256, slots=1, block_tokens=1, blocks=256, prefill_tokens=256)
    model, sampler = FakeTokenModel(shape), Sampler(asked)
    tokens = FakeTextCodec().encode([Turn(role="user", text=text)])
    answer = bytearray()
    for _ in range(asked.max_tokens):
        row = Row(slot=0, start=0, tokens=tuple(tokens), logits=True, decode=False)
        logits = model.forward([row])[0]
        assert logits is not None
        token = sampler.choose(logits)
        if token == END:
            break
        tokens.append(token)
        answer.append(token)
        shown = _cut(bytes(answer), asked.stop, whole=False)
        if shown is not None:
            return shown
    return _cut(bytes(answer), asked.stop, whole=True) or ""


def _cut(answer: bytes, stop: tuple[str, ...], *, whole: bool) -> str | None:
    """The text before the first stop string, if there is one; without one, all of it when `whole`."""
    text = answer.decode(errors="replace")
    if not whole:
        # An unfinished character at the end is not text yet.
        text = answer.decode(errors="ignore") if answer.decode(errors="replace").endswith("\ufffd") else text
    found = [text.find(item) for item in stop if item in text]
    if found:
        return text[: min(found)]
    return text if whole else None


def drive(world: World, plan: list[Ask], blocked_steps: list[set[int]]) -> list[int]:
    """Runs the plan to its end; gives the request ids in the order of `plan`."""
    ids: dict[int, int] = {}
    for number in range(5000):
        for index, ask in enumerate(plan):
            if ask.at_step == number:
                ids[index] = world.ask(ask.text, ask.params)
            if ask.cancel_at_step == number and index in ids:
                world.cancel(ids[index])
        blocked = blocked_steps[number] if number < len(blocked_steps) else set()
        more = world.step(blocked).more
        if not more:
            again = world.step(blocked)
            assert not again.outputs
            assert not again.worked
        if number > 60 and not more:
            return [ids[index] for index in range(len(plan))]
    raise AssertionError("jobs starve")


@given(shape=shapes, plan=asks, blocked=st.lists(st.sets(st.integers(1, 10)), max_size=40), fixed=st.booleans())
def test_every_job_ends_once_with_the_text_it_would_have_alone(
    shape: ModelShape, plan: list[Ask], blocked: list[set[int]], fixed: bool
) -> None:
    world, model = fake_world(shape, deterministic=fixed)
    ids = drive(world, plan, blocked)
    for ask, request_id in zip(plan, ids, strict=True):
        outcome = world.jobs[request_id]
        if outcome.cancelled:
            assert outcome.ending is None
            continue
        assert isinstance(outcome.ending, JobDone)
        if not any("\ufffd" in item for item in ask.params.stop):
            assert outcome.text == alone(ask.text, ask.params)
    assert model.blocks_used() <= shape.blocks


@given(plan=st.lists(st.tuples(st.sampled_from(PROMPTS), st.integers(1, 30)), min_size=2, max_size=12))
def test_requests_are_admitted_in_their_order(plan: list[tuple[str, int]]) -> None:
    world, _ = fake_world(SHAPE)
    ids = [world.ask(text, Params(max_tokens=size)) for text, size in plan]
    first: list[int] = []
    while True:
        step = world.step()
        first.extend(sorted(request_id for request_id in step.worked if request_id not in first))
        if not step.more:
            break
    assert first == sorted(ids)
    assert all(isinstance(outcome.ending, JobDone) for outcome in world.jobs.values())


def test_answers_go_on_while_a_long_prompt_is_computed() -> None:
    world, _ = fake_world(SHAPE)
    early = world.ask("hi", Params(max_tokens=24, temperature=1.0, seed=4))
    world.step()
    late = world.ask("y" * 60, Params(max_tokens=1))
    both = 0
    while world.jobs[late].ending is None and world.jobs[early].ending is None:
        both += set(world.step().worked) == {early, late}
    assert both >= 60 // (SHAPE.prefill_tokens // 2)


@pytest.mark.parametrize("fixed", [False, True])
def test_steps_stay_short_far_into_a_long_prompt(fixed: bool) -> None:
    """Each prompt token weighs 1 + position / attention_tokens; a step weighs at most about twice the first one."""
    shape = ModelShape(context_tokens=512, slots=1, block_tokens=1, blocks=512, prefill_tokens=32, attention_tokens=64)
    world, model = fake_world(shape, deterministic=fixed)
    world.ask("x" * 400, Params(max_tokens=1))
    world.run()
    weights = [sum(len(row.tokens) * (1 + row.start / 64) for row in rows) for rows in model.steps]
    assert max(weights) < 2 * shape.prefill_tokens
    assert sum(len(row.tokens) for rows in model.steps for row in rows) == len("user:\n") + 400


def test_a_blocked_request_keeps_its_kv_and_goes_on_later() -> None:
    world, model = fake_world(SHAPE)
    held = world.ask("hi", Params(max_tokens=10, seed=1, temperature=1.0))
    world.step()
    before = model.blocks_used()
    assert not world.step({held}).more
    assert model.blocks_used() == before
    world.run()
    assert world.jobs[held].text == alone("hi", Params(max_tokens=10, seed=1, temperature=1.0))


def test_requests_wait_while_the_kv_is_full_and_cancelling_makes_room_at_once() -> None:
    world, model = fake_world(ModelShape(context_tokens=96, slots=4, block_tokens=4, blocks=24, prefill_tokens=16))
    big = world.ask("x" * 60, Params(max_tokens=30))
    small = world.ask("hi", Params(max_tokens=2))
    assert world.step().worked == (big,)
    assert not world.step({big}).more
    world.cancel(big)
    assert model.blocks_used() == 0
    world.run()
    assert isinstance(world.jobs[small].ending, JobDone)


def test_a_shared_beginning_is_computed_once() -> None:
    world, model = fake_world(SHAPE)
    for text in ("hi there, how are you", "hi there, how is it"):
        world.ask(text, Params(max_tokens=1))
        world.run()
    shared = len("user:hi there, how ")
    starts = [row.start for rows in model.steps for row in rows]
    assert starts.count(0) == 1
    assert shared in starts


def test_a_prompt_longer_than_the_context_is_refused_by_name() -> None:
    world, model = fake_world(SHAPE)
    request_id = world.ask("x" * 95, Params(max_tokens=1))
    world.run()
    ending = world.jobs[request_id].ending
    assert isinstance(ending, JobFailed)
    assert ending.code is ErrorCode.BAD_INPUT
    assert ending.text.startswith("messages: ")
    assert "96" in ending.text
    assert not model.steps


def test_an_answer_ends_with_the_context() -> None:
    world, _ = fake_world(SHAPE)
    request_id = world.ask("x" * 60, Params(max_tokens=10**8))
    world.run()
    ending = world.jobs[request_id].ending
    assert isinstance(ending, JobDone)
    assert ending.usage is not None
    assert ending.usage.prompt_tokens + ending.usage.completion_tokens == SHAPE.context_tokens
    assert ending.usage.finish_reason is FinishReason.LENGTH


def test_usage_counts_tokens_and_says_why_it_ended() -> None:
    world, _ = fake_world(SHAPE)
    request_id = world.ask("hi", Params(max_tokens=5))
    world.run()
    done = world.jobs[request_id].ending
    assert isinstance(done, JobDone)
    assert done.usage is not None
    assert done.usage.prompt_tokens == len("user:hi\n")
    assert done.usage.completion_tokens == 5
    assert done.usage.finish_reason is FinishReason.LENGTH
