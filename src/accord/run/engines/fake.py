"""A scriptable engine without a model, for tests, fault drills and the orchestration benchmark.

In: any chunks. Out: the same bytes (`noop`, `echo`), words (`tokens`) or blocks of bytes (`chunks`).
Invariant: what a job emits depends on its own input and options alone, never on its neighbours.
"""

import zlib
from collections import deque
from collections.abc import Set
from dataclasses import dataclass, field

import msgspec

from accord.run.engines.fake_script import Fault, Mode, Options, command, may_strike, strike, work
from accord.run.engines.options import read_options
from accord.run.payloads import PCM_RATE_HZ, PcmMeta, TensorMeta
from accord.run.ports import Chunk, Emission, Engine, EngineSpec, Job, JobDone, Output, Step
from accord.terms.graph import Payload
from accord.terms.request import Usage


def load(spec: EngineSpec) -> Engine:
    """The fake engine that `spec.options` describes; BadInput for an unknown option or value."""
    options = read_options(spec, Options)
    if options.mode is Mode.NOOP and not options.faulty and not options.work_us:
        return NoopEngine(options.out)
    return FakeEngine(options, batch_max=spec.batch_max)


class NoopEngine:
    """Sends each chunk on as it came. A blocked job's chunks stay unreleased: its sender has to wait."""

    def __init__(self, out: Payload | None) -> None:
        self._out = out
        self._queue: list[tuple[int, Chunk | None]] = []

    def feed(self, job: Job, chunk: Chunk | None) -> None:
        """Queues the chunk, or the end."""
        self._queue.append((job.request_id, chunk))

    def step(self, blocked: Set[int]) -> Step:
        """Everything that is queued, but for the blocked."""
        queue = self._queue
        if not queue:
            return Step()
        self._queue = []
        if blocked:
            self._queue = [item for item in queue if item[0] in blocked]
            queue = [item for item in queue if item[0] not in blocked]
        return Step(outputs=[self._output(*item) for item in queue], worked=[item[0] for item in queue])

    def cancel(self, request_id: int) -> None:
        """Drops what was queued."""
        for number, chunk in self._queue:
            if number == request_id and chunk is not None:
                chunk.release()
        self._queue = [item for item in self._queue if item[0] != request_id]

    def _output(self, request_id: int, chunk: Chunk | None) -> Output:
        if chunk is None:
            return JobDone(request_id=request_id)
        data = bytes(chunk.data)
        chunk.release()
        return Emission(
            request_id=request_id,
            payload=self._out or chunk.payload,
            buffers=(data,),
            index=chunk.index,
            meta=chunk.meta,
        )


@dataclass(slots=True)
class _Run:
    """One open job. `input_left` counts the emissions that the chunk in work still gives."""

    number: int
    max_tokens: int
    fault: Fault | None
    fault_after: int
    waiting: deque[Chunk] = field(default_factory=deque)
    ended: bool = False
    input_left: int = 0
    input_sum: int = 0
    emitted: int = 0

    def can_work(self) -> bool:
        return bool(self.input_left or self.waiting or self.ended or self.fault_due())

    def fault_due(self) -> bool:
        return self.fault is not None and self.emitted >= self.fault_after


class FakeEngine:
    """Round robin over the open jobs, at most `batch_max` a step, one emission a job and step."""

    def __init__(self, options: Options, *, batch_max: int) -> None:
        self._options = options
        self._batch_max = batch_max
        self._runs: dict[int, _Run] = {}
        self._opened = 0

    def feed(self, job: Job, chunk: Chunk | None) -> None:
        """Queues the chunk; it is released when its turn comes."""
        run = self._runs.get(job.request_id)
        if run is None:
            self._opened += 1
            run = _Run(
                number=self._opened,
                max_tokens=job.params.max_tokens,
                fault=self._options.fault_of(self._opened),
                fault_after=self._options.after,
            )
            self._runs[job.request_id] = run
        if chunk is None:
            run.ended = True
        else:
            run.waiting.append(chunk)

    def step(self, blocked: Set[int]) -> Step:
        """One emission, or the end, for each of up to `batch_max` jobs that aren't blocked."""
        able = [number for number, run in self._runs.items() if number not in blocked and run.can_work()]
        batch = able[: self._batch_max]
        if not batch:
            return Step()
        work(self._options)
        outputs: list[Output] = []
        for request_id in batch:
            run = self._runs.pop(request_id)
            output = self._advance(request_id, run)
            if isinstance(output, Emission | None):
                self._runs[request_id] = run
            else:
                _release(run)
            if output is not None:
                outputs.append(output)
        more = any(number not in blocked and run.can_work() for number, run in self._runs.items())
        return Step(outputs=outputs, more=more, worked=batch)

    def cancel(self, request_id: int) -> None:
        """Forgets the job and releases the chunks that it had not read."""
        run = self._runs.pop(request_id, None)
        if run is not None:
            _release(run)

    def _advance(self, request_id: int, run: _Run) -> Output | None:
        if self._options.commands and run.waiting and not run.input_left:
            run.fault = command(run.waiting[0].data) or run.fault
        if run.fault is not None and run.fault_due():
            fault, run.fault = run.fault, None
            if may_strike(self._options.once):
                return strike(fault, request_id, run.number)
        if not run.input_left and not run.waiting:
            return self._end(request_id, run)
        return self._emit(request_id, run)

    def _end(self, request_id: int, run: _Run) -> JobDone | None:
        if not run.ended:
            return None
        counted = run.emitted if self._options.mode is Mode.TOKENS else 0
        return JobDone(request_id=request_id, usage=Usage(completion_tokens=counted) if counted else None)

    def _emit(self, request_id: int, run: _Run) -> Emission | None:
        match self._options.mode:
            case Mode.NOOP | Mode.ECHO:
                return _echo(request_id, run, self._options.out)
            case Mode.TOKENS | Mode.CHUNKS:
                return self._generate(request_id, run)

    def _generate(self, request_id: int, run: _Run) -> Emission | None:
        options = self._options
        if not run.input_left:
            chunk = run.waiting.popleft()
            run.input_sum = zlib.crc32(chunk.data, run.input_sum)
            chunk.release()
            run.input_left = min(options.tokens, run.max_tokens) if options.mode is Mode.TOKENS else options.tokens
            if not run.input_left:
                return None
        run.input_left -= 1
        run.emitted += 1
        index = run.emitted - 1
        if options.mode is Mode.TOKENS:
            payload, meta = options.out or Payload.TEXT, b""
            data = f"{run.input_sum:08x}.{index} ".encode()
        else:
            payload = options.out or Payload.PCM
            data = run.input_sum.to_bytes(4, "little") * (options.chunk_bytes // 4 + 1)
            data, meta = data[: options.chunk_bytes], _shape(payload, options.chunk_bytes)
        return Emission(request_id=request_id, payload=payload, buffers=(data,), index=index, meta=meta)


def _echo(request_id: int, run: _Run, out: Payload | None) -> Emission:
    chunk = run.waiting.popleft()
    data = bytes(chunk.data)
    chunk.release()
    run.emitted += 1
    return Emission(
        request_id=request_id,
        payload=out or chunk.payload,
        buffers=(data,),
        index=chunk.index,
        meta=chunk.meta,
    )


def _shape(payload: Payload, size_bytes: int) -> bytes:
    """The meta that a block of this payload needs to be read by a real stage."""
    if payload is Payload.PCM:
        return msgspec.msgpack.encode(PcmMeta(rate_hz=PCM_RATE_HZ))
    if payload is Payload.SPECTRUM:
        return msgspec.msgpack.encode(TensorMeta(names=("block",), shapes=((size_bytes // 4,),)))
    return b""


def _release(run: _Run) -> None:
    while run.waiting:
        run.waiting.popleft().release()
