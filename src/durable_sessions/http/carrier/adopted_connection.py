"""A connection that another process has accepted, and given to this one with a request."""

import asyncio

from durable_sessions.http.carrier.answerer import CLOSED
from durable_sessions.http.carrier.connection import Connection
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.carrier.request_receiver import RefusedError
from durable_sessions.http.carrier.state import ServerState
from durable_sessions.http.carrier.wire import HEAD_REQUEST


class AdoptedConnection(Connection):
    """Answers a request that was read elsewhere, then goes on as every connection does."""

    __slots__ = ("_first",)

    def __init__(self, state: ServerState, first: Request) -> None:
        super().__init__(state)
        self._first: Request | None = first

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with the request that came with the connection."""
        super().connection_made(transport)
        first, self._first = self._first, None
        if first is None or self._answerer.blocked & CLOSED:
            return
        self._movable_at = self._state.loop.time() + self._state.limits.hand_over_again_seconds_min
        try:
            self.request_received(first, HEAD_REQUEST if first.method == b"HEAD" else 0)
        except RefusedError:
            pass  # the refusal is on its way
