"""A real llama.cpp HTTP server as an owned child process.

In: a GGUF file. Out: `LlamaServer` with a base URL on loopback. Invariant: the child ends with its
parent: it reads its standard input and leaves when that closes, however the parent ended.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_S_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaServer:
    """`url` has no path: the API is below `/v1`, the slots at `/slots`."""

    url: str
    process: subprocess.Popen[str]


@contextmanager
def llama_server(gguf: Path, *, slots: int) -> Iterator[LlamaServer]:
    """Starts the server, waits until it listens (at most a minute), and ends it afterwards.

    With one slot its answers repeat themselves to the bit: batches of other sizes round differently.
    """
    child = subprocess.Popen(
        [sys.executable, __file__, str(gguf), str(slots)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    late = threading.Timer(START_S_MAX, child.kill)
    late.start()
    try:
        url = ""
        for line in child.stdout:
            if line.startswith("listening "):
                url = line.split()[1]
                break
        late.cancel()
        if not url:
            raise RuntimeError(f"llama.cpp's server did not start within {START_S_MAX} s: status {child.wait()}")
        yield LlamaServer(url=url, process=child)
    finally:
        late.cancel()
        child.kill()
        child.wait(timeout=10)
        child.stdin.close()
        child.stdout.close()


def _serve(gguf: str, slots: int) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 1024 * slots
    params.n_parallel = slots
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.n_gpu_layers = 0
    params.endpoint_slots = True
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.warmup = False
    server = xllamacpp.Server(params)
    print("listening", server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
