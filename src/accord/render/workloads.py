"""The part of a render that all Kubernetes targets share: workloads, Services, budgets, autoscalers.

In: a `FleetPlan` and a target's `Dresser`. Out: documents, in the plan's order. Invariant: the pods of a pool are
those of its part: a Deployment's, or a LeaderWorkerSet's where one replica stands on several nodes or has a name.
"""

from collections.abc import Iterator
from dataclasses import replace

from accord.render.around import SERVING, around_pool, around_stage, calls, is_grouped, peers_name, peers_service
from accord.render.dress import Dress, Dresser, Member
from accord.render.engines.table import launch, runs
from accord.render.launch import Launch, Where
from accord.render.names import label_name
from accord.render.pods import (
    LEADER_ADDRESS,
    NODE_RANK,
    POD_ADDRESS,
    check_words,
    config_map,
    labels,
    pod_template,
    selector,
)
from accord.render.processes import memory_share
from accord.render.relations import REPLICA, replica_of
from accord.render.rendered import Options
from accord.render.wishes import kind_of, ports
from accord.render.yaml_text import Document
from accord.terms.errors import BadInput
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan, Pool


def workloads(plan: FleetPlan, fleet: Fleet | None, options: Options, dresser: Dresser) -> Iterator[Document]:
    """The documents of all pools, and what stands around them."""
    written: list[Document] = []
    pools = [members(plan, pool, fleet, options) for pool in plan.pools if runs(plan, pool)]
    for replicas in pools:
        check_words(replicas[0][0])
        for pods in replicas:
            for document in _replica(pods, dresser):
                if document not in written:
                    written.append(document)
                    yield document
        yield from around_pool(replicas[0][0], launch_of(replicas[0][0]))
        if any(calls(launch_of(other[0][0]), replicas[0][0]) for other in pools):
            yield peers_service(replicas[0][0])
    for stage in plan.graph.stages:
        yield from around_stage([replicas for replicas in pools if replicas[0][0].pool.stage == stage.name])


def members(plan: FleetPlan, pool: Pool, fleet: Fleet | None, options: Options) -> list[tuple[Member, ...]]:
    """The pods of a pool: for each workload its leader and, where a replica stands on several nodes, its workers."""
    part = next(part for part in plan.gang.parts if part.name == pool.part)
    kind = kind_of(pool.kind, fleet)
    if kind is None and (part.need.cards or part.need.share):
        field, fix = f"fleet_plan.pools.{pool.name}.kind", "name the fleet that has it with --fleet"
        raise BadInput(field=field, value=pool.kind, problem="unknown device kind", fix=fix)
    model = Member(
        plan=plan,
        pool=pool,
        part=part,
        workload=label_name(plan.name, pool.name),
        name=label_name(plan.name, pool.name),
        kind=kind,
        fleet=fleet,
        options=options,
        replicas=pool.replicas,
    )
    seats = sorted((seat for seat in plan.seats if seat.part == pool.part), key=lambda seat: seat.replica)
    if not (options.pinned and seats):
        return [_leader_and_workers(model)]
    found = []
    for number in range(pool.replicas):
        name = label_name(plan.name, pool.name, str(number))
        own = tuple(seats[number * pool.nodes : (number + 1) * pool.nodes])
        found.append(_leader_and_workers(replace(model, workload=name, name=name, replicas=1, seats=own)))
    return found


def _leader_and_workers(model: Member) -> tuple[Member, ...]:
    nodes = model.pool.nodes
    if nodes == 1:
        return (model,)
    leader = replace(model, seats=model.seats[:1])
    workers = replace(model, name=f"{model.name}-workers", leader=False, pods=nodes - 1, seats=model.seats[1:])
    return (leader, workers)


def _replica(pods: tuple[Member, ...], dresser: Dresser) -> Iterator[Document]:
    """One workload with what it needs."""
    dresses = [dresser(member) for member in pods]
    launches = [launch_of(member, dress) for member, dress in zip(pods, dresses, strict=True)]
    for dress in dresses:
        yield from dress.documents
    for member, started in zip(pods, launches, strict=True):
        files = config_map(member, started)
        if files is not None:
            yield files
    templates = [
        pod_template(member, dress, started, marks={**_own_labels(member), **(SERVING if member.leader else {})})
        for member, dress, started in zip(pods, dresses, launches, strict=True)
    ]
    if is_grouped(pods[0].pool):
        yield _leader_worker_set(pods[0], dresses[0], templates)
    else:
        yield _deployment(pods[0], dresses[0], templates[0])


def launch_of(member: Member, dress: Dress | None = None) -> Launch:
    """How a process of these pods is started."""
    plan, several = member.plan, member.pool.nodes > 1
    nics = ports(member.seats, member.fleet)
    where = Where(
        leader=member.leader,
        node_rank=NODE_RANK if several else "0",
        leader_address=LEADER_ADDRESS if several else POD_ADDRESS,
        own_address=POD_ADDRESS,
        nic=nics[0] if nics is not None and len(set(nics)) == 1 else None,
        peers=tuple((pool.name, peers_name(plan.name, pool.name)) for pool in plan.pools),
        memory_share=None if dress is None or dress.confines else _memory_share(member, dress),
    )
    return launch(plan, member.pool, member.vendor, where)


def _memory_share(member: Member, dress: Dress) -> float | None:
    return memory_share(member.part.need, member.kind, dress.visible_bytes)


def _deployment(member: Member, dress: Dress, template: Document) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(member, dress),
        "spec": {
            "replicas": member.replicas,
            "selector": {"matchLabels": _own_labels(member)},
            # Devices are rarely free twice: the old pod goes before the new one comes.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": template,
        },
    }


def _leader_worker_set(leader: Member, dress: Dress, templates: list[Document]) -> Document:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": _metadata(leader, dress),
        "spec": {
            "replicas": leader.replicas,
            "startupPolicy": "LeaderCreated",
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "leaderWorkerTemplate": {
                "size": leader.pool.nodes,
                # Ranks of one group can't go on without each other.
                "restartPolicy": "RecreateGroupOnPodRestart",
                **({"leaderTemplate": templates[0]} if len(templates) > 1 else {}),
                "workerTemplate": templates[-1],
            },
        },
    }


def _own_labels(member: Member) -> Document:
    """What tells one pinned replica's pods from those of its siblings."""
    return {**selector(member), **({REPLICA: replica_of(member)} if member.seats else {})}


def _metadata(member: Member, dress: Dress) -> Document:
    return {
        "name": member.workload,
        "namespace": member.options.namespace,
        "labels": {**labels(member), **dict(dress.owner_labels)},
        **({"annotations": dict(dress.owner_annotations)} if dress.owner_annotations else {}),
    }
