"""What stands around a plan's workloads: Services, disruption budgets, autoscalers, routers.

In: the `Member`s of a pool or of a stage. Out: documents. Invariant: a client has one Service to talk to for each
stage: its only pool's, the one over pools side by side, or its router's.
"""

from collections.abc import Iterator

from accord.render.dress import Member
from accord.render.engines.routers import Worker, launch_router
from accord.render.launch import Launch, Port
from accord.render.names import label_name, label_value
from accord.render.pods import STAGE, labels, plan_labels, probes, selector, service_name
from accord.render.relations import INSTANCE, SERVES
from accord.render.yaml_text import Document
from accord.terms.fleet_plan import Pool, Role

SERVING: Document = {SERVES: "true"}
ROUTER = "accord/router"
# How long requests wait in an engine's queue is what tells that a pool is too small; processors tell nothing.
_LOAD_METRICS = {
    "vllm": "vllm:num_requests_waiting",
    "vllm-omni": "vllm:num_requests_waiting",
    "sglang": "sglang:num_queue_reqs",
}
# Engines side by side may listen on different ports, which have one name.
_SIDE_BY_SIDE = (Port(name="http", number=80),)
# A router reads no tensors: it copies text between sockets.
_ROUTER_CPUS, _ROUTER_MEMORY = "2", "2Gi"


def is_grouped(pool: Pool) -> bool:
    """Whether a pool is a LeaderWorkerSet: for replicas on several nodes, and for those that a router calls by name."""
    return pool.nodes > 1 or pool.role is not Role.WHOLE


def around_pool(member: Member, started: Launch) -> Iterator[Document]:
    """The pool's Service, its disruption budget and its autoscaler. `member` is its first leader."""
    pool = member.pool
    if started.ports:
        name = service_name(member.plan.name, pool.name)
        yield _service(_named(member, name), {**selector(member), **SERVING}, started.ports)
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _named(member, label_name(member.plan.name, pool.name)),
        # One replica at a time: all of its nodes' pods are of no use without each other.
        "spec": {"maxUnavailable": pool.nodes, "selector": {"matchLabels": selector(member)}},
    }
    if member.options.replicas_max is not None and may_grow(pool):
        yield _autoscaler(member, _LOAD_METRICS[pool.engine], member.options.replicas_max)


def may_grow(pool: Pool) -> bool:
    """Whether a pool can have an autoscaler; a router knows only the replicas that it was started with."""
    return pool.engine in _LOAD_METRICS and pool.role is Role.WHOLE


def peers_name(*texts: str) -> str:
    """Where processes of other pools find a pool's leaders, before they are ready for requests, too."""
    return f"{label_name(*texts)}-peers"


def calls(started: Launch, member: Member) -> bool:
    """Whether a process is told the name under which others find the pool of `member`."""
    name = peers_name(member.plan.name, member.pool.name)
    return any(name in word for word in (*started.words, *(value for _, value in started.environment)))


def peers_service(member: Member) -> Document:
    """A Service without an address of its own: its name is the leaders' addresses, ready or not, on any port."""
    name = peers_name(member.plan.name, member.pool.name)
    spec: Document = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {**selector(member), **SERVING},
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": _named(member, name), "spec": spec}


def around_stage(pools: list[list[tuple[Member, ...]]]) -> Iterator[Document]:
    """A Service over pools that do the same work side by side; a router before those that share it."""
    whole = [replicas[0][0] for replicas in pools if replicas[0][0].pool.role is Role.WHOLE]
    if len(whole) > 1:
        first = whole[0]
        wanted = {INSTANCE: label_value(first.plan.name), STAGE: label_value(first.pool.stage), **SERVING}
        name = service_name(first.plan.name, first.pool.stage, "all")
        yield _service({**_named(first, name), "labels": plan_labels(first)}, wanted, _SIDE_BY_SIDE)
    shared = [replicas for replicas in pools if replicas[0][0].pool.role is not Role.WHOLE]
    router = launch_router(shared[0][0][0].pool.engine, _workers(shared)) if shared else None
    if router is not None:
        yield from _router(shared[0][0][0], router)


def _workers(pools: list[list[tuple[Member, ...]]]) -> tuple[Worker, ...]:
    """The leaders of all replicas, by the names that a LeaderWorkerSet gives them in its headless Service."""
    return tuple(
        Worker(role=pods[0].pool.role, host=f"{pods[0].workload}-{number}.{pods[0].workload}")
        for replicas in pools
        for pods in replicas
        for number in range(pods[0].replicas)
    )


def _router(member: Member, router: Launch) -> Iterator[Document]:
    """The router's Deployment and Service."""
    plan, stage = member.plan, member.pool.stage
    wanted: Document = {INSTANCE: label_value(plan.name), ROUTER: label_value(stage)}
    metadata: Document = {
        "name": label_name(plan.name, stage, "router"),
        "namespace": member.options.namespace,
        "labels": {**plan_labels(member), **wanted},
    }
    resources: Document = {"cpu": _ROUTER_CPUS, "memory": _ROUTER_MEMORY}
    container: Document = {
        "name": "router",
        "image": dict(member.options.images).get("router") or router.image,
        "command": list(router.words),
        "ports": [{"name": port.name, "containerPort": port.number} for port in router.ports],
        **probes(router),
        "resources": {"requests": resources, "limits": resources},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod: Document = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        # One: which replica holds which prefix is known to this process alone.
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": wanted},
            "template": {"metadata": {"labels": wanted}, "spec": pod},
        },
    }
    yield _service({**metadata, "name": service_name(plan.name, stage, "router")}, wanted, router.ports)


def _service(metadata: Document, wanted: Document, ports: tuple[Port, ...]) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "type": "ClusterIP",
            "selector": wanted,
            "ports": [{"name": port.name, "port": port.number, "targetPort": port.name} for port in ports],
        },
    }


def _named(member: Member, name: str) -> Document:
    return {"name": name, "namespace": member.options.namespace, "labels": labels(member)}


def _autoscaler(member: Member, metric: str, replicas_max: int) -> Document:
    several = is_grouped(member.pool)
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
