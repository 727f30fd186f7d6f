"""Laws of whole plans: of a real model on small mixed fleets, from the intent to the account."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.compile import compile_fleet, fleet_front
from accord.edges.fleet_file import fleet_from_text
from accord.edges.intent_file import intent_from_text
from accord.edges.model_card import find_card
from accord.models.read import read_card
from accord.plan.fleet.candidates import candidates
from accord.plan.fleet.question import Given, question_of
from accord.terms.account import Aim
from accord.terms.fleet_plan import FleetPlan
from accord.terms.intent import Budget
from accord.terms.quirk import Evidence, FaultKind, Is, Quirk, Range, Region, Way, Workaround
from accord.terms.refusal import Refusal

FLEET = fleet_from_text(
    """
accord: 1
devices:
  h20: {like: h20, price_per_hour: $1.8}
  l40s: {like: l40s, price_per_hour: $0.9}
  ascend-910b3: {like: ascend-910b3, price_per_hour: $1.3}
nodes:
  - {name: n1, cpus: 64, memory: 512GiB, devices: 2 x h20}
  - {name: n2, cpus: 64, memory: 512GiB, devices: 4 x l40s}
  - {name: n3, cpus: 64, memory: 512GiB, devices: 2 x ascend-910b3}
"""
)
CARD = find_card("llama-3.1-8b")
MODEL = read_card(CARD.values, name=CARD.name)


def intent(*, rate=6.0, ttft=1.0, tpot=0.05, prompt=800):
    rated = "" if rate is None else f"rate_rps: {rate}, "
    return intent_from_text(
        f"""
accord: 1
name: chat
model: llama-3.1-8b
workload: {{{rated}input_tokens: {{p50: {prompt}, p99: {prompt * 4}}}, output_tokens: {{p50: 200, p99: 800}}}}
objectives: {{ttft_p99: {ttft}s, tpot_p99: {tpot}s}}
fleet: local
"""
    )


def compiled(wanted, fleet=FLEET, **given):
    return compile_fleet(wanted, architecture=MODEL, fleet=fleet, given=Given(**given))


def cost(answer):
    return math.inf if isinstance(answer, Refusal) else answer.account.cost_usd_per_hour


def best_cost(wanted, fleet=FLEET):
    """What the cheapest plan costs by the search alone: an account takes more searches."""
    found = candidates(question_of(wanted, MODEL, fleet))
    return math.inf if found is None else found.choices[0].cost


RATES = st.floats(0.5, 40.0)
OBJECTIVES = st.tuples(st.floats(0.1, 3.0), st.floats(0.015, 0.1))
FEW = settings(max_examples=12)


@FEW
@given(RATES, OBJECTIVES, st.floats(1.0, 2.0))
def test_a_laxer_intent_never_costs_more(rate, objectives, factor):
    ttft, tpot = objectives
    strict = best_cost(intent(rate=rate, ttft=ttft, tpot=tpot))
    lax = best_cost(intent(rate=rate, ttft=ttft * factor, tpot=tpot * factor))
    assert lax <= strict * (1 + 1e-6)


@FEW
@given(RATES, OBJECTIVES, st.sampled_from(["n1", "n2", "n3"]))
def test_one_more_device_never_costs_more(rate, objectives, name):
    wanted = intent(rate=rate, ttft=objectives[0], tpot=objectives[1])
    nodes = tuple(
        replace(node, devices=(*node.devices, node.devices[0])) if node.name == name else node for node in FLEET.nodes
    )
    assert best_cost(wanted, replace(FLEET, nodes=nodes)) <= best_cost(wanted) * (1 + 1e-6)


@FEW
@given(RATES, st.permutations(list(FLEET.nodes)), st.permutations(list(FLEET.kinds)))
def test_the_order_of_nodes_and_kinds_changes_nothing(rate, nodes, kinds):
    wanted = intent(rate=rate)
    one, other = compiled(wanted), compiled(wanted, replace(FLEET, nodes=tuple(nodes), kinds=tuple(kinds)))
    assert type(one) is type(other)
    if isinstance(one, FleetPlan):
        assert replace(one, seats=()) == replace(other, seats=())


@FEW
@given(RATES, st.floats(0.1, 10.0))
def test_scaling_prices_scales_cost(rate, factor):
    kinds = tuple(
        replace(kind, price_usd_per_hour=replace(price, value=price.value * factor))
        for kind in FLEET.kinds
        if (price := kind.price_usd_per_hour) is not None
    )
    assert len(kinds) == len(FLEET.kinds)
    before, after = best_cost(intent(rate=rate)), best_cost(intent(rate=rate), replace(FLEET, kinds=kinds))
    assert after == pytest.approx(before * factor)


@FEW
@given(st.floats(0.5, 12.0), st.floats(0.0, 3.0))
def test_a_larger_budget_never_carries_less(budget, more):
    def carried(dollars):
        wanted = replace(intent(rate=None), budget=Budget(cost_usd_per_hour_max=dollars))
        found = candidates(question_of(wanted, MODEL, FLEET))
        if found is None:
            return 0.0
        assert found.choices[0].cost <= dollars * (1 + 1e-9)
        return found.rate_rps

    # The rate is found to a thousandth.
    assert carried(budget + more) >= carried(budget) * (1 - 2e-3)


@pytest.mark.parametrize("rate", [6.0, None])
@pytest.mark.parametrize("steps", [0, 1, 3, 6])
def test_a_search_that_is_stopped_gives_what_it_has(rate, steps):
    asked = []

    def watch(progress):
        asked.append(progress)
        return len(asked) <= steps

    answer = compile_fleet(intent(rate=rate), architecture=MODEL, fleet=FLEET, watch=watch)
    assert len(asked) <= steps + 2
    if isinstance(answer, Refusal):
        assert (answer.field, answer.may_retry) == ("search", True)
    else:
        assert steps > 0
        assert all(item.value <= item.objective.bound for item in answer.account.predicted)


@pytest.mark.parametrize("rate", [2.0, 12.0, 30.0])
def test_a_mixed_fleet_never_costs_more_than_its_vendors_alone(rate):
    mixed = cost(compiled(intent(rate=rate)))
    alone = [cost(compiled(intent(rate=rate), replace(FLEET, nodes=(node,)))) for node in FLEET.nodes]
    assert mixed <= min(alone) * (1 + 1e-9)


def test_what_is_placed_is_what_was_planned():
    plan = compiled(intent(rate=20.0))
    parts = {part.name: part for part in plan.gang.parts}
    for pool in plan.pools:
        part, seats = parts[pool.part], [seat for seat in plan.seats if seat.part == pool.part]
        assert len(seats) == part.replicas == pool.replicas * pool.nodes
        assert part.kinds == (pool.kind,)


def test_without_a_price_devices_are_counted_and_that_is_said():
    kinds = tuple(replace(kind, price_usd_per_hour=None) if kind.name == "h20" else kind for kind in FLEET.kinds)
    account = compiled(intent(rate=6.0), replace(FLEET, kinds=kinds)).account
    assert account.aim is Aim.DEVICES
    assert any("no price is known of h20" in remark for remark in account.remarks)


def test_a_kind_with_an_unknown_figure_is_left_out_and_named():
    kinds = tuple(replace(kind, bandwidth_bytes_per_s=None) if kind.name == "l40s" else kind for kind in FLEET.kinds)
    plan = compiled(intent(rate=1.0), replace(FLEET, kinds=kinds))
    assert "l40s" not in {pool.kind for pool in plan.pools}
    assert any("devices.l40s.bandwidth" in remark for remark in plan.account.remarks)


def _quirk(*, workarounds=()):
    return Quirk(
        name="linear-n-4096",
        device="l40s",
        operator="linear",
        fault=FaultKind.WRONG,
        region=Region(cases=((Range(factors=("N",), low=4096, high=4096), Is(trait="dtype", words=("bf16",))),)),
        evidence=Evidence(
            points=100, failing=20, fresh=50, missed=0, over_cover=0.0, worst="1e3", probes=("plain",),
            witnesses=("numpy", "torch"),
        ),
        reproducer="none",
        found="2026-11-30",
        workarounds=workarounds,
    )  # fmt: skip


def test_a_kind_that_computes_wrong_numbers_is_left_out():
    """Llama-3.1-8B multiplies by weights of 4,096 rows."""
    wanted = intent(rate=1.0)
    assert {pool.kind for pool in compiled(wanted).pools} == {"l40s"}
    plan = compiled(wanted, quirks=(_quirk(),))
    assert "l40s" not in {pool.kind for pool in plan.pools}
    (note,) = plan.account.quirks
    assert (note.kind, note.cost_ratio) == ("l40s", None)


def test_a_workaround_is_charged_and_noted():
    wanted = intent(rate=1.0)
    around = Workaround(way=Way.PAD, detail="N to 4224", region=Region(cases=((),)), cost_ratio=1.2, verified=40)
    plain, charged = compiled(wanted), compiled(wanted, quirks=(_quirk(workarounds=(around,)),))
    assert {pool.kind for pool in charged.pools} == {"l40s"}
    slower = [item.value for item in charged.account.predicted]
    assert all(value > item.value * 1.1 for value, item in zip(slower, plain.account.predicted, strict=True))
    assert [note.cost_ratio for note in charged.account.quirks] == [1.2]


def test_along_the_front_whoever_pays_more_gets_more():
    points = fleet_front(intent(rate=4.0), architecture=MODEL, fleet=FLEET)
    fields = {point.field for point in points}
    assert {"workload.rate_rps", "objectives.ttft_p99", "objectives.tpot_p99"} == fields
    for field in fields:
        found = sorted((point.cost_usd_per_hour, point.value) for point in points if point.field == field)
        values = [value for _, value in found]
        assert values == sorted(values, reverse=field != "workload.rate_rps")


def test_every_way_out_leads_out():
    """Ways that name a field of the intent are followed, as a user would."""
    wanted = intent(rate=200.0, ttft=0.2)
    refusal = compiled(wanted)
    assert refusal.field == "workload.rate_rps"
    followed = 0
    for way in refusal.fix:
        name, _, text = way.partition(" <= ")
        if name == "workload.rate_rps":
            slower = replace(wanted, workload=replace(wanted.workload, rate_rps=float(text)))
            assert isinstance(compiled(slower), FleetPlan)
            followed += 1
    assert followed == 1


def test_prompts_beyond_the_context_are_refused():
    """Llama 3.1 reads 131,072 tokens."""
    refusal = compiled(intent(rate=0.001, ttft=3000.0, prompt=40_000))
    assert refusal.field == "workload.input_tokens"
    assert "131,072" in refusal.limit


def test_an_objective_that_cannot_be_met_is_named_with_what_can():
    refusal = compiled(intent(rate=1.0, tpot=0.001))
    assert refusal.field == "objectives.tpot_p99"
    assert refusal.limit.startswith("reachable is ")
    raised = next(way for way in refusal.fix if way.startswith("objectives.tpot_p99 >= "))
    bound = float(raised.removeprefix("objectives.tpot_p99 >= ").removesuffix("ms")) / 1e3
    assert isinstance(compiled(intent(rate=1.0, tpot=bound)), FleetPlan)


def test_a_budget_that_is_too_small_is_named_with_what_is_needed():
    wanted = replace(intent(rate=6.0), budget=Budget(cost_usd_per_request_max=1e-7))
    refusal = compiled(wanted)
    assert refusal.field == "budget.per_request"
    needed = next(way for way in refusal.fix if way.startswith("budget.per_request >= $"))
    enough = float(needed.removeprefix("budget.per_request >= $"))
    assert isinstance(compiled(replace(wanted, budget=Budget(cost_usd_per_request_max=enough))), FleetPlan)
