"""The fleet that a command is told of: this machine, a cluster, or a file.

In: a name as people write it. Out: `Fleet`. Invariant: probes are imported when one is asked for.
"""

import os
import platform
from pathlib import Path

from accord.edges.fleet_file import load_fleet
from accord.terms.fleet import Fleet

LOCAL, KUBERNETES = "local", "kubernetes"


def fleet_named(name: str, *, beside: Path | None = None) -> Fleet:
    """`local`, `kubernetes`, or a fleet file; BadInput or BrokenEdge where there is none."""
    if name == LOCAL:
        return this_machine()
    if name == KUBERNETES:
        return cluster(None, None)
    return load_fleet(file_beside(name, beside))


def file_beside(name: str, document: Path | None) -> Path:
    """A path in a document counts from the document's folder, else from where the command runs."""
    if document is not None and (document.parent / name).exists():
        return document.parent / name
    return Path(name)


def this_machine() -> Fleet:
    """This machine, as far as it lets itself be seen."""
    from accord.edges.probe_nvml import nvml_cards
    from accord.edges.probe_sysfs import probe_machine

    cards, unseen = nvml_cards()
    seen = probe_machine(Path("/"), name=platform.node(), cards=cards)
    return Fleet(kinds=seen.kinds, nodes=(seen.node,), unseen=unseen + seen.unseen)


def cluster(context: str | None, url: str | None) -> Fleet:
    """What the API server of a cluster tells: that of `url`, of a kubeconfig's context, or of its current one."""
    from accord.edges.cluster_api import read_cluster, server_at, server_of
    from accord.edges.cluster_fleet import fleet_of

    server = server_at(url) if url is not None else server_of(context=context, environ=os.environ)
    return fleet_of(read_cluster(server))
