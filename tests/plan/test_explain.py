"""Plans and refusals in words."""

from accord.compile import compile_intent
from accord.edges.intent_file import intent_from_text
from accord.explain import machine_words, plan_lines, refusal_lines, stage_rows, stands_on
from accord.terms.machine import Instructions, Machine
from accord.terms.plan import Plan
from accord.terms.refusal import Refusal
from tests.plan.known_speeds import LAPTOP, MODEL, SPEEDS

INTENT = """
accord: 1
name: words
model: embedded-omni
objectives: {ttft_p50: 300ms, rtf_p95: 0.5}
serving: {deterministic: true}
"""


def plan():
    made = compile_intent(intent_from_text(INTENT), model=MODEL, speeds=SPEEDS, machine=LAPTOP)
    assert isinstance(made, Plan)
    return made


def test_a_plan_in_words():
    heading, *rows = stage_rows(plan())
    assert heading == ("stage", "capability", "engine", "threads", "replicas", "work a request", "from")
    assert rows[0][:3] == ("recognizer", "encode+ar", "ctranslate2")
    assert all(row[-1] == "measured" for row in rows)
    lines = plan_lines(plan())
    assert "objectives: first text p50 300ms, real-time factor p95 0.5" in lines
    assert any(line.startswith("admission: 24 requests at once") for line in lines)
    assert any("deterministic" in line for line in lines)
    assert stands_on(plan()) == "measured (±10%)"


def test_a_machine_in_words():
    known = Machine(cores=2, memory_bytes=23 << 30, instructions=frozenset({Instructions.AVX2, Instructions.AVX512}))
    assert machine_words(known) == "2 cores, AVX-512, 23GiB"
    assert machine_words(Machine(cores=1)) == "1 core"
    assert machine_words(Machine()) == "cores unknown"


def test_a_refusal_in_words():
    refusal = Refusal(
        field="objectives.ttft_p99", value="20ms", limit="it reaches 171ms", causes=("a: 1ms",), fix=("x >= 1",),
        may_retry=True,
    )  # fmt: skip
    assert refusal_lines(refusal) == (
        "Refused: objectives.ttft_p99 = 20ms",
        "  it reaches 171ms",
        "    a: 1ms",
        "  cheapest ways out:",
        "    x >= 1",
        "  trying again later may help",
    )
