"""Ten situations that an engineer would recognise: their plans, and facts about them that no planner decides.

Each fact is worked out here from figures of the outside world: parameters that a model's makers name, bytes and FLOPs
of a data sheet. golden/NAME.yaml is the intent, golden/NAME.txt what was decided (`tools/write_golden_plans.py`).
"""

import math
from dataclasses import replace

import pytest

from accord.edges.fleet_plan_file import dump_fleet_plan, fleet_plan_from_text
from accord.terms.fleet_plan import FleetPlan, Role
from accord.terms.intent import Metric
from accord.terms.refusal import Refusal
from tests.plan.golden_plans import NAMES, PLANS, answer, asked, compiled, decided, text_of

GIB = 2.0**30


def plan(name: str) -> FleetPlan:
    found = answer(name)
    assert isinstance(found, FleetPlan), found
    return found


def refusal(name: str) -> Refusal:
    found = answer(name)
    assert isinstance(found, Refusal), decided(found)
    return found


def cards(found: FleetPlan) -> dict[str, float]:
    """Devices by kind; parts of shared ones count as parts."""
    needs = {part.name: part.need for part in found.gang.parts}
    used: dict[str, float] = {}
    for pool in found.pools:
        need = needs[pool.part]
        used[pool.kind] = used.get(pool.kind, 0.0) + pool.replicas * (need.cards * pool.nodes + need.share)
    return {kind: count for kind, count in used.items() if count}


@pytest.mark.parametrize("name", NAMES)
def test_what_was_decided_is_as_it_was(name):
    assert decided(answer(name)) == text_of(name), "see the module's docstring"


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_keeps_its_promises(name):
    found, wanted = plan(name), asked(name)
    account = found.account
    assert [item.objective for item in account.predicted] == list(wanted.intent.objectives)
    assert all(item.value <= item.objective.bound for item in account.predicted)
    for pool, of in zip(found.pools, account.pools, strict=True):
        assert of.pool == pool.name
        assert 0 < of.utilisation < 1
        assert 0 < of.memory_bytes <= of.memory_bytes_max
        assert of.capacity_rps >= of.rate_rps * (1 - 1e-9)
    # Of a card that is shared, all is paid for.
    parts: list[float] = [of.cost_usd_per_hour or 0.0 for of in account.pools]
    assert account.cost_usd_per_hour >= sum(parts) * (1 - 1e-9)
    assert account.cost_usd_per_request == pytest.approx(account.cost_usd_per_hour / 3600 / account.rate_rps)


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_stands_on_devices_that_the_fleet_has(name):
    found, fleet = plan(name), asked(name).fleet
    kinds = {(node.name, number): device.kind for node in fleet.nodes for number, device in enumerate(node.devices)}
    parts = {pool.part: pool.kind for pool in found.pools}
    taken: dict[tuple[str, int], int] = {}
    for seat in found.seats:
        for device in seat.devices:
            assert kinds[seat.node, device] == parts[seat.part]
            taken[seat.node, device] = taken.get((seat.node, device), 0) + seat.share_milli
    assert found.seats
    assert max(taken.values()) <= 1000


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_survives_its_file(name):
    assert fleet_plan_from_text(dump_fleet_plan(plan(name))) == plan(name)


def test_a_chat_model_of_8b_stands_on_one_card():
    found = plan("chat-8b-one-card")
    assert cards(found) == {"l40s": 1}
    (pool,) = found.pools
    assert (pool.parallel.ranks, pool.role) == (1, Role.WHOLE)
    # 8.03 billion parameters in bf16 are 16.06 GB, and a card has 48 GiB.
    assert 16.06e9 < found.account.pools[0].memory_bytes < 48 * GIB
    # Each token reads all weights but the embeddings (0.53 billion): 15.0 GB at 864 GB/s take 17.4 ms.
    tpot = next(item.value for item in found.account.predicted if item.objective.metric is Metric.TPOT)
    assert tpot > 15.0e9 / 864e9


def test_deepseek_v3_is_split_into_prefill_and_decode():
    found = plan("deepseek-v3-split")
    assert {pool.role for pool in found.pools} == {Role.PREFILL, Role.DECODE}
    for pool, of in zip(found.pools, found.account.pools, strict=True):
        # 671 billion parameters in fp8: five cards of 141 GiB at least, and engines take 90% of each.
        assert pool.parallel.ranks >= math.ceil(671e9 / (141 * GIB * 0.9))
        assert of.memory_bytes * pool.parallel.ranks > 671e9
    # 37 billion parameters a token: 4,000 tokens of prompt are 296 TFLOP, and an H200 has 1,979 TFLOP/s in fp8.
    prefill = sum(p.replicas * p.parallel.ranks for p in found.pools if p.role is Role.PREFILL)
    assert prefill >= 6 * 4000 * 2 * 37e9 / 1979e12


def test_qwen3_omni_uses_the_better_of_two_vendors():
    found, wanted = plan("qwen3-omni-two-vendors"), asked("qwen3-omni-two-vendors")
    assert {pool.stage for pool in found.pools} == {"audio", "vision", "thinker", "talker", "code2wav"}
    assert set(cards(found)) == {"h20", "ascend-910b3"}
    # For a dollar a 910B3 has 234 TFLOP/s and 1.2 TB/s, an H20 82 TFLOP/s and 2.2 TB/s: prompts belong on the one.
    # Tokens, which wait for memory, may go to the other; at four requests a second it isn't worth a replica more.
    kinds = {pool.role: pool.kind for pool in found.pools if pool.stage == "thinker"}
    assert "ascend-910b3" in (kinds.get(Role.PREFILL), kinds.get(Role.WHOLE))
    for node in wanted.fleet.nodes:
        alone = compiled(replace(wanted, fleet=replace(wanted.fleet, nodes=(node,))))
        # With one vendor it can't be done, or it costs at least as much.
        if isinstance(alone, FleetPlan):
            assert alone.account.cost_usd_per_hour >= found.account.cost_usd_per_hour * (1 - 1e-9)


def test_a_27b_model_leaves_no_half_of_a_card_idle():
    found = plan("dense-27b-on-32g-cards")
    # 27.4 billion parameters in bf16 are 54.9 GB: more than one card of 34.4 GB has, fewer than two have.
    assert cards(found) == {"ascend-910b4": 2}
    (of,) = found.account.pools
    assert of.memory_bytes > 0.5 * of.memory_bytes_max
    assert 2 * of.memory_bytes > 54.9e9


def test_flux_has_cards_enough_for_its_steps():
    found = plan("flux-images")
    assert {pool.stage for pool in found.pools} == {"text_encoder", "text_encoder_2", "denoiser", "vae"}
    # 38 single blocks and the pictures' half of 19 double blocks, 3,072 wide, over 64 x 64 positions in 28 steps,
    # without attention: 1.5 PFLOP, and an L40S has 366 TFLOP/s.
    matrices = 38 * (3072 * 21504 + 15360 * 3072) + 19 * (4 * 3072**2 + 2 * 3072 * 12288)
    least_s = 28 * 2 * matrices * 64 * 64 / 366e12
    assert sum(cards(found).values()) >= 0.2 * least_s
    denoiser = next(pool for pool in found.pools if pool.stage == "denoiser")
    assert found.account.predicted[0].value > least_s / denoiser.parallel.ranks


def test_a_robot_has_its_actions_within_a_tenth_of_a_second():
    found = plan("robot-10hz")
    assert found.account.predicted[0].value <= 0.1
    # 7 GB of weights, and ten steps that each read the action expert: a few milliseconds of one H200.
    assert sum(cards(found).values()) <= 1


def test_a_model_without_an_encoder_is_one_stage():
    found = plan("encoder-free")
    assert {pool.stage for pool in found.pools} == {"decoder"}
    # A picture of 1024 x 768 is 35 x 26 patches of 30 pixels, which the decoder reads as tokens (and ends of lines):
    # with 16.7 GFLOP a token it costs more than the text does.
    words_only = compiled(asked("encoder-free").without_inputs())
    assert isinstance(words_only, FleetPlan)
    assert found.account.predicted[0].value > words_only.account.predicted[0].value


def test_an_impossible_latency_names_what_is_reachable():
    found = refusal("impossible-latency")
    assert found.field == "objectives.ttft_p99"
    # 70.6 billion parameters and 4,000 tokens: 565 TFLOP. All 32 cards do 31.6 PFLOP/s at their best: 17.8 ms.
    raised = [fix for fix in found.fix if fix.startswith("objectives.ttft_p99 >= ")]
    assert raised
    wanted = asked("impossible-latency").with_override(raised[0].split(",")[0].split("  ")[0].replace(" >= ", "="))
    assert isinstance(compiled(wanted), FleetPlan)
    assert next(item.bound for item in wanted.intent.objectives) > 2 * 70.6e9 * 4000 / (32 * 989e12)


def test_impossible_memory_names_the_memory():
    found = refusal("impossible-memory")
    assert "memory" in found.field or "memory" in " ".join((found.limit, *found.causes))
    assert found.fix


def test_a_budget_that_is_too_small_says_what_would_do():
    found = refusal("budget-too-small")
    assert found.field == "budget.per_hour"
    # 70.6 billion parameters in bf16 are 141.2 GB: more than 90% of 141 GiB, so two cards at least, $11.50.
    raised = [fix for fix in found.fix if fix.startswith("budget.per_hour >= $")]
    assert raised
    amount = float(raised[0].partition("$")[2].split()[0].rstrip(",;"))
    assert amount >= 2 * 5.75
    wanted = asked("budget-too-small").with_override(f"budget.per_hour=${amount}")
    assert isinstance(compiled(wanted), FleetPlan)
