"""The state that all connections of a server share."""

import asyncio
from collections.abc import Hashable
from typing import Protocol

from durable_sessions.clock import Clock
from durable_sessions.errors import DurableSessionsError, OverloadedError, ShareExceededError
from durable_sessions.http.carrier.known_head import KnownHeads, can_know
from durable_sessions.http.carrier.message import Admission, AdmitAll, AnswerFormat, FastPath, Handler
from durable_sessions.http.carrier.request_ids import RequestIds
from durable_sessions.http.carrier.unread_answers import UnreadAnswers
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
        """Bytes of answers, including those that the peer has not read yet."""
        ...

    def running(self) -> asyncio.Task[None] | None:
        """Return the task that is answering a request, if there is one."""
        ...

    def sweep(self, now: float) -> None:
        """Enforce the time-outs as of ``now`` (the event loop's time)."""
        ...

    def drain(self) -> None:
        """Accept no new request; close when the current ones have been answered."""
        ...

    def abort(self) -> None:
        """Close the connection at once, dropping unsent output."""
        ...


class Budget(Shares):
    """The memory budget for requests that are incomplete or waiting, shared by all connections.

    ``seconds_max`` is how long a body may take to arrive. Large bodies have a budget of their own.
    """

    __slots__ = ("limit", "seconds_max")

    def __init__(self, limit: str, bytes_max: int, seconds_max: float) -> None:
        super().__init__(bytes_max)
        self.limit = limit
        self.seconds_max = seconds_max

    def refusal(self, holder: Hashable) -> DurableSessionsError:
        """Return the error for a holder that exceeds the budget or, if it is a key, its share of it."""
        if self.full() or not isinstance(holder, str):
            return OverloadedError(what="request bytes in memory")
        return ShareExceededError(what="the memory for requests", limit=self.limit)


class ServerState:
    """Handler, limits, counters and the set of open connections; counters are plain integers.

    ``admission`` decides about requests whose body has not arrived with the head. ``fast_path`` answers the
    most common requests, if the application has one. ``base`` is the path below which a proxy serves
    everything, without a slash at its end: targets may have it in front or not.
    """

    loop: asyncio.AbstractEventLoop  # set when the server starts

    def __init__(
        self,
        handler: Handler,
        answer_format: AnswerFormat,
        limits: Limits,
        clock: Clock,
        admission: Admission | None = None,
        fast_path: FastPath | None = None,
        base: bytes = b"",
    ) -> None:
        self.handler = handler
        self.base = base
        self.fast_path = fast_path if can_know(limits) else None
        self.known_heads = KnownHeads()
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
        self.handed_over = 0
        self.adopted = 0
        self.answers = [0] * 6  # by the first digit of the status
        self.heads_bytes = 0  # of incomplete heads that are not short
        self.requests = Budget("request_bytes_max", limits.request_bytes_max, limits.body_seconds_max)
        self.large_bodies = Budget(
            "incomplete_artifact_bytes_max",
            limits.incomplete_artifact_bytes_max,
            limits.artifact_body_seconds_max,
        )
        self.connections = Shares(limits.connections_max)  # of keys; others have no share of their own
        self._keyless: dict[Peer, None] = {}  # oldest first: no key shown where one is required, or closing
        self._cut: set[Peer] = set()  # aborted to make room, connection_lost() still to come
        self._untaken: UnreadAnswers[Peer] = UnreadAnswers(limits.untaken_bytes_max)
        self._bytes_in = 0
        self._bytes_out = 0

    def tick(self) -> None:
        """Update the ``Date`` header of answers."""
        now_ms = self.clock.now_ms()
        for heads in self.heads:
            heads.tick(now_ms)

    @property
    def bytes_in(self) -> int:
        """Bytes received since the start."""
        return self._bytes_in + sum(peer.bytes_in for peer in self.peers)

    @property
    def bytes_out(self) -> int:
        """Bytes of answers since the start, including those that peers have not read yet."""
        return self._bytes_out + sum(peer.bytes_out for peer in self.peers)

    def add(self, peer: Peer) -> None:
        """Count a new connection."""
        self.peers.add(peer)
        self.peers_total += 1
        self.nobody_left.clear()

    def replace(self, peer: Peer, successor: Peer) -> None:
        """Register ``successor`` as the protocol of the same connection."""
        self.peers.discard(peer)
        self.peers.add(successor)
        self._keyless.pop(peer, None)
        if self.admission.keys_required:
            self._keyless[successor] = None  # its last answer has been given
        self._untaken.replace(peer, successor)

    def remove(self, peer: Peer) -> None:
        """Remove a closed connection."""
        self.answer_taken(peer)
        self._keyless.pop(peer, None)
        self._cut.discard(peer)
        self.peers.discard(peer)
        self._bytes_in += peer.bytes_in
        self._bytes_out += peer.bytes_out
        if not self.peers:
            self.nobody_left.set()

    def came_without_key(self, peer: Peer) -> None:
        """Note that a connection has shown no key; those are closed first when there are too many."""
        self._keyless[peer] = None

    def showed_key(self, peer: Peer) -> None:
        """Note that a connection has shown a key."""
        self._keyless.pop(peer, None)

    @property
    def too_many(self) -> int:
        """How many connections there are beyond the limit."""
        return len(self.peers) - len(self._cut) - self.limits.connections_max

    def make_room(self) -> bool:
        """Close the oldest connection that has shown no key; say whether there was one."""
        oldest = next(iter(self._keyless), None)
        if oldest is None:
            return False
        del self._keyless[oldest]
        self._cut.add(oldest)
        oldest.abort()
        return True

    def answer_waits(self, peer: Peer, holder: Hashable, piece: bytes) -> None:
        """Note that ``peer`` is not reading ``piece``; cut peers while unread answers exceed the limit."""
        for one in self._untaken.add(peer, holder, piece):
            one.abort()

    def answer_taken(self, peer: Peer) -> None:
        """Note that ``peer`` has read its answer, or is gone."""
        self._untaken.remove(peer)
