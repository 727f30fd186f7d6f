"""ONNX Runtime sessions as a stage needs them: a given number of threads, and none of them spinning.

In: a model's path or bytes. Out: a session on the CPU. Invariant: a session has no thread that is busy while
nobody runs it.
"""

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt


class Session(Protocol):
    """What engines use of `onnxruntime.InferenceSession`."""

    def run(
        self, names: Sequence[str] | None, inputs: Mapping[str, npt.NDArray[np.generic]]
    ) -> Sequence[npt.NDArray[np.float32]]:
        """Inputs by name -> outputs in the order of `names`, or all of them."""
        ...


def open_session(model: Path | bytes, *, threads: int, arena: bool = True) -> Session:
    """A session with `threads` threads that sleep while there is no work, so that stages share cores.

    `arena` keeps the memory of a run for the next one; without it, inputs of all sizes don't make it grow.
    FileNotFoundError for a path without a file; ONNX Runtime's own errors for what is no model.
    """
    import onnxruntime

    if isinstance(model, Path) and not model.is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", str(model))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = arena
    options.enable_mem_pattern = arena
    options.log_severity_level = 3  # warnings about shape hints of converted models tell a user nothing
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    source = str(model) if isinstance(model, Path) else model
    session: Session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return session
