"""One node of the live graph, without I/O: the door, or a replica.

In: frames from peers, calls of the owner, the clock. Out: frames for peers (`take_frames`) and calls of
the owner. Invariant: a job's end is told to the owner once; `closed` follows when no stream of it is
open, so that no byte of it is on loan any more. One failing stream fails the job's other streams.
"""

from collections.abc import Callable

from accord.run import frames
from accord.run.deadlines import Deadlines
from accord.run.frames import EDGES_MAX, Cancel, CancelAck, Credit, Data, End, Error, Frame, Open, Route
from accord.run.graveyard import GRAVES_MAX, Graveyard
from accord.run.jobs import Layout, NodeJob, Owner, Reader, layout_of
from accord.run.protocol import RecvEvent, RecvState, SendEvent, SendState
from accord.run.receiver import Receiver
from accord.run.sender import Buffers, Memory, Sender, too_large
from accord.terms.graph import Edge, Payload
from accord.terms.request import ErrorCode

LAYOUTS_MAX = 1024
_SEQUENCED = (Data, End, Error)
_LATE = "deadline: the request took longer than its limit; allow more time"

# Looking a member up in its enum costs more than acting on it: the hot path has them by name.
_R_ON_GOT_OPEN = RecvEvent.GOT_OPEN
_R_CLOSED = RecvState.CLOSED
_S_CLOSED = SendState.CLOSED


class Node:
    """Jobs and streams of one node. All methods are called from one thread.

    A node that doesn't `accept` (the door) begins its requests itself; others are strays, turned away.
    """

    def __init__(
        self,
        *,
        node_id: int,
        edges: tuple[Edge, ...],
        memory: Memory,
        owner: Owner,
        clock: Callable[[], int],
        accepts: bool = True,
    ) -> None:
        self.node_id = node_id
        self.edges = edges
        self.memory = memory
        self.jobs: dict[int, NodeJob] = {}
        self.blocked: set[int] = set()
        self._accepts = accepts
        self._owner = owner
        self._clock = clock
        self._readers: dict[int, Reader] = {}
        self._layouts: dict[bytes, Layout] = {}
        self._out: dict[int, list[Frame]] = {}
        self._owing: list[Receiver] = []
        self._waiting_for_room: dict[Sender, None] = {}
        self._deadlines = Deadlines()
        self._graveyard = Graveyard()
        self._early: dict[int, list[tuple[int, Data | End | Error]]] = {}

    def connect(self, peer: int, reader: Reader) -> None:
        """A link to the peer is up."""
        self._readers[peer] = reader
        self._out.setdefault(peer, [])

    def knows(self, peer: int) -> bool:
        """Whether a link to the peer is up."""
        return peer in self._readers

    def disconnect(self, peer: int) -> None:
        """The peer's process is gone. What it had sent stays readable until it is released."""
        self._readers.pop(peer, None)
        self._out.pop(peer, None)
        for job in list(self.jobs.values()):
            job.lose(peer)
            self._close_if_done(job)

    def receive(self, peer: int, packet: list[Frame]) -> None:
        """Acts on the frames of one packet."""
        for frame in packet:
            if isinstance(frame, Open):
                self._got_open(peer, frame)
            elif isinstance(frame, _SEQUENCED):
                self._got_sequenced(peer, frame)
            else:
                self._got_control(peer, frame)

    def take_frames(self) -> list[tuple[int, list[Frame]]]:
        """What is to be sent now, a list a peer, with the credit that is owed."""
        owing, self._owing = self._owing, []
        for receiver in owing:
            receiver.flush()
            if receiver.state is _R_CLOSED and (job := self.jobs.get(receiver.key // EDGES_MAX)):
                self._close_if_done(job)
        return self.take_urgent()

    def take_urgent(self) -> list[tuple[int, list[Frame]]]:
        """What others wait for: all frames made so far. Credit and the closing of streams can follow."""
        taken = [(peer, queue) for peer, queue in self._out.items() if queue]
        for peer, _ in taken:
            self._out[peer] = []
        return taken

    def begin(self, rid: int, route: Route, params: bytes, deadline_ns: int) -> NodeJob:
        """Starts a request at this node (the door): opens its outgoing streams."""
        return self._new_job(rid, frames.encode_route(route), params, deadline_ns)

    def view(self, peer: int, frame: Data) -> memoryview:
        """The bytes of a chunk that this peer sent."""
        if frame.offset == frames.INLINE:
            return memoryview(frame.inline)
        return self._readers[peer].view(frame.offset, frame.size)

    def send(self, rid: int, payload: Payload, buffers: Buffers, *, index: int = 0, meta: bytes = b"") -> None:
        """Sends a chunk on every outgoing stream of the job that carries this payload."""
        job = self.jobs.get(rid)
        if job is None or job.over:
            return
        if not job.first_output_ns:
            job.first_output_ns = self._clock()
        for sender in job.outputs.values():
            if self.edges[sender.edge].payload is payload and not sender.send(buffers, index, meta):
                self._drop(job, ErrorCode.ENGINE, too_large(buffers, meta))
                return

    def send_on(self, rid: int, edge: int, data: bytes, index: int) -> None:
        """Sends a chunk on one edge (the door's inputs)."""
        job = self.jobs.get(rid)
        if job is not None and not job.over and not job.outputs[edge].send((data,), index, b""):
            self._drop(job, ErrorCode.BAD_INPUT, too_large((data,), b""))

    def end_outputs(self, rid: int, usage: bytes = b"") -> None:
        """Ends every outgoing stream, after what waits in it; the inputs go on (the door)."""
        job = self.jobs.get(rid)
        if job is not None and not job.over:
            for sender in list(job.outputs.values()):
                sender.end(usage)
            self._close_if_done(job)

    def finish(self, rid: int, usage: bytes) -> None:
        """The owner is done with the job (a replica): ends its outputs; input that still comes is not read."""
        job = self.jobs.get(rid)
        if job is None or job.over:
            return
        job.over = True
        for sender in list(job.outputs.values()):
            sender.end(usage)
        self._close_if_done(job)

    def fail(self, rid: int, code: ErrorCode, text: str) -> None:
        """The owner gives the job up: downstream gets the error, upstream is cancelled."""
        job = self.jobs.get(rid)
        if job is not None and not job.over:
            job.over = True
            self._fail_streams(job, code, text)

    def cancel(self, rid: int) -> None:
        """The owner wants no more of the job, on any stream."""
        job = self.jobs.get(rid)
        if job is not None and not job.over:
            job.over = True
            self._cancel_streams(job)

    def forget(self, rid: int) -> None:
        """The request is over: drops the job, or turns it away when it comes.

        This may come before the peers' own cancels; the owner must stop working all the same.
        """
        job = self.jobs.get(rid)
        if job is None:
            self._turn_away(rid)
        elif not job.over:
            job.over = True
            self._owner.dropped(job, ErrorCode.CANCELLED, "cancelled")
            self._cancel_streams(job)

    def expire(self) -> None:
        """Ends the jobs whose deadline has passed."""
        for rid in self._deadlines.passed(self._clock()):
            job = self.jobs.get(rid)
            if job is None:
                continue
            if not job.over:
                job.over = True
                self._owner.dropped(job, ErrorCode.DEADLINE, _LATE)
            self._fail_streams(job, ErrorCode.DEADLINE, _LATE)

    def next_deadline_ns(self) -> int | None:
        """When `expire` is to be called next; None when nothing is due."""
        if len(self._deadlines) > 2 * len(self.jobs) + 1024:
            self._deadlines.rebuild((job.deadline_ns, rid) for rid, job in self.jobs.items())
        return self._deadlines.first_ns()

    def room_freed(self) -> None:
        """Lets the senders that waited for arena space try again; called once a loop."""
        for sender in list(self._waiting_for_room):
            sender.pump()
            if not sender.waiting:
                self._waiting_for_room.pop(sender, None)

    def emit(self, peer: int, frame: Frame) -> None:
        """Queues a frame; one for a peer that is gone has nobody to act on it."""
        queue = self._out.get(peer)
        if queue is not None:
            queue.append(frame)

    def deliver(self, receiver: Receiver, frame: Data, release: Callable[[], None]) -> None:
        """A chunk is in turn."""
        job = self.jobs[receiver.key // EDGES_MAX]
        if not job.first_input_ns:
            job.first_input_ns = self._clock()
        if job.over:
            release()
            return
        self._owner.chunk(job, frame, receiver.edge, release)

    def receiver_ended(self, receiver: Receiver, frame: End | Error) -> None:
        """A terminal is in turn."""
        job = self.jobs[receiver.key // EDGES_MAX]
        job.expected -= 1
        if job.over:
            return
        if type(frame) is Error:
            self._drop(job, ErrorCode(frame.code), frame.text)
        elif type(frame) is End:
            self._owner.input_ended(job, receiver.edge, frame.usage)

    def receiver_owes(self, receiver: Receiver) -> None:
        """Remembered until the next flush, so that one credit covers many chunks."""
        self._owing.append(receiver)

    def receiver_told(self, receiver: Receiver, lost: bool) -> None:
        """The upstream peer has cancelled or is gone."""
        self._told(receiver.key, lost)

    def sender_told(self, sender: Sender, lost: bool) -> None:
        """The downstream peer has cancelled or is gone."""
        self._told(sender.key, lost)

    def sender_moved(self, sender: Sender) -> None:
        """Keeps `blocked` true: a job is blocked while a chunk of it waits."""
        rid = sender.key // EDGES_MAX
        if sender.waiting:
            self.blocked.add(rid)
            self._waiting_for_room[sender] = None
        else:
            self._waiting_for_room.pop(sender, None)
            job = self.jobs.get(rid)
            if job is None or not any(s.waiting for s in job.outputs.values()):
                self.blocked.discard(rid)

    def _got_open(self, peer: int, frame: Open) -> None:
        rid, edge = divmod(frame.key, EDGES_MAX)
        job = self.jobs.get(rid)
        if job is None:
            if rid in self._graveyard or not self._accepts:
                self.emit(peer, frames.cancel(frame.key, self._graveyard.why(rid)))
                return
            job = self._new_job(rid, frame.route, frame.params, frame.deadline_ns)
        receiver = job.inputs.get(edge)
        if receiver is None:
            return
        receiver.apply(_R_ON_GOT_OPEN)
        receiver.take_early()

    def _got_sequenced(self, peer: int, frame: Data | End | Error) -> None:
        rid, edge = divmod(frame.key, EDGES_MAX)
        job = self.jobs.get(rid)
        if job is not None:
            receiver = job.inputs.get(edge)
            if receiver is not None:
                receiver.take(frame)
                if receiver.state is _R_CLOSED:
                    self._close_if_done(job)
        elif rid not in self._graveyard and len(self._early) < GRAVES_MAX:
            self._early.setdefault(rid, []).append((peer, frame))

    def _got_control(self, peer: int, frame: Cancel | CancelAck | Credit) -> None:
        rid, edge = divmod(frame.key, EDGES_MAX)
        job = self.jobs.get(rid)
        if job is None:
            if isinstance(frame, Cancel):
                self._turn_away(rid, Error(0, 0, frame.code, frame.text) if frame.code else None)
                self.emit(peer, CancelAck(frame.key))
            return
        if type(frame) is Cancel and frame.code:
            job.why = job.why or Error(0, 0, frame.code, frame.text)
        sender = job.outputs.get(edge)
        if sender is not None:
            if type(frame) is Credit:
                sender.credit(frame)
            else:
                sender.apply(SendEvent.GOT_CANCEL if type(frame) is Cancel else SendEvent.GOT_ACK)
        elif (receiver := job.inputs.get(edge)) is not None:
            receiver.apply(RecvEvent.GOT_CANCEL if type(frame) is Cancel else RecvEvent.GOT_ACK)
        self._close_if_done(job)

    def _new_job(self, rid: int, route_bytes: bytes, params: bytes, deadline_ns: int) -> NodeJob:
        inputs, outputs = self._layouts.get(route_bytes) or self._layout(route_bytes)
        job = NodeJob(rid, params, deadline_ns)
        job.opened_ns = self._clock()
        base = rid * EDGES_MAX
        for edge, peer, window in inputs:
            job.inputs[edge] = Receiver(self, key=base + edge, edge=edge, peer=peer, window=window)
        for edge, peer, window in outputs:
            job.outputs[edge] = Sender(self, key=base + edge, edge=edge, peer=peer, window=window)
        job.expected = len(job.inputs)
        self.jobs[rid] = job
        self._deadlines.add(deadline_ns, rid)
        for sender in job.outputs.values():
            sender.open(Open(sender.key, route_bytes, deadline_ns, params))
        self._owner.opened(job)
        if self._early:
            for _, early in self._early.pop(rid, ()):
                receiver = job.inputs.get(early.key % EDGES_MAX)
                if receiver is not None:
                    receiver.take(early)
        for _, peer, _ in (*inputs, *outputs):
            if peer not in self._readers:
                job.lose(peer)
                self._close_if_done(job)
        return job

    def _layout(self, route_bytes: bytes) -> Layout:
        layout = layout_of(route_bytes, self.node_id, self.edges)
        for _, peer, _ in (*layout[0], *layout[1]):
            if peer not in self._readers:
                self._owner.reach(peer)
        if len(self._layouts) >= LAYOUTS_MAX:
            self._layouts.clear()
        self._layouts[route_bytes] = layout
        return layout

    def _told(self, key: int, lost: bool) -> None:
        job = self.jobs[key // EDGES_MAX]
        if lost:
            if not job.over:
                self._drop(job, ErrorCode.REPLICA_LOST, "a replica that worked on this request is gone; send it again")
            return
        if not job.over:
            job.over = True
            why = job.why or Error(0, 0, ErrorCode.CANCELLED.value, "cancelled")
            self._owner.dropped(job, ErrorCode(why.code), why.text)
        self._cancel_streams(job)

    def _drop(self, job: NodeJob, code: ErrorCode, text: str) -> None:
        job.over = True
        self._owner.dropped(job, code, text)
        self._fail_streams(job, code, text)

    def _fail_streams(self, job: NodeJob, code: ErrorCode, text: str) -> None:
        late = code is ErrorCode.DEADLINE
        job.why = job.why or Error(0, 0, code.value, text)
        for sender in list(job.outputs.values()):
            sender.fail(code.value, text, late=late)
        for receiver in list(job.inputs.values()):
            receiver.apply(RecvEvent.DEADLINE if late else RecvEvent.CANCEL, job.why)
        self.blocked.discard(job.rid)
        self._close_if_done(job)

    def _cancel_streams(self, job: NodeJob) -> None:
        for sender in list(job.outputs.values()):
            sender.cancel(job.why)
        for receiver in list(job.inputs.values()):
            receiver.apply(RecvEvent.CANCEL, job.why)
        self.blocked.discard(job.rid)
        self._close_if_done(job)

    def _close_if_done(self, job: NodeJob) -> None:
        for sender in job.outputs.values():
            if sender.state is not _S_CLOSED:
                return
        for receiver in job.inputs.values():
            if receiver.state is not _R_CLOSED:
                return
        if self.jobs.pop(job.rid, None) is None:
            return
        self.blocked.discard(job.rid)
        self._bury(job.rid, job.why)
        job.ended_ns = self._clock()
        self._owner.closed(job)

    def _turn_away(self, rid: int, why: Error | None = None) -> None:
        # A job that never came still leaves once, so that whoever counts requests here counts right.
        if rid not in self._graveyard:
            self._bury(rid, why)
            job = NodeJob(rid, b"", 0)
            job.ended_ns = self._clock()
            self._owner.closed(job)

    def _bury(self, rid: int, why: Error | None) -> None:
        self._early.pop(rid, None)
        self._graveyard.bury(rid, why)
