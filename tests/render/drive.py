"""Renders plans for `kubernetes` and takes the documents apart.

In: a plan or the file of one. Out: documents that Kubernetes' schemas have judged, and what is lost.
"""

import dataclasses
from pathlib import Path

import yaml

from accord.edges.fleet_plan_file import load_fleet_plan
from accord.edges.plan_fleet import fleet_of
from accord.render.kubernetes import render
from accord.render.rendered import Options
from tests.render import small
from tests.render.outside import faults

ROOT = Path(__file__).parents[2]
PLANS = sorted((ROOT / "examples" / "plans").glob("*.yaml"))
MIXED = ROOT / "examples" / "fleets" / "mixed.yaml"


def made(path, *, pinned=False, uuids=False, **options):
    plan = load_fleet_plan(path)
    fleet = fleet_of(plan, MIXED)
    if uuids:
        fleet = with_uuids(fleet)
    return render(plan, fleet, Options(pinned=pinned, **options))


def with_uuids(fleet):
    def named(node):
        devices = tuple(
            dataclasses.replace(device, uuid=f"GPU-{node.name}-{number}") for number, device in enumerate(node.devices)
        )
        return dataclasses.replace(node, devices=devices)

    return dataclasses.replace(fleet, nodes=tuple(named(node) for node in fleet.nodes))


def documents(rendered):
    return [document for file in rendered.files for document in yaml.safe_load_all(file.text)]


def of_sort(found, kind):
    return [document for document in found if document["kind"] == kind]


def rendered(plan, fleet=None, **options):
    made = render(plan, fleet or small.fleet(*{pool.kind for pool in plan.pools}), Options(**options))
    found = documents(made)
    assert [fault for document in found for fault in faults(document)] == []
    return found, {lost.what: lost.why for lost in made.lost}


def pod_of(document):
    spec = document["spec"]
    if document["kind"] == "LeaderWorkerSet":
        return spec["leaderWorkerTemplate"]["leaderTemplate"]["spec"]
    return spec["template"]["spec"]


def claim_of(found, kind="ResourceClaimTemplate"):
    (document, *_) = of_sort(found, kind)
    return (document["spec"]["spec"] if kind == "ResourceClaimTemplate" else document["spec"])["devices"]
