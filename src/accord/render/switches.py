"""The fleet's switches as custom resources: Volcano's HyperNodes, and Topologies of Kueue and KAI.

In: a `Fleet`. Out: documents. Invariant: a switch or node whose name no Kubernetes object can have is left out; no
node of a cluster has such a name.
"""

import re

from accord.render.names import label_name
from accord.render.relations import TOPOLOGY_KEYS
from accord.render.yaml_text import Document, Value
from accord.terms.fleet import Fleet
from accord.terms.gang import Scope

TOPOLOGY = "accord"
TIERS = {Scope.LEAF: 1, Scope.SPINE: 2}
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LONGEST_NAME = 253


def has_switches(fleet: Fleet | None) -> bool:
    """Whether the fleet knows which switch its nodes stand below."""
    return fleet is not None and any(node.leaf and _is_name(node.name) for node in fleet.nodes)


def topology(api_version: str) -> Document:
    """The levels of switches, by the labels of nodes, widest first."""
    scopes = (Scope.SPINE, Scope.LEAF, Scope.HOST)
    return {
        "apiVersion": api_version,
        "kind": "Topology",
        "metadata": {"name": TOPOLOGY},
        "spec": {"levels": [{"nodeLabel": TOPOLOGY_KEYS[scope]} for scope in scopes]},
    }


def hyper_nodes(fleet: Fleet) -> tuple[Document, ...]:
    """One HyperNode a leaf switch, over its nodes, and one a spine, over its leaves."""
    leaves: dict[str, list[str]] = {}
    spines: dict[str, set[str]] = {}
    for node in fleet.nodes:
        if node.leaf and _is_name(node.name):
            leaves.setdefault(node.leaf, []).append(node.name)
            if node.spine:
                spines.setdefault(node.spine, set()).add(node.leaf)
    found = [_hyper_node(Scope.LEAF, name, _members("Node", nodes)) for name, nodes in sorted(leaves.items())]
    for name, below in sorted(spines.items()):
        found.append(_hyper_node(Scope.SPINE, name, _members("HyperNode", [_name(Scope.LEAF, leaf) for leaf in below])))
    return tuple(found)


def _hyper_node(scope: Scope, name: str, members: list[Value]) -> Document:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": _name(scope, name)},
        "spec": {"tier": TIERS[scope], "tierName": str(scope), "members": members},
    }


def _name(scope: Scope, name: str) -> str:
    """A leaf and a spine may have one name; their HyperNodes may not."""
    return label_name(str(scope), name)


def _members(kind: str, names: list[str]) -> list[Value]:
    return [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in sorted(names)]


def _is_name(text: str) -> bool:
    return len(text) <= _LONGEST_NAME and _NODE_NAME.fullmatch(text) is not None
