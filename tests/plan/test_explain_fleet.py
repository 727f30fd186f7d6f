"""Plans for fleets in words: every figure of the account is said, and nothing that isn't known."""

from dataclasses import replace

from accord.cli.plan_words import fleet_plan_lines, painted, pool_lines, topic_lines
from accord.explain import account_lines, promise_rows, why
from accord.terms.account import Aim, Predicted
from tests.plan.known_accounts import ACCOUNT, PLAN, TTFT


def cells(lines):
    return [[cell for cell in line.strip().split("  ") if cell] for line in lines]


def test_the_table_has_a_row_for_each_pool():
    rows = cells(pool_lines(PLAN, width=160))
    assert [cell.strip() for cell in rows[0]] == [
        "stage", "devices", "parallel", "replicas", "batch", "util", "memory", "$/h", "formats", "on",
    ]  # fmt: skip
    assert [cell.strip() for cell in rows[2]] == [
        "thinker.prefill", "4 x h20", "tp2", "2", "8,192 tok", "78%", "40 of 64GiB", "7.2", "fp8-block, kv fp8",
        "h20-[01-02]",
    ]  # fmt: skip
    assert "2 x 50% of mlu370-x8" in rows[1]
    assert "tp4 ep4" in " ".join(rows[3])


def test_no_line_is_wider_than_the_terminal():
    for width in (80, 100):
        lines = [*fleet_plan_lines(PLAN, width=width), *topic_lines(why(PLAN), width=width)]
        assert max(map(len, lines)) <= width
        # Each column is there, whatever the width.
        assert sum("h20-[01-02]" in line for line in lines) == 1


def test_promises_are_held_against_what_was_wanted():
    assert promise_rows(ACCOUNT)[1:] == (
        ("ttft p99", "215ms", "209ms", "met"),
        ("tpot p99", "40ms", "31.1ms", "met"),
    )
    late = replace(ACCOUNT, predicted=(Predicted(objective=TTFT, value=0.3),))
    assert promise_rows(late)[1] == ("ttft p99", "215ms", "300ms", "missed")


def test_what_it_costs_and_stands_on():
    carries, costs, stands = account_lines(ACCOUNT)
    assert carries == "carries: 12 req/s asked for; all that stands could carry 13.4"
    assert costs == "costs: 13 devices, $18.2 an hour, $0.000421 a request"
    assert "assumed (±40%): efficiency of mlu370-x8" in stands
    assert "accord profile" in stands


def test_a_price_that_nobody_knows_is_named():
    free = replace(ACCOUNT, cost_usd_per_hour=None, cost_usd_per_request=None, unpriced=("h20",))
    _, costs, _ = account_lines(free)
    assert costs == "costs: 13 devices; no price is known of h20: write `price_per_hour` in the fleet"
    pools = tuple(replace(pool, cost_usd_per_hour=None) for pool in ACCOUNT.pools)
    assert "?" in cells(pool_lines(replace(PLAN, account=replace(free, pools=pools)), width=160))[1]


def test_why_has_what_binds_the_runner_up_and_margins():
    said = {topic.title: topic.lines for topic in why(PLAN)}
    assert said["What binds"] == ("objectives.ttft_p99: 209ms of 215ms (97.4%)",)
    assert said["The runner-up"] == ("thinker on h20 alone, tp4: $3.4 an hour more, 1 device less",)
    assert said["What one more would buy"] == (
        "$1 an hour: nothing",
        "1 ms of ttft_p99: $0.021 an hour less",
        "1 more h20: 0.4 req/s more, 1 device less",
    )
    assert "  note: pre-processing has 8 cores" in list(fleet_plan_lines(PLAN, width=100))
    assert "its workaround is charged, x 1.03" in said["Known faults of devices"][0]
    assert said["Known faults of devices"][1].endswith("left out")


def test_the_aim_is_said():
    for aim, words in ((Aim.DEVICES, "not all prices are known"), (Aim.RATE, "budget")):
        topics = why(replace(PLAN, account=replace(ACCOUNT, aim=aim, runner_up=None, binds=())))
        said = {topic.title: topic.lines for topic in topics}
        assert words in said["Chosen for"][0]
        assert said["The runner-up"] == ("nothing else meets the intent on this fleet",)
        assert "limit" in said["What binds"][0]


def test_a_plan_that_a_person_wrote_says_so():
    alone = replace(PLAN, account=None)
    (topic,) = why(alone)
    assert "a person wrote this plan" in topic.lines[0]
    assert "util" not in next(pool_lines(alone, width=160))
    assert len(list(fleet_plan_lines(alone, width=160))) == 4


def test_colours_change_no_word():
    for line in [*fleet_plan_lines(PLAN, width=100), "  Refused: objectives.ttft_p99 = 1ms"]:
        assert painted(line).plain == line
    (met,) = painted("    ttft p99    215ms   209ms  met").spans
    assert met.style == "green"
    assert painted("  Refused: x").spans[0].style == "bold red"
