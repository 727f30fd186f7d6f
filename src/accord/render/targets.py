"""The written-out table of targets; a new target is one file and one row here.

In: nothing. Out: `TARGETS`. Invariant: a target's code is imported only when it is asked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accord.render.rendered import Render


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One row: what it writes, in words, and its function once it is loaded. `manifests`: Kubernetes applies it."""

    words: str
    load: Callable[[], Render]
    manifests: bool = True


def _kubernetes() -> Render:
    from accord.render.kubernetes import render

    return render


def _hami() -> Render:
    from accord.render.hami import render

    return render


def _volcano() -> Render:
    from accord.render.volcano import render

    return render


def _koordinator() -> Render:
    from accord.render.koordinator import render

    return render


def _kueue() -> Render:
    from accord.render.kueue import render

    return render


def _kai() -> Render:
    from accord.render.kai import render

    return render


def _vllm() -> Render:
    from accord.render.scripts import render_vllm

    return render_vllm


def _sglang() -> Render:
    from accord.render.scripts import render_sglang

    return render_sglang


def _vllm_omni() -> Render:
    from accord.render.omni import render

    return render


def _ray() -> Render:
    from accord.render.ray import render

    return render


TARGETS: Mapping[str, Target] = {
    "kubernetes": Target(words="LeaderWorkerSets or Deployments, Services, DRA resource claims", load=_kubernetes),
    "hami": Target(words="HAMi's scheduler: fractions of devices of ten vendors, in their own names", load=_hami),
    "volcano": Target(words="Volcano: a PodGroup, HyperNodes of the switches, shared devices", load=_volcano),
    "koordinator": Target(words="Koordinator: devices and RDMA ports given out together, gangs", load=_koordinator),
    "kueue": Target(words="Kueue: quota, resource claims or topology-aware scheduling", load=_kueue),
    "kai": Target(words="KAI: a PodGroup with subgroups, topology, shared NVIDIA devices", load=_kai),
    "vllm": Target(words="vLLM: a shell script for each process, and their order", load=_vllm, manifests=False),
    "sglang": Target(words="SGLang: a shell script for each process, and their order", load=_sglang, manifests=False),
    "vllm-omni": Target(
        words="vLLM-Omni: its deploy document, and a script for each process", load=_vllm_omni, manifests=False
    ),
    "ray": Target(
        words="Ray: one placement group, and a program that starts its processes", load=_ray, manifests=False
    ),
}
