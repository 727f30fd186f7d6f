"""What more money buys, as a picture: every point where its figures say, and nothing breaks out of the file."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.cli.front_svg import Chosen, front_svg
from accord.edges.intent_file import intent_from_text
from accord.terms.account import FrontPoint

INTENT = intent_from_text(
    "accord: 1\nname: voice\nmodel: m\nworkload: {rate_rps: 12}\nobjectives: {ttft_p99: 215ms}\nbudget: {per_hour: $30}"
)
RATE, TTFT = "workload.rate_rps", "objectives.ttft_p99"


def point(field, value, cost, words="thinker on h20 tp4", devices=4.0):
    return FrontPoint(field=field, value=value, cost_usd_per_hour=cost, devices=devices, words=words)


def drawn(*points, chosen=()):
    svg = front_svg(points, intent=INTENT, title="m on f.yaml", chosen=chosen)
    return svg, ET.fromstring(svg)


def dots(root):
    """(x, y) of the numbered dots of the first panel, in their order."""
    panel = root.findall("{http://www.w3.org/2000/svg}g")[0]
    circles = panel.findall("{http://www.w3.org/2000/svg}circle")
    return [(float(c.get("cx")), float(c.get("cy"))) for c in circles if c.get("r") == "8"]


def test_points_stand_where_their_figures_say():
    _, root = drawn(point(RATE, 4, 10), point(RATE, 8, 20), point(RATE, 16, 30))
    (x1, y1), (x2, y2), (x3, y3) = dots(root)
    # Costs are equally far apart; 8 to 16 requests a second are twice as far as 4 to 8, and more is higher.
    assert x3 - x2 == pytest.approx(x2 - x1, abs=0.1)
    assert y2 - y3 == pytest.approx(2 * (y1 - y2), abs=0.1)
    assert y1 > y2


def test_each_field_has_a_panel_with_what_was_asked_for():
    svg, _ = drawn(point(RATE, 12, 18.2), point(TTFT, 0.4, 12.0), point(TTFT, 0.2, 18.2))
    assert "requests a second" in svg
    assert "ttft p99" in svg
    assert "asked for: 12 req/s" in svg
    assert "asked for: 215ms" in svg
    assert svg.count("budget: $30") == 2
    assert "$18.2/h" in svg


def test_the_chosen_plan_is_marked_in_the_picture_and_in_the_list():
    svg, root = drawn(
        point(RATE, 4, 10, words="small"),
        point(RATE, 12, 18.2, words="large"),
        chosen=[Chosen(field=RATE, value=12, cost=18.2)],
    )
    assert "large (chosen)" in svg
    assert "small (chosen)" not in svg
    (ring,) = [c for c in root.iter("{http://www.w3.org/2000/svg}circle") if c.get("r") == "11"]
    assert (float(ring.get("cx")), float(ring.get("cy"))) == dots(root)[1]


def test_a_chosen_plan_between_two_points_is_a_point_of_its_own():
    lower, upper = point(RATE, 4, 10), point(RATE, 16, 30)
    svg, root = drawn(lower, upper, chosen=[Chosen(field=RATE, value=12, cost=18.2)])
    assert len(dots(root)) == 3
    assert "the plan itself (chosen)" in svg
    # Another plan carries as much for less: the chosen one has a ring, and is no point of the front.
    _, root = drawn(point(RATE, 12, 10), upper, chosen=[Chosen(field=RATE, value=12, cost=18.2)])
    assert len(dots(root)) == 2
    _, root = drawn(point(TTFT, 0.2, 10), chosen=[Chosen(field=TTFT, value=0.1, cost=18.2)])
    assert len(dots(root)) == 2


def test_without_prices_devices_are_counted():
    svg, _ = drawn(point(RATE, 4, None, devices=2.5))
    assert "2.5 devices" in svg
    assert "$" not in re.sub(r"<style>.*?</style>", "", svg, flags=re.DOTALL)


def test_nothing_that_is_said_breaks_out_of_the_file():
    svg, _ = drawn(point(RATE, 1, 1, words='</text><script x="1">&'))
    assert "<script" not in svg


FIGURE = st.floats(min_value=1e-6, max_value=1e6)


@given(st.lists(st.tuples(FIGURE, st.none() | FIGURE, FIGURE), min_size=1, max_size=6))
def test_any_front_can_be_drawn(rows):
    priced = all(cost is not None for _, cost, _ in rows)
    points = [point(RATE, value, cost if priced else None, devices=count) for value, cost, count in rows]
    _, root = drawn(*points)
    assert len(dots(root)) == len(rows)
    assert all(-1 <= x <= 960 and -1 <= y <= 400 for x, y in dots(root))
