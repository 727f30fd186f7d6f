"""How a target and an engine's file talk: where one process of a pool will run, and how it is started there.

In: nothing. Out: `Where`, `Launch`. Invariant: a launch is a list of words, never a line for a shell; who needs one
uses `shlex.join`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from accord.render.rendered import Lost
from accord.terms.fleet import Vendor
from accord.terms.fleet_plan import FleetPlan, Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port that a process listens on. `name` has at most 15 letters, as Kubernetes wants."""

    name: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file that the process reads: its path in the container, and its text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where one process of a replica runs: on its first node (the leader) or on a further one.

    `node_rank`, `leader_address` and `own_address` are final texts, or ones that the target's launcher replaces, such
    as `$(LWS_WORKER_INDEX)`; an engine puts them into words as they are. `peers` are (pool, host) pairs: how other
    pools are reached. `devices` names the devices of the process where nothing else does ("0,1"), `nic` the RDMA port
    that it is to use. `slot` numbers the processes of one host that share its ports. `memory_share` is the part of a
    device's memory that the process may take, where a device shows it the whole.
    """

    leader: bool = True
    node_rank: str = "0"
    leader_address: str = "127.0.0.1"
    own_address: str = "127.0.0.1"
    peers: tuple[tuple[str, str], ...] = ()
    devices: str | None = None
    nic: str | None = None
    slot: int = 0
    memory_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One process: its words, environment, ports and files. `health` is the HTTP path that says that it is ready (on
    the first port); None for a process without one. `start_s` is about how long it may take to get there. `lost` is
    what the pool asks of the engine and the engine has no parameter for.
    """

    words: tuple[str, ...]
    image: str
    environment: tuple[tuple[str, str], ...] = ()
    ports: tuple[Port, ...] = ()
    health: str | None = None
    start_s: int = 1800
    mounts: tuple[Mount, ...] = ()
    lost: tuple[Lost, ...] = ()


# (plan, pool, vendor of its devices where known, where) -> one process of the pool.
Engine = Callable[[FleetPlan, Pool, Vendor | None, Where], Launch]
