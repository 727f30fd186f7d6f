"""A plan for a fleet with an account, written by hand: what words are made of.

In: nothing. Out: a `FleetPlan` with round figures; no planner made it.
"""

from accord.terms.account import (
    Account,
    Aim,
    Binding,
    Margin,
    MarginKind,
    PoolAccount,
    Predicted,
    QuirkNote,
    RunnerUp,
)
from accord.terms.estimate import Source
from accord.terms.fleet_plan import FleetPlan, Parallel, Pool, Role
from accord.terms.gang import Gang, Need, Part, Seat
from accord.terms.graph import Batching, Capability, Stage, StageGraph
from accord.terms.intent import Metric, Objective
from accord.terms.tensors import Dtype, Quantization

GIB = 1 << 30
TTFT = Objective(metric=Metric.TTFT, percentile=99.0, bound=0.215)
TPOT = Objective(metric=Metric.TPOT, percentile=99.0, bound=0.040)

GRAPH = StageGraph(
    model="voice",
    stages=(
        Stage(name="audio", capabilities=(Capability.ENCODE,), batching=Batching.PLAIN),
        Stage(name="thinker", capabilities=(Capability.AR,), batching=Batching.CONTINUOUS),
    ),
    edges=(),
)
POOLS = (
    Pool(name="audio", stage="audio", part="audio", engine="vllm", kind="mlu370-x8", replicas=2, batch_max=16),
    Pool(
        name="prefill", stage="thinker", part="prefill", engine="vllm", kind="h20", replicas=2, role=Role.PREFILL,
        parallel=Parallel(tensor=2), chunk_tokens=8192, quantization=Quantization.FP8_BLOCK, cache_dtype=Dtype.FP8,
    ),
    Pool(
        name="decode", stage="thinker", part="decode", engine="vllm", kind="ascend-910b3", replicas=2,
        role=Role.DECODE, parallel=Parallel(tensor=4, expert=4), batch_max=192,
    ),
)  # fmt: skip
GANG = Gang(
    name="voice",
    parts=(
        Part(name="audio", need=Need(share=0.5, memory_bytes=8 * GIB), replicas=2),
        Part(name="prefill", need=Need(cards=2, memory_bytes=80 * GIB), replicas=2),
        Part(name="decode", need=Need(cards=4, memory_bytes=60 * GIB), replicas=2),
    ),
)
SEATS = (
    Seat(part="audio", replica=0, node="mlu-01", devices=(0,), share_milli=500),
    Seat(part="audio", replica=1, node="mlu-01", devices=(0,), share_milli=500),
    Seat(part="prefill", replica=0, node="h20-01", devices=(0, 1)),
    Seat(part="prefill", replica=1, node="h20-02", devices=(0, 1)),
    Seat(part="decode", replica=0, node="npu-07", devices=(0, 1, 2, 3)),
    Seat(part="decode", replica=1, node="npu-07", devices=(4, 5, 6, 7)),
)


def _pool(name: str, *, utilisation: float, devices: float, cost: float | None, source: Source) -> PoolAccount:
    return PoolAccount(
        pool=name, rate_rps=12, capacity_rps=14, utilisation=utilisation, batch=3.5, memory_bytes=40 * GIB,
        memory_bytes_max=64 * GIB, devices=devices, cost_usd_per_hour=cost, source=source, uncertainty=0.4,
        weakest=f"efficiency of {name}",
    )  # fmt: skip


ACCOUNT = Account(
    aim=Aim.COST,
    pools=(
        _pool("audio", utilisation=0.41, devices=1, cost=0.6, source=Source.ASSUMED),
        _pool("prefill", utilisation=0.78, devices=4, cost=7.2, source=Source.MEASURED),
        _pool("decode", utilisation=0.66, devices=8, cost=10.4, source=Source.MODELLED),
    ),
    predicted=(Predicted(objective=TTFT, value=0.2094), Predicted(objective=TPOT, value=0.0311)),
    rate_rps=12,
    rate_rps_max=13.4,
    devices=13,
    cost_usd_per_hour=18.2,
    cost_usd_per_request=18.2 / 3600 / 12,
    source=Source.ASSUMED,
    uncertainty=0.4,
    weakest="efficiency of mlu370-x8",
    binds=(Binding(field="objectives.ttft_p99", value="209ms", limit="215ms", used=0.974),),
    runner_up=RunnerUp(
        words="thinker on h20 alone, tp4", cost_usd_per_hour=21.6, devices=12, more_usd_per_hour=3.4, more_devices=-1
    ),
    margins=(
        Margin(kind=MarginKind.DOLLAR, field="budget.per_hour", added=1.0),
        Margin(kind=MarginKind.MILLISECOND, field="objectives.ttft_p99", added=1.0, saved_usd_per_hour=0.021),
        Margin(kind=MarginKind.CARD, field="fleet.h20", added=1.0, gained_rps=0.4, saved_devices=1),
    ),
    quirks=(
        QuirkNote(
            quirk="mlu590-linear-m1", kind="mlu590", stage="thinker", cost_ratio=1.03, words="wrong rows where M is 1"
        ),
        QuirkNote(quirk="x-topk", kind="x", stage="thinker", cost_ratio=None, words="wrong indices"),
    ),
    remarks=("pre-processing has 8 cores",),
)

PLAN = FleetPlan(
    name="voice",
    model="voice",
    graph=GRAPH,
    pools=POOLS,
    gang=GANG,
    seats=SEATS,
    objectives=(TTFT, TPOT),
    account=ACCOUNT,
)
