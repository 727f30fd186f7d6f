"""Laws of the planner: what it accepts it also accepts when the question gets easier."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from accord.edges.plan_file import dump_plan, plan_from_text
from accord.plan.local.planner import plan_local
from accord.plan.local.question import Question
from accord.terms.intent import Budget, Intent, Metric, Objective, Serving, Spread, Workload
from accord.terms.machine import Machine
from accord.terms.plan import Plan
from accord.terms.refusal import Refusal
from accord.terms.speed import Quantity
from tests.plan.known_speeds import MODEL, speed

SECONDS = st.floats(min_value=1e-5, max_value=2.0)
SHARE = st.sampled_from([0.0, 0.1, 0.5, 1.0])
QUANTITIES = {
    "recognizer": (Quantity.AUDIO_IN_S,),
    "vision": (Quantity.PICTURE,),
    "language": (Quantity.PROMPT_TOKEN, Quantity.OUTPUT_TOKEN),
    "acoustic": (Quantity.AUDIO_OUT_S,),
    "vocoder": (Quantity.AUDIO_OUT_S,),
}


@st.composite
def speeds(draw):
    found = []
    for stage, quantities in QUANTITIES.items():
        for threads in (1, 2, 4)[: draw(st.integers(1, 3))]:
            costs = []
            for quantity in quantities:
                alone = draw(SECONDS)
                costs.append((quantity, alone, alone * draw(st.floats(0.1, 1.0))))
            found.append(speed(stage, threads, *costs))
    return tuple(found)


@st.composite
def spreads(draw):
    p50 = draw(st.floats(1, 500))
    return Spread(p50=p50, p99=p50 * draw(st.floats(1, 10)))


@st.composite
def questions(draw):
    bounds = {
        (metric, draw(st.sampled_from([50.0, 90.0, 99.0]))): draw(st.floats(0.001, 1000.0))
        for metric in draw(st.lists(st.sampled_from(list(Metric)), max_size=3, unique=True))
    }
    intent = Intent(
        name="law",
        model="embedded-omni",
        fleet="local",
        workload=Workload(
            rate_rps=draw(st.none() | st.floats(0.001, 20.0)),
            input_tokens=draw(st.none() | spreads()),
            output_tokens=draw(st.none() | spreads()),
            inputs=(("audio", draw(SHARE)), ("image", draw(SHARE))),
            outputs=draw(st.just(()) | SHARE.map(lambda share: (("audio", share),))),
        ),
        objectives=tuple(Objective(metric=m, percentile=p, bound=bound) for (m, p), bound in bounds.items()),
        attainment=0.99,
        budget=Budget(),
        serving=Serving(),
    )
    machine = Machine(cores=draw(st.integers(1, 12)), memory_bytes=draw(st.integers(1 << 30, 1 << 36)))
    return Question(intent=intent, model=MODEL, speeds=draw(speeds()), machine=machine)


@given(questions(), st.integers(0, 100), st.integers(0, 1 << 36))
def test_a_larger_machine_never_refuses_what_a_smaller_accepted(question, more_cores, more_bytes):
    machine = question.machine
    larger = replace(machine, cores=machine.cores + more_cores, memory_bytes=machine.memory_bytes + more_bytes)
    if isinstance(plan_local(question), Plan):
        assert isinstance(plan_local(replace(question, machine=larger)), Plan)


@given(questions(), st.floats(1.0, 100.0), st.floats(0.0, 1.0))
def test_a_laxer_wish_is_never_refused_when_the_stricter_was_accepted(question, factor, slower):
    intent = question.intent
    lax = tuple(replace(item, bound=item.bound * factor) for item in intent.objectives)
    rate = None if intent.workload.rate_rps is None else intent.workload.rate_rps * slower
    workload = replace(intent.workload, rate_rps=rate)
    if isinstance(plan_local(question), Plan):
        easier = replace(question, intent=replace(intent, objectives=lax, workload=workload))
        assert isinstance(plan_local(easier), Plan)
        fewer = replace(question, intent=replace(intent, objectives=intent.objectives[1:]))
        assert isinstance(plan_local(fewer), Plan)


@given(questions())
def test_every_answer_is_whole(question):
    answer = plan_local(question)
    if isinstance(answer, Refusal):
        assert answer.causes
        assert answer.fix
        assert answer.field.partition(".")[0] in {"objectives", "workload", "fleet"}
        return
    cores, stages = question.machine.cores, len(answer.stages)
    threads = sum(stage.threads * stage.replicas for stage in answer.stages)
    assert threads <= (stages if cores == 1 else max(cores, stages + 1))
    for stage in answer.stages:
        windows = sum(edge.window_bytes for edge in answer.graph.edges if edge.source == stage.stage)
        assert 1 <= stage.threads <= cores
        assert stage.arena_bytes >= max(16 << 20, stage.batch_max * windows)
        # Half a batch more may be inside, since no request is with every stage at once.
        assert stage.batch_max * stage.replicas * 3 // 2 >= answer.admission.active_max
    weights = {stage.name: stage.weights_bytes for stage in answer.graph.stages}
    held = sum(s.replicas * (weights[s.stage] + s.memory_bytes + s.arena_bytes) for s in answer.stages)
    assert held <= question.machine.memory_bytes
    assert answer.admission.queue_max >= 1
    assert 0 < answer.admission.queue_s_max <= 30
    assert plan_local(question) == answer


@given(questions())
def test_plans_survive_their_file(question):
    answer = plan_local(question)
    if isinstance(answer, Plan):
        assert plan_from_text(dump_plan(answer)) == answer


@given(questions())
def test_the_first_way_out_of_a_missed_objective_leads_out(question):
    """For one objective alone, a raised bound that is printed gives a plan."""
    question = replace(question, intent=replace(question.intent, objectives=question.intent.objectives[:1]))
    answer = plan_local(question)
    if isinstance(answer, Plan) or not answer.field.startswith("objectives."):
        return
    name, _, text = answer.fix[0].partition(" >= ")
    assert name == answer.field
    (objective,) = question.intent.objectives
    factor = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "ns": 1e-9}
    digits = text.rstrip("nmush")
    bound = float(digits) * factor.get(text[len(digits) :], 1.0) * (1 + 1e-9)
    raised = replace(question.intent, objectives=(replace(objective, bound=bound),))
    assert isinstance(plan_local(replace(question, intent=raised)), Plan)
