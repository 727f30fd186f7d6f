"""The part of a render that all Kubernetes targets share: workloads, Services, budgets, autoscalers.

In: a `FleetPlan` and a target's `Dresser`. Out: documents, in the plan's order. Invariant: the pods of a pool are
those of its part: a Deployment's, or a LeaderWorkerSet's where one replica stands on several nodes.
"""

from collections.abc import Iterator
from dataclasses import replace

from accord.render.dress import Dress, Dresser, Member
from accord.render.engines.table import launch
from accord.render.launch import Launch, Where
from accord.render.names import label_name, label_value
from accord.render.pods import (
    LEADER_ADDRESS,
    NODE_RANK,
    POD_ADDRESS,
    STAGE,
    check_words,
    config_map,
    labels,
    pod_template,
    selector,
    service_name,
)
from accord.render.relations import INSTANCE
from accord.render.rendered import Options
from accord.render.wishes import kind_of
from accord.render.yaml_text import Document, Value
from accord.terms.errors import BadInput
from accord.terms.fleet import Fleet
from accord.terms.fleet_plan import FleetPlan, Pool, Role

# The pods that answer requests: all of a Deployment's, the leaders of a LeaderWorkerSet's.
SERVES: Document = {"accord/serves": "true"}
# How long requests wait in an engine's queue is what tells that a pool is too small; processors tell nothing.
_LOAD_METRICS = {
    "vllm": "vllm:num_requests_waiting",
    "vllm-omni": "vllm:num_requests_waiting",
    "sglang": "sglang:num_queue_reqs",
}


def workloads(plan: FleetPlan, fleet: Fleet | None, options: Options, dresser: Dresser) -> Iterator[Document]:
    """The documents of all pools."""
    written: list[Document] = []
    for pool in plan.pools:
        replicas = members(plan, pool, fleet, options)
        check_words(replicas[0][0])
        for pods in replicas:
            for document in _replica(pods, dresser):
                if document not in written:
                    written.append(document)
                    yield document
        yield from _of_pool(replicas[0][0], options)
    yield from _of_stages(plan, fleet, options)


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
    launches = [_launch(member) for member in pods]
    for dress in dresses:
        yield from dress.documents
    for member, started in zip(pods, launches, strict=True):
        files = config_map(member, started)
        if files is not None:
            yield files
    templates = [
        pod_template(member, dress, started, marks={**_own_labels(member), **(SERVES if member.leader else {})})
        for member, dress, started in zip(pods, dresses, launches, strict=True)
    ]
    if len(pods) == 1:
        yield _deployment(pods[0], dresses[0], templates[0])
    else:
        yield _leader_worker_set(pods[0], dresses[0], templates)


def _launch(member: Member) -> Launch:
    plan, several = member.plan, member.pool.nodes > 1
    where = Where(
        leader=member.leader,
        node_rank=NODE_RANK if several else "0",
        leader_address=LEADER_ADDRESS if several else POD_ADDRESS,
        own_address=POD_ADDRESS,
        peers=tuple((pool.name, service_name(plan.name, pool.name)) for pool in plan.pools),
    )
    return launch(plan, member.pool, member.vendor, where)


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
                "leaderTemplate": templates[0],
                "workerTemplate": templates[1],
            },
        },
    }


def _own_labels(member: Member) -> Document:
    """What tells one pinned replica's pods from those of its siblings."""
    mark = {"accord/replica": str(member.seats[0].replica // member.pool.nodes)} if member.seats else {}
    return {**selector(member), **mark}


def _metadata(member: Member, dress: Dress) -> Document:
    return {
        "name": member.workload,
        "namespace": member.options.namespace,
        "labels": {**labels(member), **dict(dress.owner_labels)},
        **({"annotations": dict(dress.owner_annotations)} if dress.owner_annotations else {}),
    }


def _of_pool(member: Member, options: Options) -> Iterator[Document]:
    """The pool's Service, its disruption budget and its autoscaler."""
    pool, started = member.pool, _launch(member)
    if started.ports:
        name = service_name(member.plan.name, pool.name)
        yield _service(member, name, {**selector(member), **SERVES}, started)
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _named(member, label_name(member.plan.name, pool.name)),
        # One replica at a time: all of its nodes' pods are of no use without each other.
        "spec": {"maxUnavailable": pool.nodes, "selector": {"matchLabels": selector(member)}},
    }
    metric = _LOAD_METRICS.get(pool.engine)
    if options.replicas_max is not None and metric is not None and not member.seats:
        yield _autoscaler(member, metric, options.replicas_max)


def _of_stages(plan: FleetPlan, fleet: Fleet | None, options: Options) -> Iterator[Document]:
    """A Service over pools that do the same work side by side."""
    for stage in plan.graph.stages:
        pools = [pool for pool in plan.pools if pool.stage == stage.name and pool.role is Role.WHOLE]
        if len(pools) < 2:
            continue
        member = members(plan, pools[0], fleet, options)[0][0]
        wanted = {INSTANCE: label_value(plan.name), STAGE: label_value(stage.name), **SERVES}
        yield _service(member, service_name(plan.name, stage.name, "all"), wanted, _launch(member))


def _service(member: Member, name: str, wanted: Document, started: Launch) -> Document:
    ports: list[Value] = [{"name": port.name, "port": port.number, "targetPort": port.name} for port in started.ports]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _named(member, name),
        "spec": {"type": "ClusterIP", "selector": wanted, "ports": ports},
    }


def _named(member: Member, name: str) -> Document:
    return {"name": name, "namespace": member.options.namespace, "labels": labels(member)}


def _autoscaler(member: Member, metric: str, replicas_max: int) -> Document:
    several = member.pool.nodes > 1
    target: Document = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1" if several else "apps/v1",
        "kind": "LeaderWorkerSet" if several else "Deployment",
        "name": member.workload,
    }
    wanted: Document = {"type": "AverageValue", "averageValue": "5"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": _named(member, member.workload),
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": member.replicas,
            "maxReplicas": max(member.replicas, replicas_max),
            "metrics": [{"type": "Pods", "pods": {"metric": {"name": metric}, "target": wanted}}],
            # A replica takes minutes to load; shrinking early costs more than waiting.
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}},
        },
    }
