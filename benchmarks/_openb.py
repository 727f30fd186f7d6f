"""The openb traces as fleets and gangs, and the arrivals of the FGD protocol.

In: `../shared/data/openb` or another folder with nodes.csv and pods_VARIANT.csv.gz (alibaba/clusterdata,
cluster-trace-gpu-v2023). Out: a `Fleet`, parts, and their order for a seed.
"""

import csv
import gzip
import random
from dataclasses import dataclass
from pathlib import Path

from accord.terms.fleet import Device, DeviceKind, Figure, Fleet, Node, Numa, Tag, Vendor
from accord.terms.gang import Need, Part

VARIANTS = ("default", "cpu050", "cpu100", "cpu250", "gpushare40", "gpushare100", "gpuspec10", "multigpu20")
SEEDS = range(42, 52)
ARRIVALS = 1.3  # demand over capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One variant: the fleet, its pods in the order of the file, and how many devices there are."""

    fleet: Fleet
    pods: tuple[Part, ...]
    devices: int


def load(folder: Path, variant: str) -> Trace:
    """The trace of one variant. The trace has no card memory: fractions are of compute alone."""
    with (folder / "nodes.csv").open() as file:
        nodes = [_node(row) for row in csv.DictReader(file) if int(row["gpu"])]
    models = sorted({device.kind for node in nodes for device in node.devices})
    assumed = Figure(value=0.0, tag=Tag.ASSUMED, source="the trace doesn't say")
    kinds = tuple(DeviceKind(name=name, vendor=Vendor.OTHER, memory_bytes=assumed) for name in models)
    with gzip.open(folder / f"pods_{variant}.csv.gz", "rt") as file:
        pods = tuple(_pod(row, models) for row in csv.DictReader(file))
    fleet = Fleet(kinds=kinds, nodes=tuple(nodes))
    return Trace(fleet=fleet, pods=pods, devices=sum(len(node.devices) for node in nodes))


def arrivals(trace: Trace, seed: int) -> list[int]:
    """Pods in the order of their arrival: all of them and random copies, until they ask for 1.3 times the devices."""
    dice = random.Random(seed)
    wanted = [pod.need.cards or pod.need.share for pod in trace.pods]
    order = list(range(len(trace.pods)))
    total = sum(wanted)
    while total < ARRIVALS * trace.devices:
        pick = dice.randrange(len(trace.pods))
        order.append(pick)
        total += wanted[pick]
    dice.shuffle(order)
    return order


def _node(row: dict[str, str]) -> Node:
    numa = Numa(cpus=int(row["cpu_milli"]) // 1000, memory_bytes=int(row["memory_mib"]) << 20)
    return Node(name=row["sn"], numa=(numa,), devices=(Device(kind=row["model"]),) * int(row["gpu"]))


def _pod(row: dict[str, str], models: list[str]) -> Part:
    cards, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    whole = cards if cards > 1 or milli == 1000 else 0
    need = Need(
        cards=whole,
        share=milli / 1000 if cards and not whole else 0.0,
        cpus=int(row["cpu_milli"]) / 1000,
        host_memory_bytes=int(row["memory_mib"]) << 20,
    )
    kinds = tuple(name for name in (row.get("gpu_spec") or "").split("|") if name in models)
    return Part(name=row["name"], need=need, kinds=kinds)
