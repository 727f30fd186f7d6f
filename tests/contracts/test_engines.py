"""The contract of the Engine port, on every engine: the fake and the real ones alike."""

import ctypes
import dataclasses
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from accord.run.engines import ENGINES, load
from accord.run.engines.openai_http import HttpEngine
from accord.run.ports import EngineSpec, JobDone, JobFailed
from accord.terms.errors import BrokenEdge
from accord.terms.request import ErrorCode
from tests.contracts.engine_cases import CASES, EngineCase, Lab
from tests.contracts.engine_driver import Driver, JobInput, Tracked


def _resident_bytes() -> int:
    """Of this process, with what Python and the C library can give back given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Bench:
    """One loaded engine, kept for all tests of its row: an engine must go on serving."""

    def __init__(self, case: EngineCase, lab: Lab) -> None:
        self.case = case
        self.lab = lab
        self.driver = Driver(load(case.spec(lab)), case.payloads)
        self._alone: dict[int, Tracked] = {}

    def good(self, variant: int) -> JobInput:
        return self.case.good(self.lab, variant)

    def alone(self, variant: int) -> Tracked:
        """What this variant gives when nothing else runs."""
        if variant not in self._alone:
            self._alone[variant] = self.driver.solo(self.good(variant))
        return self._alone[variant]

    def check_as_alone(self, request_id: int, variant: int) -> None:
        """The job ended well, with the output that it has alone."""
        tracked = self.driver.jobs[request_id]
        assert isinstance(tracked.ending, JobDone), tracked.ending
        assert tracked.data == self.alone(variant).data


@pytest.fixture(scope="session")
def lab(weights: Callable[[str], Path]) -> Iterator[Lab]:
    with ExitStack() as stack:
        yield Lab(weights, stack)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def bench(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Bench]:
    made = Bench(request.param, lab)
    with ExitStack() as stack:
        if isinstance(made.driver.engine, HttpEngine):
            stack.callback(made.driver.engine.close)
        yield made


def test_every_engine_of_the_table_is_under_contract() -> None:
    assert {case.engine for case in CASES} == ENGINES.keys()


def test_nothing_to_do_gives_nothing(bench: Bench) -> None:
    step = bench.driver.step()
    assert not step.outputs
    assert not step.more
    assert not step.worked


def test_a_job_emits_and_ends_once(bench: Bench) -> None:
    for variant in range(3):
        alone = bench.alone(variant)
        assert isinstance(alone.ending, JobDone), alone.ending
        assert any(item.data for item in alone.emitted)
        for _ in range(3):
            assert not bench.driver.step().outputs


def test_a_job_repeats_itself(bench: Bench) -> None:
    again = bench.driver.submit(bench.good(2))
    bench.driver.run_out(again)
    bench.check_as_alone(again, 2)


def test_jobs_side_by_side_get_what_they_get_alone(bench: Bench) -> None:
    for variant in range(3):
        bench.alone(variant)
    driver = bench.driver
    jobs = [driver.open(bench.good(variant)) for variant in range(bench.case.batch_max)]
    for _ in range(1 + max(len(driver.jobs[job].given.pieces) for job in jobs)):
        for job in jobs:
            driver.feed_one(job)
            driver.step()
    driver.run_out(*jobs)
    for variant, job in enumerate(jobs):
        bench.check_as_alone(job, variant)


def test_a_job_may_join_a_running_batch(bench: Bench) -> None:
    bench.alone(0)
    bench.alone(1)
    driver = bench.driver
    first = driver.submit(bench.good(0))
    driver.step()
    second = driver.submit(bench.good(1))
    driver.run_out(first, second)
    bench.check_as_alone(first, 0)
    bench.check_as_alone(second, 1)


def test_cancel_at_any_point_touches_no_other_job(bench: Bench) -> None:
    bench.alone(0)
    bench.alone(2)
    driver = bench.driver
    for cut in bench.case.steps_cut:
        first, doomed, last = (driver.submit(bench.good(variant)) for variant in range(3))
        for _ in range(cut):
            driver.step()
        driver.cancel(doomed)
        driver.run_out(first, last)
        bench.check_as_alone(first, 0)
        bench.check_as_alone(last, 2)


def test_cancel_while_input_is_still_coming(bench: Bench) -> None:
    driver = bench.driver
    for fed in range(len(bench.good(0).pieces) + 1):
        job = driver.open(bench.good(0))
        for _ in range(fed):
            driver.feed_one(job)
        driver.cancel(job)
        assert not driver.step().outputs
    again = driver.submit(bench.good(0))
    driver.run_out(again)
    bench.check_as_alone(again, 0)


def test_cancelled_jobs_free_their_places(bench: Bench) -> None:
    bench.alone(0)
    driver = bench.driver
    for _ in range(3):
        jobs = [driver.submit(bench.good(variant)) for variant in range(bench.case.batch_max)]
        driver.step()
        for job in jobs:
            driver.cancel(job)
    step = driver.step()
    assert not step.outputs
    assert not step.more
    again = driver.submit(bench.good(0))
    driver.run_out(again)
    bench.check_as_alone(again, 0)


def test_cancelled_jobs_leave_no_memory_behind(bench: Bench) -> None:
    """12 jobs cancelled at work; a key-value cache or a spectrum that stayed would cost a megabyte each and more."""

    def cancel_some(rounds: int) -> int:
        for _ in range(rounds):
            jobs = [bench.driver.submit(bench.good(variant)) for variant in range(bench.case.batch_max)]
            for _ in range(2):
                bench.driver.step()
            for job in jobs:
                if not bench.driver.jobs[job].over:
                    bench.driver.cancel(job)
                bench.driver.forget(job)
        return _resident_bytes()

    warm_bytes = cancel_some(2)
    assert cancel_some(4) - warm_bytes < 6 << 20


def test_cancelling_the_unknown_and_the_ended_does_nothing(bench: Bench) -> None:
    driver = bench.driver
    ended = driver.submit(bench.good(1))
    driver.run_out(ended)
    driver.engine.cancel(ended)
    driver.engine.cancel(1 << 40)
    driver.jobs[ended].check_released()
    assert not driver.step().outputs


def test_a_feed_that_crosses_a_cancel_is_harmless(bench: Bench) -> None:
    driver = bench.driver
    job = driver.open(bench.good(0))
    driver.feed_one(job)
    driver.cancel(job)
    driver.jobs[job].cancelled = False
    driver.feed_one(job)
    driver.step()
    if not driver.jobs[job].over:  # the late piece may have been taken for a job of its own
        driver.cancel(job)
    again = driver.submit(bench.good(0))
    driver.run_out(again)
    bench.check_as_alone(again, 0)


def test_a_blocked_job_waits_and_others_go_on(bench: Bench) -> None:
    bench.alone(0)
    bench.alone(1)
    driver = bench.driver
    held, free = driver.submit(bench.good(0)), driver.submit(bench.good(1))
    driver.run_out(free, blocked={held})
    assert not driver.jobs[held].over
    assert not driver.jobs[held].emitted
    driver.run_out(held)
    bench.check_as_alone(held, 0)
    bench.check_as_alone(free, 1)


def test_a_job_blocked_now_and_then_loses_nothing(bench: Bench) -> None:
    bench.alone(1)
    driver = bench.driver
    job = driver.submit(bench.good(1))
    for turn in range(20):
        driver.step({job} if turn % 2 else frozenset())
    driver.run_out(job)
    bench.check_as_alone(job, 1)


def test_only_blocked_jobs_is_nothing_to_do(bench: Bench) -> None:
    driver = bench.driver
    job = driver.submit(bench.good(0))
    for _ in range(3):
        step = driver.step({job})
        assert not step.more
    driver.cancel(job)


def test_an_open_input_does_not_spin(bench: Bench) -> None:
    driver = bench.driver
    job = driver.open(bench.good(0))
    driver.feed_one(job)
    for _ in range(10_000):
        if not driver.step().more:
            break
    else:
        pytest.fail("the engine always wants another step, though its input hasn't come")
    driver.feed_all(job)
    driver.run_out(job)
    bench.check_as_alone(job, 0)


def test_bad_input_fails_its_job_alone(bench: Bench) -> None:
    bench.alone(0)
    driver = bench.driver
    good = driver.submit(bench.good(0))
    bad = driver.open(bench.case.bad(bench.lab))
    driver.feed_all(bad)
    driver.run_out(good, bad)
    ending = driver.jobs[bad].ending
    assert isinstance(ending, JobFailed)
    assert ending.code is ErrorCode.BAD_INPUT
    bench.check_as_alone(good, 0)
    after = driver.submit(bench.good(0))
    driver.run_out(after)
    bench.check_as_alone(after, 0)


def test_no_input_at_all_ends_the_job(bench: Bench) -> None:
    driver = bench.driver
    job = driver.submit(JobInput(pieces=()))
    driver.run_out(job)
    assert driver.jobs[job].ending is not None


def _broken_copy(case: EngineCase, lab: Lab, folder: Path, *, keep: int | None) -> EngineSpec:
    """The case's spec on copies of its weights that hold `keep` bytes of each file; None: no files at all."""
    whole = case.spec(lab)
    for name, source in whole.assets:
        for path in Path(source).rglob("*"):
            if not path.is_file() or keep is None:
                continue
            target = folder / name / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as file:
                target.write_bytes(file.read(keep))
    return dataclasses.replace(whole, assets=tuple((name, str(folder / name)) for name, _ in whole.assets))


WEIGHTED = [case for case in CASES if case.assets]


@pytest.mark.parametrize("case", WEIGHTED, ids=lambda case: case.name)
@pytest.mark.parametrize("keep", [None, 0, 1000], ids=["missing", "empty", "cut"])
def test_broken_weights_are_named(case: EngineCase, keep: int | None, lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(BrokenEdge) as caught:
        load(_broken_copy(case, lab, tmp_path, keep=keep))
    assert str(tmp_path) in str(caught.value)
