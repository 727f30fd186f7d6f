"""A spoken question answered by stages that work at the same time, against the same stages one after the other.

Serial: the same engines with the plan's threads, in this process, each run to its end before the next is fed.
Both are asked the same question in turn and must give the same words. Medians. Sum: the time that the stages were
busy in the overlapped run, added up.
"""

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from _embedded import planned, service
from _figures import Figure, write
from accord.cli.demo import spoken_request
from accord.cli.flow import Prepared
from accord.cli.live import run_to_end
from accord.edges.engine_options import engine_options
from accord.edges.profile_samples import question
from accord.operate import Answer, ask
from accord.run import engines
from accord.run.ports import Chunk, Emission, Engine, EngineSpec, Job, JobDone, JobFailed
from accord.run.runtime import Runtime
from accord.terms.errors import BrokenEdge
from accord.terms.graph import DOOR, Payload, StageGraph
from accord.terms.plan import Plan
from accord.terms.request import Output, Request
from accord.terms.status import Activity

ROUNDS = 5
CHAIN = ("recognizer", "language", "acoustic", "vocoder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One answer. Times in s from submission; `stages_s` is the work of all stages together."""

    text: str
    first_audio_s: float
    text_end_s: float
    end_s: float
    stages_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One chunk on its way from stage to stage."""

    source: str
    payload: Payload
    index: int
    data: bytes
    meta: bytes
    made_s: float


def main() -> None:
    """Measures both, in turn."""
    prepared, plan = planned()
    loaded = {name: engines.load(_spec(prepared, plan, name)) for name in CHAIN}
    write("overlap", run_to_end(_measure(prepared, plan, loaded)))


async def _measure(prepared: Prepared, plan: Plan, loaded: Mapping[str, Engine]) -> list[Figure]:
    request = spoken_request(plan.graph, question())
    overlapped, serial = [], []
    async with service(prepared, plan) as runtime:
        for number in range(ROUNDS + 1):
            together = await _overlapped(runtime, request)
            alone = _serial(plan.graph, loaded, request)
            if together.text != alone.text:
                raise BrokenEdge(f"the words differ: {together.text!r} overlapped, {alone.text!r} one by one")
            if number:  # the first is a warm-up
                overlapped.append(together)
                serial.append(alone)
    return _figures(overlapped, serial)


async def _overlapped(runtime: Runtime, request: Request) -> Run:
    began_s = time.monotonic()
    text_end_s = 0.0

    def hear(output: Output) -> None:
        nonlocal text_end_s
        if output.edge == "text":
            text_end_s = time.monotonic() - began_s

    answer: Answer = await ask(runtime, request, hear=hear)
    if answer.first_audio_s is None:
        raise BrokenEdge("no sound came back")
    busy = list(Activity).index(Activity.BUSY)
    return Run(
        text=answer.text,
        first_audio_s=answer.first_audio_s,
        text_end_s=text_end_s,
        end_s=answer.latency_s,
        stages_s=sum(stage.time_s[busy] for stage in answer.stages),
    )


def _serial(graph: StageGraph, loaded: Mapping[str, Engine], request: Request) -> Run:
    """Each stage gets all that it needs, and is done before the next begins."""
    began_s = time.monotonic()
    edges = {edge.name: edge for edge in graph.edges}
    pieces = [
        Piece(source=DOOR, payload=edges[part.edge].payload, index=0, data=part.data, meta=b"", made_s=0.0)
        for part in request.parts
    ]
    ended_s: dict[str, float] = {}
    for name in CHAIN:
        wanted = {(edge.source, edge.payload) for edge in graph.edges if edge.target == name}
        given = [piece for piece in pieces if (piece.source, piece.payload) in wanted]
        pieces += [*_run(loaded[name], name, given, request)]
        ended_s[name] = time.monotonic() - began_s
    first_audio_s = next(piece.made_s for piece in pieces if piece.source == CHAIN[-1]) - began_s
    words = b"".join(piece.data for piece in pieces if piece.source == "language" and piece.payload is Payload.TEXT)
    end_s = ended_s[CHAIN[-1]]
    text_end_s = ended_s["language"]
    return Run(text=words.decode(), first_audio_s=first_audio_s, text_end_s=text_end_s, end_s=end_s, stages_s=end_s)


def _run(engine: Engine, stage: str, given: list[Piece], request: Request) -> Iterator[Piece]:
    job = Job(request_id=1, params=request.params, inputs=frozenset(piece.source for piece in given))
    for piece in given:
        view = memoryview(piece.data)
        chunk = Chunk(
            source=piece.source,
            payload=piece.payload,
            index=piece.index,
            data=view,
            meta=piece.meta,
            release=lambda: None,
        )
        engine.feed(job, chunk)
    engine.feed(job, None)
    while True:
        for output in engine.step(frozenset()).outputs:
            match output:
                case Emission(payload=payload, buffers=buffers, index=index, meta=meta):
                    data, made_s = b"".join(buffers), time.monotonic()
                    yield Piece(source=stage, payload=payload, index=index, data=data, meta=meta, made_s=made_s)
                case JobDone():
                    return
                case JobFailed(text=text):
                    raise BrokenEdge(f"stage {stage}: {text}")


def _spec(prepared: Prepared, plan: Plan, stage: str) -> EngineSpec:
    item = plan.stage(stage)
    return EngineSpec(
        engine=item.engine,
        stage=stage,
        threads=item.threads,
        batch_max=item.batch_max,
        memory_bytes=item.memory_bytes,
        assets=tuple((name, str(prepared.assets[name])) for name in item.assets),
        options=(*item.options, *engine_options(item.engine, home=prepared.home)),
        deterministic=plan.deterministic,
    )


def _figures(overlapped: list[Run], serial: list[Run]) -> list[Figure]:
    lead_ms = 1e3 * statistics.median(run.text_end_s - run.first_audio_s for run in overlapped)
    end_s, serial_s = (statistics.median(run.end_s for run in runs) for runs in (overlapped, serial))
    first_s, serial_first_s = (statistics.median(run.first_audio_s for run in runs) for runs in (overlapped, serial))
    sum_s = statistics.median(run.stages_s for run in overlapped)
    return [
        Figure(name="first audio before the text ends", value=lead_ms, unit="ms", better="higher", bar=0),
        Figure(name="end to end to serial", value=end_s / serial_s, unit="x", better="lower", bar=1),
        Figure(name="end to end to sum", value=end_s / sum_s, unit="x", better="lower", bar=1),
        Figure(name="first audio to serial", value=first_s / serial_first_s, unit="x", better="lower", bar=1),
        Figure(name="first audio", value=1e3 * first_s, unit="ms", better="lower"),
        Figure(name="end to end", value=1e3 * end_s, unit="ms", better="lower"),
        Figure(name="serial", value=1e3 * serial_s, unit="ms", better="lower"),
        Figure(name="sum", value=1e3 * sum_s, unit="ms", better="lower"),
    ]


if __name__ == "__main__":
    main()
