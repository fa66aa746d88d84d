"""What all connections of one server share."""

import asyncio
from collections.abc import Hashable
from typing import Protocol

from durable_sessions.clock import Clock
from durable_sessions.errors import DurableSessionsError, OverloadedError, ShareExceededError
from durable_sessions.http.carrier.message import Admission, AdmitAll, AnswerFormat, Handler
from durable_sessions.http.carrier.request_ids import RequestIds
from durable_sessions.http.carrier.unread_answers import UntakenAnswers
from durable_sessions.http.carrier.wire import Heads
from durable_sessions.limits import Limits
from durable_sessions.shares import Shares


class Peer(Protocol):
    """An open connection, as the server sees it."""

    @property
    def bytes_in(self) -> int:
        """Bytes received."""
        ...

    @property
    def bytes_out(self) -> int:
        """Bytes of answers, including those that the peer has not taken yet."""
        ...

    def running(self) -> asyncio.Task[None] | None:
        """Return the task that is answering a request, if there is one."""
        ...

    def sweep(self, now: float) -> None:
        """End what has taken too long at ``now`` (the event loop's time)."""
        ...

    def drain(self) -> None:
        """Take no new request; close when what is under way has been answered."""
        ...

    def abort(self) -> None:
        """Cut the connection without waiting for anything."""
        ...


class Budget(Shares):
    """What requests that are incomplete or wait for their turn may take, all connections together.

    ``seconds_max`` is how long a body may take to arrive. Large bodies have a budget of their own.
    """

    __slots__ = ("limit", "seconds_max")

    def __init__(self, limit: str, bytes_max: int, seconds_max: float) -> None:
        super().__init__(bytes_max)
        self.limit = limit
        self.seconds_max = seconds_max

    def refusal(self, holder: Hashable) -> DurableSessionsError:
        """Return what somebody is told who exceeds the budget, or, if that is a key, its share."""
        if self.full() or not isinstance(holder, str):
            return OverloadedError(what="request bytes in memory")
        return ShareExceededError(what="the memory for requests", limit=self.limit)


class ServerState:
    """Handler, limits, counters and the set of open connections; counters are plain integers.

    ``admission`` is asked about requests whose body has not arrived with the head.
    """

    loop: asyncio.AbstractEventLoop  # set when the server starts

    def __init__(
        self,
        handler: Handler,
        answer_format: AnswerFormat,
        limits: Limits,
        clock: Clock,
        admission: Admission | None = None,
    ) -> None:
        self.handler = handler
        self.refuse = answer_format.refuse
        self.limits = limits
        self.clock = clock
        self.admission = admission or AdmitAll(limits.append_body_bytes_max)
        self.new_request_id = RequestIds().new  # bound once, not for every connection
        self.heads = tuple(map(Heads, answer_format.common_headers))
        self.tick()
        self.draining = False
        self.peers: set[Peer] = set()
        self.nobody_left = asyncio.Event()
        self.nobody_left.set()
        self.peers_total = 0
        self.answers = [0] * 6  # by the first digit of the status
        self.heads_bytes = 0  # of incomplete heads that are not short
        self.requests = Budget("request_bytes_max", limits.request_bytes_max, limits.body_seconds_max)
        self.large_bodies = Budget(
            "incomplete_artifact_bytes_max",
            limits.incomplete_artifact_bytes_max,
            limits.artifact_body_seconds_max,
        )
        self.connections = Shares(limits.connections_max)  # of keys; others have no share of their own
        self._strangers: dict[Peer, None] = {}  # have shown no key where one is needed, or are ending
        self._cut: set[Peer] = set()  # were closed to make room, and are not gone yet
        self._untaken: UntakenAnswers[Peer] = UntakenAnswers(limits.untaken_bytes_max)
        self._bytes_in = 0
        self._bytes_out = 0

    def tick(self) -> None:
        """Let the answers from now on show the time."""
        now_ms = self.clock.now_ms()
        for heads in self.heads:
            heads.tick(now_ms)

    @property
    def bytes_in(self) -> int:
        """Bytes received since the start."""
        return self._bytes_in + sum(peer.bytes_in for peer in self.peers)

    @property
    def bytes_out(self) -> int:
        """Bytes of answers since the start, including those that the peer has not taken yet."""
        return self._bytes_out + sum(peer.bytes_out for peer in self.peers)

    def add(self, peer: Peer) -> None:
        """Count a new connection."""
        self.peers.add(peer)
        self.peers_total += 1
        self.nobody_left.clear()

    def replace(self, peer: Peer, successor: Peer) -> None:
        """Go on with the same connection under another protocol."""
        self.peers.discard(peer)
        self.peers.add(successor)
        self._strangers.pop(peer, None)
        if self.admission.keys_required:
            self._strangers[successor] = None  # its last answer has been given
        self._untaken.replace(peer, successor)

    def remove(self, peer: Peer) -> None:
        """Forget a connection that was lost."""
        self.answer_taken(peer)
        self._strangers.pop(peer, None)
        self._cut.discard(peer)
        self.peers.discard(peer)
        self._bytes_in += peer.bytes_in
        self._bytes_out += peer.bytes_out
        if not self.peers:
            self.nobody_left.set()

    def came_without_key(self, peer: Peer) -> None:
        """Note that a connection is one of those that make room first."""
        self._strangers[peer] = None

    def showed_key(self, peer: Peer) -> None:
        """Note that a connection has shown a key."""
        self._strangers.pop(peer, None)

    @property
    def too_many(self) -> int:
        """How many connections there are beyond the limit."""
        return len(self.peers) - len(self._cut) - self.limits.connections_max

    def make_room(self) -> bool:
        """Close the connection that has gone without a key for longest; say whether there was one."""
        oldest = next(iter(self._strangers), None)
        if oldest is None:
            return False
        del self._strangers[oldest]
        self._cut.add(oldest)
        oldest.abort()
        return True

    def answer_waits(self, peer: Peer, holder: Hashable, piece: bytes) -> None:
        """Note that ``peer`` does not take ``piece``; if all that is too much, some who wait are cut."""
        for one in self._untaken.add(peer, holder, piece):
            one.abort()

    def answer_taken(self, peer: Peer) -> None:
        """Note that ``peer`` has taken its answer, or never will."""
        self._untaken.remove(peer)
