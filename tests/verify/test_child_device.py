"""A device in a process of its own: it answers as in this one; its death is an outcome, and it comes back.

The device that dies is NumPy's, killed or stopped from outside while it computes, as a driver would.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from accord.terms.errors import BadInput, BrokenEdge
from accord.verify.devices import open_here
from accord.verify.devices.child import ChildDevice
from accord.verify.ports import Answer, Call, Death, Died, State, Unsupported
from accord.verify.tensor import Dtype, Tensor, plain

SMALL = np.arange(6.0).reshape(2, 3)


def _product(values: np.ndarray = SMALL) -> Call:
    return Call(operator="mm", operands=(plain(values, Dtype.F32), plain(values.T.copy(), Dtype.F32)))


@pytest.fixture
def child() -> Iterator[ChildDevice]:
    device = ChildDevice("numpy", call_s=20.0)
    yield device
    device.close()


def _pid(device: ChildDevice) -> int:
    device.describe()
    return device._process.pid


def test_it_answers_and_describes_itself_as_here(child: ChildDevice) -> None:
    here = open_here("numpy")
    assert child.describe() == here.describe()
    ours, theirs = here.run(_product()), child.run(_product())
    assert isinstance(ours, Answer)
    assert isinstance(theirs, Answer)
    assert theirs.runs[0][0].floats().tolist() == (SMALL @ SMALL.T).tolist() == ours.runs[0][0].floats().tolist()


def test_strides_offsets_and_repeats_cross(child: ChildDevice) -> None:
    store = np.arange(40, dtype=np.float32)
    view = Tensor(dtype=Dtype.F32, shape=(3, 4), strides=(1, 5), store=store, offset=2)
    outcome = child.run(Call(operator="sum", operands=(view,), repeat=3))
    wanted = np.lib.stride_tricks.as_strided(store[2:], (3, 4), (4, 20)).sum(axis=1)
    assert isinstance(outcome, Answer)
    assert [run[0].floats().tolist() for run in outcome.runs] == [wanted.tolist()] * 3


@pytest.mark.parametrize("blow", [signal.SIGSEGV, signal.SIGKILL])
def test_a_crash_is_an_outcome_and_the_next_call_is_answered(child: ChildDevice, blow: signal.Signals) -> None:
    pid = _pid(child)
    os.kill(pid, blow)
    outcome = child.run(_product())
    assert isinstance(outcome, Died)
    assert outcome.death is Death.CRASH
    assert blow.name in outcome.detail
    assert isinstance(child.run(_product()), Answer)
    assert _pid(child) != pid


def test_a_hang_ends_at_the_deadline_and_leaves_no_process() -> None:
    device = ChildDevice("numpy", call_s=0.5)
    pid = _pid(device)
    os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()
    outcome = device.run(_product())
    assert isinstance(outcome, Died)
    assert outcome.death is Death.HANG
    assert time.monotonic() - started < 10
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    device.close()


def test_a_crash_in_the_middle_of_a_large_call(child: ChildDevice) -> None:
    large = np.ones((1200, 1200))
    pid = _pid(child)
    threading.Timer(0.05, os.kill, (pid, signal.SIGKILL)).start()
    outcomes = [child.run(_product(large)) for _ in range(4)]  # each takes longer than that
    assert [isinstance(outcome, Died) for outcome in outcomes] == [True, False, False, False]


def test_cold_means_a_process_that_remembers_nothing(child: ChildDevice) -> None:
    pid = _pid(child)
    assert isinstance(child.run(Call(operator="mm", operands=_product().operands, state=State.COLD)), Answer)
    assert _pid(child) != pid


def test_what_it_lacks_is_unsupported(child: ChildDevice) -> None:
    assert isinstance(child.run(Call(operator="levitate", operands=())), Unsupported)
    assert isinstance(child.run(Call(operator="mm", operands=(plain(SMALL, Dtype.BF16),) * 2)), Unsupported)


def test_names_and_pythons_that_are_wrong_say_so() -> None:
    with pytest.raises(BadInput, match="toaster"):
        open_here("toaster")
    with pytest.raises(BadInput, match="nosuch"):
        open_here("torch:cpu+nosuch")
    with pytest.raises(BrokenEdge, match="no-python"):
        ChildDevice("numpy", python="/no-python").describe()
    with pytest.raises(BrokenEdge, match="no such device"):
        ChildDevice("nosuchlib", python=sys.executable).describe()
