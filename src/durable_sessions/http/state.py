"""What all connections of one server share."""

import asyncio
from typing import Protocol

from durable_sessions.clock import Clock
from durable_sessions.http.message import BodyLimit, Handler
from durable_sessions.http.request_ids import RequestIds
from durable_sessions.http.wire import Heads
from durable_sessions.limits import Limits


class Peer(Protocol):
    """An open connection, as the server sees it."""

    bytes_in: int
    bytes_out: int

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


class Budget:
    """What requests that are incomplete or wait for their turn may take, all connections together.

    ``seconds_max`` is how long a body may take to arrive. Large bodies have a budget of their own.
    """

    __slots__ = ("bytes_held", "bytes_max", "seconds_max")

    def __init__(self, bytes_max: int, seconds_max: float) -> None:
        self.bytes_held = 0
        self.bytes_max = bytes_max
        self.seconds_max = seconds_max


class ServerState:
    """Handler, limits, counters and the set of open connections; counters are plain integers.

    ``body_limit`` is asked for requests whose body may be larger than that of an append.
    """

    loop: asyncio.AbstractEventLoop  # set when the server starts

    def __init__(self, handler: Handler, limits: Limits, clock: Clock, body_limit: BodyLimit | None) -> None:
        self.handler = handler
        self.limits = limits
        self.clock = clock
        self.body_limit = body_limit or (lambda request: limits.append_body_bytes_max)
        self.request_ids = RequestIds()
        self.heads = Heads()
        self.heads.tick(clock.now_ms())
        self.draining = False
        self.peers: set[Peer] = set()
        self.nobody_left = asyncio.Event()
        self.nobody_left.set()
        self.peers_total = 0
        self.answers = [0] * 6  # by the first digit of the status
        self.requests = Budget(limits.request_bytes_max, limits.body_seconds_max)
        self.large_bodies = Budget(limits.incomplete_artifact_bytes_max, limits.artifact_body_seconds_max)
        self._untaken: dict[Peer, bytes] = {}  # what peers do not take, the longest wait first
        self._holders: dict[int, int] = {}  # of the same piece, by its identity
        self._untaken_bytes = 0
        self._bytes_in = 0
        self._bytes_out = 0

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
        if peer in self._untaken:
            self._untaken[successor] = self._untaken.pop(peer)

    def remove(self, peer: Peer) -> None:
        """Forget a connection that was lost."""
        self.answer_taken(peer)
        self.peers.discard(peer)
        self._bytes_in += peer.bytes_in
        self._bytes_out += peer.bytes_out
        if not self.peers:
            self.nobody_left.set()

    def answer_waits(self, peer: Peer, piece: bytes) -> None:
        """Note that ``peer`` does not take ``piece``; if all that is too much, cut who has waited longest.

        Who reads does not stand here for long, so it is those who do not read that are cut. A
        piece that many are being sent is counted once.
        """
        self._untaken[peer] = piece
        holders = self._holders.get(id(piece), 0)
        self._holders[id(piece)] = holders + 1
        if not holders:
            self._untaken_bytes += len(piece)
        while self._untaken_bytes > self.limits.untaken_bytes_max and len(self._untaken) > 1:
            longest = next(iter(self._untaken))
            self.answer_taken(longest)
            longest.abort()

    def answer_taken(self, peer: Peer) -> None:
        """Note that ``peer`` has taken its answer, or never will."""
        piece = self._untaken.pop(peer, None)
        if piece is None:
            return
        self._holders[id(piece)] -= 1
        if not self._holders[id(piece)]:
            del self._holders[id(piece)]
            self._untaken_bytes -= len(piece)
