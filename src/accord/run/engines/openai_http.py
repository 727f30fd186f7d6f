"""Any OpenAI-compatible HTTP server (vLLM, SGLang, llama-server) as an AR stage.

In: a PROMPT, and TEXT for its slots. Out: TEXT as the server streams it, then its usage.
Invariant: at most `batch_max` requests are at the server, and a request that is held back holds back no other.
"""

import math
import os
from collections import deque
from collections.abc import Set
from urllib.parse import urlsplit

import msgspec

from accord.run.engines.gather import Gather
from accord.run.engines.http_flow import Broken, Flow
from accord.run.engines.http_lane import Lane, Server
from accord.run.engines.options import read_options
from accord.run.ports import Chunk, Emission, EngineSpec, Job, JobDone, JobFailed, Output, Step
from accord.terms.errors import BadInput
from accord.terms.graph import Payload
from accord.terms.request import ErrorCode, Params


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`base_url` ends with `/v1`; `model` is the server's name of it.

    `api_key_env` names an environment variable. `connect_s` bounds the connecting; `read_s` bounds the
    server's silence, the wait for the first token included. `batch_invariant` says that the server was started
    so that a request's output doesn't depend on its batch; without it a deterministic plan is refused.
    """

    base_url: str
    model: str
    api_key_env: str = ""
    connect_s: float = 5.0
    read_s: float = 60.0
    batch_invariant: bool = False


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    role: str
    content: str


class _StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    include_usage: bool = True


class _Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    model: str
    messages: tuple[_Said, ...]
    max_tokens: int
    temperature: float
    top_p: float
    stream: bool
    stream_options: _StreamOptions
    seed: int | None = None
    stop: tuple[str, ...] = ()


def load(spec: EngineSpec) -> "HttpEngine":
    """Connects to the server. BadInput for wrong options, BrokenEdge if the server can't be reached."""
    options = read_options(spec, Options)
    if spec.deterministic and not options.batch_invariant:
        raise BadInput(
            field=f"stages.{spec.stage}.options.batch_invariant",
            value=False,
            problem="the plan is deterministic, and nothing says that the server is",
            fix="start the server in its batch-invariant mode and set this to true, or drop deterministic",
        )
    lane = Lane(_server(options, field=f"stages.{spec.stage}.options"), spec.stage)
    return HttpEngine(lane, model=options.model, at_once_max=spec.batch_max)


class HttpEngine:
    """An Engine that waits on a server: step it when `wake_fd` turns readable."""

    def __init__(self, lane: Lane, *, model: str, at_once_max: int) -> None:
        self._lane = lane
        self._model = model
        self._at_once_max = at_once_max
        self._gathering: dict[int, tuple[Gather, Params]] = {}
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._flows: dict[int, Flow] = {}
        self._failed: dict[int, JobFailed] = {}

    def wake_fd(self) -> int:
        """Readable when a stream has brought something."""
        return self._lane.wake_fd()

    def feed(self, job: Job, chunk: Chunk | None) -> None:
        """Reads and releases the chunk; the end of the input sends the request."""
        gather, _ = self._gathering.setdefault(job.request_id, (Gather(), job.params))
        if chunk is not None:
            gather.take(chunk)
            return
        del self._gathering[job.request_id]
        try:
            messages = gather.messages()
        except BadInput as error:
            self._failed[job.request_id] = JobFailed(
                request_id=job.request_id, code=ErrorCode.BAD_INPUT, text=str(error)
            )
            return
        said = tuple(_Said(role=role, content=text) for role, text in messages)
        self._waiting.append((job.request_id, _body(self._model, said, job.params)))
        self._send()

    def step(self, blocked: Set[int]) -> Step:
        """What has arrived for the requests that aren't blocked; never waits."""
        self._lane.drain()
        outputs: list[Output] = [self._failed.pop(key) for key in tuple(self._failed) if key not in blocked]
        for request_id, flow in tuple(self._flows.items()):
            if request_id not in blocked and flow.has_news():
                outputs += self._collect(request_id, flow)
        self._send()
        return Step(outputs=outputs, worked=tuple({output.request_id: None for output in outputs}))

    def cancel(self, request_id: int) -> None:
        """Closes the request's connection, whereupon the server frees its slot."""
        self._gathering.pop(request_id, None)
        self._failed.pop(request_id, None)
        self._waiting = deque(item for item in self._waiting if item[0] != request_id)
        flow = self._flows.pop(request_id, None)
        if flow is not None:
            self._lane.cancel(flow)
            self._send()

    def close(self) -> None:
        """Closes every connection and ends the thread."""
        self._lane.close()

    def _send(self) -> None:
        while self._waiting and len(self._flows) < self._at_once_max:
            request_id, body = self._waiting.popleft()
            self._flows[request_id] = self._lane.start(body)

    def _collect(self, request_id: int, flow: Flow) -> list[Output]:
        text, ending, was_full = flow.take()
        if was_full:
            self._lane.resume(flow)
        outputs: list[Output] = []
        if text:
            outputs.append(Emission(request_id=request_id, payload=Payload.TEXT, buffers=(text,)))
        if ending is None:
            return outputs
        del self._flows[request_id]
        if isinstance(ending, Broken):
            outputs.append(JobFailed(request_id=request_id, code=ending.code, text=ending.text))
        else:
            outputs.append(JobDone(request_id=request_id, usage=ending))
        return outputs


def _server(options: Options, *, field: str) -> Server:
    url = urlsplit(options.base_url)
    if url.scheme not in {"http", "https"} or not url.hostname or url.query or url.fragment:
        raise BadInput(
            field=f"{field}.base_url",
            value=options.base_url,
            problem="not the root of an HTTP API",
            fix="write it like http://127.0.0.1:8000/v1",
        )
    for name, value in (("connect_s", options.connect_s), ("read_s", options.read_s)):
        if not (math.isfinite(value) and value > 0):
            raise BadInput(field=f"{field}.{name}", value=value, problem="not a deadline", fix="give seconds above 0")
    key = os.environ.get(options.api_key_env, "") if options.api_key_env else ""
    if options.api_key_env and not key:
        raise BadInput(
            field=f"{field}.api_key_env",
            value=options.api_key_env,
            problem="the environment has no such variable",
            fix="set it to the server's API key, or leave the option out",
        )
    return Server(url=options.base_url.rstrip("/"), api_key=key, connect_s=options.connect_s, read_s=options.read_s)


def _body(model: str, messages: tuple[_Said, ...], params: Params) -> bytes:
    return msgspec.json.encode(
        _Body(
            model=model,
            messages=messages,
            max_tokens=params.max_tokens,
            temperature=params.temperature,
            top_p=params.top_p,
            stream=True,
            stream_options=_StreamOptions(),
            seed=params.seed,
            stop=params.stop,
        )
    )
