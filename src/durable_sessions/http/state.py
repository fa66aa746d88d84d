"""What all connections of one server share."""

import asyncio
from typing import Protocol

from durable_sessions.clock import Clock
from durable_sessions.http.message import Handler
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


class ServerState:
    """Handler, limits, counters and the set of open connections; counters are plain integers."""

    loop: asyncio.AbstractEventLoop  # set when the server starts

    def __init__(self, handler: Handler, limits: Limits, clock: Clock) -> None:
        self.handler = handler
        self.limits = limits
        self.clock = clock
        self.heads = Heads()
        self.heads.tick(clock.now_ms())
        self.draining = False
        self.peers: set[Peer] = set()
        self.nobody_left = asyncio.Event()
        self.nobody_left.set()
        self.peers_total = 0
        self.answers = [0] * 6  # by the first digit of the status
        self.body_bytes = 0  # in request bodies that have not arrived completely
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

    def remove(self, peer: Peer) -> None:
        """Forget a connection that was lost."""
        self.peers.discard(peer)
        self._bytes_in += peer.bytes_in
        self._bytes_out += peer.bytes_out
        if not self.peers:
            self.nobody_left.set()
