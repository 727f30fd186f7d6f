"""The process in front of prefill and decode pools, which sends each request to one of both.

In: a stage's pools with the addresses of their replicas. Out: `Launch`. Names are those of vllm-router 0.1.17 and
sglang-router 0.3.2. Invariant: a stage without prefill and decode apart needs none.
"""

from dataclasses import dataclass

from accord.render.engines import sglang, vllm
from accord.render.launch import Launch, Port
from accord.terms.fleet_plan import Role

_PORT = 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A replica that a router sends to: `slot` numbers those of one host."""

    role: Role
    host: str
    slot: int = 0


def launch_router(engine: str, workers: tuple[Worker, ...]) -> Launch | None:
    """The router of one stage; None for an engine that has none, or where nothing is apart."""
    if engine not in ("vllm", "sglang") or {one.role for one in workers} != {Role.PREFILL, Role.DECODE}:
        return None
    sgl = engine == "sglang"
    first, split = ("sglang_router", "--pd-disaggregation") if sgl else ("vllm_router", "--vllm-pd-disaggregation")
    words = ["python3", "-m", f"{first}.launch_router", "--host", "0.0.0.0", "--port", str(_PORT), split]
    for worker in workers:
        words += [f"--{worker.role}", _url(worker, engine)]
        # vLLM's NIXL needs no bootstrap server: prefill tells the way in its answer.
        words += [str(sglang.BOOTSTRAP + worker.slot)] if sgl and worker.role is Role.PREFILL else []
    image = "lmsysorg/sgl-model-gateway:v0.3.2" if sgl else "vllm/vllm-router:nightly"
    return Launch(words=tuple(words), image=image, ports=(Port(name="http", number=_PORT),), health="/health")


def _url(worker: Worker, engine: str) -> str:
    port = sglang.http_port(worker.slot) if engine == "sglang" else vllm.http_port(worker.slot)
    return f"http://{worker.host}:{port}"
