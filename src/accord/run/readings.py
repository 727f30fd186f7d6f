"""What a running service says of itself, read from its parts.

In: the supervisor's children, requests that have settled. Out: `ReplicaStatus`, `RequestTrace`.
"""

from collections.abc import Mapping

from accord.run.process import Child
from accord.run.ticket import Launch, LiveTicket
from accord.run.timeline import RequestTrace
from accord.terms.request import StageSpan
from accord.terms.status import ReplicaStatus


def replica_status(child: Child) -> ReplicaStatus:
    """One replica now, from its page and from /proc."""
    reading = child.page.read()
    return ReplicaStatus(
        stage=child.stage,
        replica=child.ordinal,
        pid=child.popen.pid,
        health=child.health,
        activity=reading.activity,
        time_s=tuple(value / 1e9 for value in reading.time_ns),
        active=reading.active,
        served=reading.served,
        restarts=child.restarts,
        memory_bytes=child.memory_bytes(),
        arena_used_bytes=reading.arena_used_bytes,
        arena_bytes=child.arena_bytes,
    )


def request_trace(launch: Launch, ticket: LiveTicket, places: Mapping[int, tuple[str, int]]) -> RequestTrace:
    """What each stage did for one launch; `places` maps nodes to (stage, ordinal)."""
    spans = tuple(
        StageSpan(
            stage=places[node][0],
            replica=places[node][1],
            opened_ns=row.opened_ns,
            first_input_ns=row.first_input_ns,
            first_output_ns=row.first_output_ns,
            ended_ns=row.ended_ns,
            busy_ns=row.worked_ns,
        )
        for node, row in launch.rows
        if row.opened_ns  # a stage that was told to forget a request before it came has done nothing for it
    )
    return RequestTrace(
        rid=launch.rid,
        arrived_ns=ticket.arrived_ns,
        launched_ns=launch.started_ns,
        first_text_ns=ticket.first_text_ns,
        first_audio_ns=ticket.first_audio_ns,
        ended_ns=launch.ended_ns,
        edges=ticket.edges,
        complete=launch.usage is not None,
        spans=spans,
    )
