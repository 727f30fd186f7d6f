"""One replica's process, as the supervisor holds it.

In: an `EngineSpec`. Out: a started child with its control socket, its arena and its status page.
Invariant: the child ends with its parent (parent-death signal, and the end of file of its control
socket), and whatever it printed last is at hand when it dies.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field
from mmap import PAGESIZE

from accord.run import arena
from accord.run.attribution import Page
from accord.run.control import Broken, Down, Start, Up, supervisor_wire
from accord.run.engines import ENVIRON
from accord.run.ports import EngineSpec
from accord.run.wire import Wire
from accord.terms.errors import BrokenEdge
from accord.terms.graph import Edge
from accord.terms.status import Health

_LAST_LINES = 20


@dataclass(slots=True)
class Child:
    """A replica's process. `ordinal` is its place among the replicas of its stage; it survives restarts."""

    node_id: int
    ordinal: int
    spec: EngineSpec
    popen: subprocess.Popen[bytes]
    control: Wire[Down, Up]
    arena_fd: int
    arena_bytes: int
    page: Page
    pid_fd: int
    stderr_fd: int
    born_s: float
    health: Health = Health.STARTING
    load_s: float = 0.0
    broken: Broken | None = None
    restarts: int = 0
    last_words: str = ""
    deaf_ns: tuple[int, int] = (0, 0)  # what its page said when it was first seen not to listen, and when that was
    last_lines: deque[bytes] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))

    @property
    def stage(self) -> str:
        """The stage that it serves."""
        return self.spec.stage

    def memory_bytes(self) -> int:
        """Resident memory without what it shares (arenas, libraries); 0 once the process is gone."""
        try:
            with open(f"/proc/{self.popen.pid}/statm", encoding="ascii") as statm:
                _, resident, shared, *_ = statm.read().split()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return (int(resident) - int(shared)) * PAGESIZE

    def read_stderr(self) -> bool:
        """Keeps the last lines that the child printed; False at the end of file."""
        try:
            data = os.read(self.stderr_fd, 1 << 16)
        except BlockingIOError:
            return True
        self.last_lines.extend(data.splitlines())
        return bool(data)

    def words(self) -> str:
        """What the child said before it died, for an error message that begins with its stage."""
        where = f"stages.{self.stage}"
        if self.broken is not None:
            text = self.broken.text
            return text if text.startswith(where) else f"{where}: {text}"
        while self.read_stderr():
            if not self._more_stderr():
                break
        printed = b"\n".join(self.last_lines).decode(errors="replace").strip()
        code = self.popen.poll()
        ended = f"signal {-code}" if code is not None and code < 0 else f"status {code}"
        return f"{where}: its process ended with {ended}" + (f":\n{printed}" if printed else "")

    def close(self) -> None:
        """Lets go of everything but the process."""
        self.control.close()
        for fd in (self.arena_fd, self.pid_fd, self.stderr_fd):
            os.close(fd)

    def _more_stderr(self) -> bool:
        return bool(select.select([self.stderr_fd], [], [], 0)[0])


def spawn(
    spec: EngineSpec, *, node_id: int, ordinal: int, edges: tuple[Edge, ...], arena_bytes: int, now_s: float
) -> Child:
    """Starts a replica. Raises BrokenEdge when there is no memory, descriptor or process left; then nothing is kept."""
    start = Start(node_id=node_id, spec=spec, edges=edges, arena_bytes=arena_bytes)
    try:
        with contextlib.ExitStack() as done, contextlib.ExitStack() as undo:
            child = _spawn(start, done, undo, ordinal=ordinal, now_s=now_s)
            undo.pop_all()
    except OSError as error:
        raise BrokenEdge(
            f"stages.{spec.stage}: no process could be started: {error.strerror}; "
            "raise the limits of processes and open files, or plan fewer replicas"
        ) from error
    return child


def _spawn(
    start: Start, done: contextlib.ExitStack, undo: contextlib.ExitStack, *, ordinal: int, now_s: float
) -> Child:
    """What only the start needs goes to `done`, all else to `undo`, for the case that the start fails."""
    spec = start.spec
    arena_fd = arena.create(spec.stage, start.arena_bytes)
    undo.callback(os.close, arena_fd)
    page_fd = arena.create(f"{spec.stage}-page", PAGESIZE)
    done.callback(os.close, page_fd)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    undo.callback(ours.close)
    done.callback(theirs.close)
    stderr_read, stderr_write = os.pipe()
    undo.callback(os.close, stderr_read)
    os.set_blocking(stderr_read, False)
    done.callback(os.close, stderr_write)
    popen = _popen(spec, theirs, stderr_write)
    undo.callback(popen.wait)
    undo.callback(popen.kill)
    control = supervisor_wire(ours)
    control.send([start], [os.dup(arena_fd), os.dup(page_fd)])
    return Child(
        node_id=start.node_id,
        ordinal=ordinal,
        spec=spec,
        popen=popen,
        control=control,
        arena_fd=arena_fd,
        arena_bytes=start.arena_bytes,
        page=Page(page_fd),
        pid_fd=os.pidfd_open(popen.pid),
        stderr_fd=stderr_read,
        born_s=now_s,
    )


def _popen(spec: EngineSpec, theirs: socket.socket, printed_fd: int) -> subprocess.Popen[bytes]:
    """The process itself.

    `-P`: a file of the user's folder must not stand in for a module. A group of its own: Ctrl-C in a terminal
    is for the parent, which ends its replicas in order. The parent's number: in a container it may well be 1.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "accord.run.replica", str(theirs.fileno()), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=printed_fd,
        stderr=printed_fd,
        pass_fds=[theirs.fileno()],
        process_group=0,
        env={**os.environ, **ENVIRON, "OMP_NUM_THREADS": str(spec.threads), "PYTHONUNBUFFERED": "1"},
    )
