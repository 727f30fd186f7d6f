"""Joins a replica that has become ready with its neighbours in the graph.

In: the replica, its ready peers, the door's arena. Out: Attach messages, with sockets and arenas.
Invariant: two nodes that share an edge of the graph share exactly one link.
"""

import os
import socket
from collections.abc import Callable, Iterable

from accord.run.control import Attach, Down
from accord.run.process import Child
from accord.run.routing import DOOR_NODE
from accord.terms.graph import DOOR, StageGraph

Say = Callable[[Child, Down, list[int]], None]
AttachDoor = Callable[[Child, socket.socket], None]


def neighbours(graph: StageGraph, stage: str) -> frozenset[str]:
    """The stages (and the door) that share an edge with this one."""
    sources = {edge.source for edge in graph.edges if edge.target == stage}
    return frozenset(sources | {edge.target for edge in graph.edges if edge.source == stage})


def link_peers(child: Child, peers: Iterable[Child], say: Say) -> None:
    """Gives the child and each of its peers one end of a new link."""
    for peer in peers:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        say(child, Attach(peer=peer.node_id, arena_bytes=peer.arena_bytes), [mine.detach(), os.dup(peer.arena_fd)])
        say(peer, Attach(peer=child.node_id, arena_bytes=child.arena_bytes), [its.detach(), os.dup(child.arena_fd)])


def link_door(child: Child, say: Say, *, door_arena: tuple[int, int]) -> socket.socket:
    """Gives the child its end of a link to the door; returns the door's end."""
    arena_fd, arena_bytes = door_arena
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    say(child, Attach(peer=DOOR_NODE, arena_bytes=arena_bytes), [theirs.detach(), os.dup(arena_fd)])
    return ours


def touches_door(graph: StageGraph, stage: str) -> bool:
    """Whether the stage shares an edge with the door."""
    return DOOR in neighbours(graph, stage)
