"""vLLM's plan for the KV cache of a model, as a peer of ours.

In: cache groups, requests' lengths, memory. Out: `VllmPlan`s, from vLLM's own code in a child process, or None where
vLLM isn't installed (`tools/setup dev` puts its wheel into `.venv/peers`, without the packages that it asks for).
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from accord.terms.cache import CacheGroup, CacheKind
from accord.terms.tensors import Dtype

PEERS = Path(sys.prefix) / "peers"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCase:
    """Requests of `tokens` tokens in `memory_bytes`. `in_flight`: tokens of one step that a window keeps besides."""

    groups: tuple[CacheGroup, ...]
    tokens: int
    memory_bytes: int
    dtype: Dtype = Dtype.BF16
    in_flight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmPlan:
    """What vLLM makes of one case, in the better of its two cache layouts.

    `requests` of the stated length fit; each takes `request_blocks` of all `blocks`, in `groups` block tables.
    """

    layout: str
    requests: int
    blocks: int
    block_bytes: int
    request_blocks: int
    block_tokens: int
    groups: int


def vllm_plans(cases: Iterable[PageCase]) -> tuple[VllmPlan, ...] | None:
    """One plan for each case; None where vLLM isn't installed."""
    if not (PEERS / "vllm").is_dir():
        return None
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("_vllm_child.py"))],
        input=json.dumps([_written(case) for case in cases]),
        env={**os.environ, "PYTHONPATH": str(PEERS), "VLLM_LOGGING_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"vLLM's plan failed:\n{done.stderr}")
    return tuple(VllmPlan(**plan) for plan in json.loads(done.stdout.splitlines()[-1]))


def _written(case: PageCase) -> dict[str, object]:
    return {
        "layers": _layers(case),
        "tokens": case.tokens,
        "memory_bytes": case.memory_bytes,
        "block": 16,
        "in_flight": case.in_flight,
    }


def _layers(case: PageCase) -> list[dict[str, object]]:
    """A layer for each cache that vLLM registers, in the model's order; all states of a layer are one cache there."""
    states: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    found: list[tuple[int, dict[str, object]]] = []
    for group in case.groups:
        for layer in group.layers:
            if group.kind is CacheKind.STATE:
                states[layer].append((group.state_values, group.state_dtype.value))
            else:
                found.append((layer, _attention(case, group, layer)))
    found += [(layer, {"name": f"{layer}.state", "kind": "state", "states": held}) for layer, held in states.items()]
    return [row for _, row in sorted(found, key=lambda item: item[0])]


def _attention(case: PageCase, group: CacheGroup, layer: int) -> dict[str, object]:
    return {
        "name": f"{layer}.{group.name}",
        "kind": group.kind.value,
        "heads": group.heads,
        "key_dim": group.key_dim,
        "value_dim": group.value_dim,
        "window": group.window,
        "dtype": case.dtype.value,
    }
