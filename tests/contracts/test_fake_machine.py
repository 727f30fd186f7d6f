"""The driver as a hypothesis state machine, on the fake engine in each of its modes.

In: any order of opening, feeding, stepping with some jobs blocked, and cancelling. Out: no broken promise.
Invariant: each job that ends by itself has emitted what its input says, worked out here without the engine.
"""

import zlib

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from accord.run.engines import load
from accord.run.ports import EngineSpec, JobDone, JobFailed
from accord.terms.graph import Payload
from accord.terms.request import ErrorCode
from tests.contracts.engine_driver import Driver, JobInput, Piece, Tracked

EMISSIONS = 3
BLOCK_BYTES = 10


class EngineMachine(RuleBasedStateMachine):
    """Everything a replica may do to an engine."""

    mode = "echo"

    @initialize(batch_max=st.integers(1, 3))
    def start(self, batch_max: int) -> None:
        options = {
            "mode": self.mode,
            "tokens": str(EMISSIONS),
            "chunk_bytes": str(BLOCK_BYTES),
            "out": "text",
            "commands": "true",
        }
        spec = EngineSpec(
            engine="fake",
            stage="s",
            threads=1,
            batch_max=batch_max,
            memory_bytes=0,
            options=tuple(options.items()),
            deterministic=True,
        )
        self.driver = Driver(load(spec), {Payload.TEXT})

    def open_jobs(self) -> list[int]:
        return [key for key, job in self.driver.jobs.items() if not job.over]

    @rule(texts=st.lists(st.sampled_from([b"", b"a", b"bcd" * 50, b"!fail", b"!bad_input"]), max_size=4))
    def open(self, texts: list[bytes]) -> None:
        pieces = tuple(Piece(payload=Payload.TEXT, data=text, index=index) for index, text in enumerate(texts))
        self.driver.feed_one(self.driver.open(JobInput(pieces=pieces)))

    @precondition(lambda self: bool(self.open_jobs()))
    @rule(data=st.data())
    def feed(self, data: st.DataObject) -> None:
        self.driver.feed_one(data.draw(st.sampled_from(self.open_jobs())))

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        jobs = self.open_jobs()
        blocked = data.draw(st.sets(st.sampled_from(jobs))) if jobs else set()
        step = self.driver.step(blocked)
        if set(jobs) <= blocked:
            assert not step.outputs
            assert not step.more

    @precondition(lambda self: bool(self.open_jobs()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.driver.cancel(data.draw(st.sampled_from(self.open_jobs())))

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        for key in self.open_jobs():
            self.driver.feed_all(key)
        self.driver.run_out(*self.driver.jobs)
        assert not self.driver.step().outputs
        for tracked in self.driver.jobs.values():
            tracked.check_released()
            if not tracked.cancelled:
                self.check_output(tracked)

    def check_output(self, tracked: Tracked) -> None:
        read: list[bytes] = []
        fault = None
        for piece in tracked.given.pieces:
            if piece.data.startswith(b"!"):
                fault = piece.data
                break
            read.append(piece.data)
        assert [item.data for item in tracked.emitted] == self.wanted(read)
        if fault is None:
            assert isinstance(tracked.ending, JobDone)
            return
        assert isinstance(tracked.ending, JobFailed)
        assert tracked.ending.code is (ErrorCode.ENGINE if fault == b"!fail" else ErrorCode.BAD_INPUT)

    def wanted(self, read: list[bytes]) -> list[bytes]:
        if self.mode in {"echo", "noop"}:
            return read
        wanted: list[bytes] = []
        seen = b""
        for data in read:
            seen += data
            for _ in range(EMISSIONS):
                if self.mode == "tokens":
                    wanted.append(f"{zlib.crc32(seen):08x}.{len(wanted)} ".encode())
                else:
                    word = zlib.crc32(seen).to_bytes(4, "little")
                    wanted.append((word * BLOCK_BYTES)[:BLOCK_BYTES])
        return wanted


@pytest.mark.parametrize("mode", ["noop", "echo", "tokens", "chunks"])
def test_any_order_of_calls(mode: str) -> None:
    run_state_machine_as_test(type("Machine", (EngineMachine,), {"mode": mode}))
