"""One pod: the engine's container with its resources, probes, files and bounds.

In: a `Member`, a `Dress`, a `Launch`. Out: a pod template. Invariant: a word of the plan reaches the engine as it
stands; nothing in it is expanded by Kubernetes, and no shell reads it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from accord.render.dress import Claim, Dress, Member, Pairs
from accord.render.launch import Launch
from accord.render.names import label_name, label_value
from accord.render.relations import COMPONENT, INSTANCE, affinity, spread
from accord.render.yaml_text import Document, Value
from accord.terms.errors import BadInput

CONTAINER = "engine"
STAGE = "accord/stage"
# What an engine may put into its words for Kubernetes to replace.
POD_ADDRESS = "$(POD_IP)"
LEADER_ADDRESS = "$(LWS_LEADER_ADDRESS)"
NODE_RANK = "$(LWS_WORKER_INDEX)"
_REPLACED = (POD_ADDRESS, LEADER_ADDRESS, NODE_RANK)
_GIB = 1 << 30
_PROBE_S = 10
_CACHE = "/cache"  # downloaded weights and compiled kernels; XDG_CACHE_HOME leads there


@dataclass(frozen=True, slots=True, kw_only=True)
class _Volume:
    name: str
    path: str
    source: Document
    file: str | None = None


def pod_template(member: Member, dress: Dress, launch: Launch, *, marks: Document) -> Document:
    """The pods of `member`, dressed by their target; `marks` are further labels."""
    return {
        "metadata": {
            "labels": {**labels(member), **marks, **dict(dress.labels)},
            **({"annotations": dict(dress.annotations)} if dress.annotations else {}),
        },
        "spec": _pod(member, dress, launch),
    }


def labels(member: Member) -> dict[str, Value]:
    """The labels of everything that belongs to a pool."""
    return {**selector(member), **plan_labels(member), STAGE: label_value(member.pool.stage)}


def plan_labels(member: Member) -> dict[str, Value]:
    """The labels of what belongs to several pools of a plan."""
    return {INSTANCE: label_value(member.plan.name), "app.kubernetes.io/managed-by": "accord"}


def selector(member: Member) -> dict[str, Value]:
    """The labels that tell a pool's pods from all others of the namespace."""
    return {INSTANCE: label_value(member.plan.name), COMPONENT: label_value(member.pool.name)}


def config_map(member: Member, launch: Launch) -> Document | None:
    """The files that the engine reads; None if there are none."""
    if not launch.mounts:
        return None
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _files(member), "namespace": member.options.namespace, "labels": labels(member)},
        "data": {f"file-{number}": mount.text for number, mount in enumerate(launch.mounts)},
    }


def _files(member: Member) -> str:
    return f"{member.name}-files"


def _pod(member: Member, dress: Dress, launch: Launch) -> Document:
    volumes = _volumes(member, launch)
    spread_terms, affinity_terms = spread(member), affinity(member)
    optional: dict[str, Value] = {
        "affinity": affinity_terms or None,
        "topologySpreadConstraints": spread_terms or None,
        "nodeSelector": dict(dress.node_labels) or None,
        "tolerations": [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in dress.tolerations]
        or None,
        "schedulerName": dress.scheduler,
        "runtimeClassName": dress.runtime_class,
        "resourceClaims": [_claim(one) for one in dress.claims] or None,
    }
    return {
        "automountServiceAccountToken": False,
        "containers": [_container(member, dress, launch, volumes)],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 120,
        "volumes": [{"name": name, **source} for name, source in {one.name: one.source for one in volumes}.items()],
        **{name: value for name, value in optional.items() if value is not None},
    }


def _container(member: Member, dress: Dress, launch: Launch, volumes: tuple[_Volume, ...]) -> Document:
    ports: list[Value] = [{"name": port.name, "containerPort": port.number} for port in launch.ports]
    # An RDMA transport pins its buffers in memory.
    capabilities: dict[str, Value] = {"drop": ["ALL"], **({"add": ["IPC_LOCK"]} if _talks(member) else {})}
    return {
        "name": CONTAINER,
        "image": image_of(member, launch),
        "command": [_literal(word) for word in launch.words],
        "env": _environment(launch.environment, dress.environment),
        **({"ports": ports} if ports else {}),
        **(probes(launch) if launch.health and launch.ports else {}),
        "resources": _resources(member, dress),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": capabilities},
        "volumeMounts": [
            {
                "name": one.name,
                "mountPath": one.path,
                **({"subPath": one.file, "readOnly": True} if one.file else {}),
                **({"readOnly": True} if "hostPath" in one.source else {}),
            }
            for one in volumes
        ],
    }


def _claim(claim: Claim) -> Document:
    if claim.template is not None:
        return {"name": claim.name, "resourceClaimTemplateName": claim.template}
    return {"name": claim.name, "resourceClaimName": claim.shared}


def image_of(member: Member, launch: Launch) -> str:
    """The image that the options name for this pool or its engine, else the engine's usual one."""
    named = dict(member.options.images)
    return named.get(member.pool.name) or named.get(member.pool.engine) or launch.image


def _talks(member: Member) -> bool:
    return bool(member.part.need.nic_bytes_per_s or member.part.nic_within)


def _environment(*pairs: Pairs) -> list[Value]:
    address: Document = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    merged = {"XDG_CACHE_HOME": _CACHE, **{name: value for some in pairs for name, value in some}}
    return [address, *({"name": name, "value": _literal(merged[name])} for name in sorted(merged))]


def _literal(word: str) -> str:
    """The word so that Kubernetes, which replaces `$(NAME)`, gives it on as it stands."""
    pattern = "|".join(re.escape(one) for one in _REPLACED)
    pieces = re.split(f"({pattern})", word)
    return "".join(one if one in _REPLACED else one.replace("$", "$$") for one in pieces)


def check_words(member: Member) -> None:
    """BadInput where the plan itself writes what Kubernetes would replace."""
    pool = member.pool
    texts = [("model", member.plan.model)]
    texts += [(f"pools.{pool.name}.options", text) for pair in pool.options for text in pair]
    for field, text in texts:
        if any(one in text for one in _REPLACED):
            fix = "write the value itself"
            raise BadInput(
                field=f"fleet_plan.{field}", value=text, problem="Kubernetes would replace a part of it", fix=fix
            )


def probes(launch: Launch) -> Document:
    """Ready and alive is who answers on the first port."""
    check: dict[str, Value] = {"httpGet": {"path": launch.health, "port": launch.ports[0].name}}
    patience = max(1, math.ceil(launch.start_s / _PROBE_S))
    return {
        "startupProbe": {**check, "periodSeconds": _PROBE_S, "failureThreshold": patience, "timeoutSeconds": 5},
        "readinessProbe": {**check, "periodSeconds": _PROBE_S, "failureThreshold": 3, "timeoutSeconds": 5},
        # An engine that is deep in a long step answers late; it isn't dead.
        "livenessProbe": {**check, "periodSeconds": 30, "failureThreshold": 6, "timeoutSeconds": 15},
    }


def _resources(member: Member, dress: Dress) -> Document:
    """Requests equal limits, so that the pod is Guaranteed and the kubelet may give it cores of one NUMA node."""
    need = member.part.need
    amounts: dict[str, Value] = dict(dress.limits)
    if need.cpus:
        amounts["cpu"] = cpu_quantity(need.cpus)
    if need.host_memory_bytes:
        amounts["memory"] = byte_quantity(need.host_memory_bytes)
    if need.nvme_bytes:
        amounts["ephemeral-storage"] = byte_quantity(need.nvme_bytes)
    claims: list[Value] = []
    for claim in dress.claims:
        claims += [{"name": claim.name, "request": name} for name in claim.requests] or [{"name": claim.name}]
    return {
        **({"requests": amounts, "limits": amounts} if amounts else {}),
        **({"claims": claims} if claims else {}),
    }


def _volumes(member: Member, launch: Launch) -> tuple[_Volume, ...]:
    memory = member.part.need.host_memory_bytes
    shared = min(max(_GIB, memory // 4), 64 * _GIB) if memory else 8 * _GIB
    cache: Mapping[str, Value] = {}
    if member.part.need.nvme_bytes:
        cache = {"sizeLimit": byte_quantity(member.part.need.nvme_bytes)}
    found = [
        # Ranks of one node talk through shared memory, of which a container has 64 MiB by default.
        _Volume(
            name="shm", path="/dev/shm", source={"emptyDir": {"medium": "Memory", "sizeLimit": byte_quantity(shared)}}
        ),
        _Volume(name="cache", path=_CACHE, source={"emptyDir": cache}),
    ]
    model = member.plan.model
    if model.startswith("/"):
        found.append(_Volume(name="model", path=model, source={"hostPath": {"path": model, "type": "Directory"}}))
    files: Document = {"configMap": {"name": _files(member)}}
    found += [
        _Volume(name="files", path=mount.path, source=files, file=f"file-{number}")
        for number, mount in enumerate(launch.mounts)
    ]
    return tuple(found)


def cpu_quantity(cpus: float) -> str:
    """Cores as Kubernetes writes them, rounded up to thousandths."""
    milli = math.ceil(round(cpus * 1000, 6))
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def byte_quantity(size_bytes: int) -> str:
    """Bytes as Kubernetes writes them, exactly."""
    for unit, factor in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return str(size_bytes)


def service_name(*texts: str) -> str:
    """The Service of a pool: not the workload's name, which a LeaderWorkerSet gives to its own headless Service."""
    return f"{label_name(*texts)}-http"
