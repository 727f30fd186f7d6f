"""No name of a plan breaks out of the text that it stands in."""

import dataclasses
import re

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from accord.render.kubernetes_drivers import one_of
from accord.terms.errors import BadInput
from accord.terms.gang import Seat
from tests.render import small
from tests.render.cel import selects
from tests.render.drive import pod_of, rendered
from tests.render.test_yaml_text import HOSTILE


def expanded(word):
    """As kubelet expands words: `$$` is `$`, and `$(NAME)` the value of NAME."""
    return re.sub(r"\$\$|\$\(([A-Z_]+)\)", lambda found: "$" if found[0] == "$$" else f"<{found[1]}>", word)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=40) | st.sampled_from(
    [text for text in HOSTILE if text]
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(NAMES, NAMES, NAMES)
@example("p", "a", "a$$b")
@example("p", "a", "$(XDG_CACHE_HOME)")
@example("x" * 300, "--- ", "m")
def test_hostile_names_stay_names(name, part, model):
    assume(model.strip() and not model.startswith("-"))  # which engines would take for an option, and refuse
    seat = Seat(part=part, replica=0, node=part, devices=(0,))
    fleet = small.fleet()
    node = dataclasses.replace(fleet.nodes[0], name=part)
    plan = small.plan(small.part(part), name=name, model=model, seats=(seat,))
    found, _ = rendered(plan, dataclasses.replace(fleet, nodes=(node,)), pinned=True)
    kinds = ["ResourceClaimTemplate", "Deployment", "Service", "PodDisruptionBudget"]
    assert [document["kind"] for document in found] == kinds, "no name brings a document of its own"
    pod = pod_of(found[1])
    assert model in [expanded(word) for word in pod["containers"][0]["command"]]
    assert pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [part]}]}]
    }
    for document in found:
        assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", document["metadata"]["name"], re.ASCII)
        assert all(re.fullmatch(r"[\w.-]{0,63}", value, re.ASCII) for value in document["metadata"]["labels"].values())


def test_a_plan_does_not_write_what_kubernetes_replaces():
    with pytest.raises(BadInput, match=r"fleet_plan.model: .*POD_IP.*replace"):
        rendered(small.plan(model="x$(POD_IP)"))


@pytest.mark.parametrize("uuid", HOSTILE)
def test_a_hostile_uuid_stays_a_text_in_a_selector(uuid):
    expression = one_of("d", "uuid", [uuid])
    assert selects(expression, {"attributes": {"d": {"uuid": uuid}}})
    assert not selects(expression, {"attributes": {"d": {"uuid": uuid + "x"}}})
