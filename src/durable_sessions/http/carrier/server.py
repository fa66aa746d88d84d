"""The server that carries the application: HTTP/1.1 on httptools and the event loop."""

import asyncio
import socket
from collections.abc import Callable, Sequence

from durable_sessions.clock import Clock, SystemClock
from durable_sessions.http.carrier.adopted_connection import AdoptedConnection
from durable_sessions.http.carrier.connection import Connection
from durable_sessions.http.carrier.message import Admission, AnswerFormat, FastPath, Handler, Request
from durable_sessions.http.carrier.state import ServerState
from durable_sessions.limits import DEFAULT_LIMITS, Limits

SWEEP_SECONDS = 0.5

# The listen backlog: how many new connections the kernel queues until they are accepted.
_BACKLOG = 2048


class HttpServer:
    """Serves ``handler`` within ``limits``; ``answer_format`` gives the shape of the server's own errors.

    The functions in :attr:`on_shutdown` are called when a shutdown begins, so that the
    application can end requests that would otherwise wait, such as long-polls.
    """

    def __init__(
        self,
        handler: Handler,
        limits: Limits = DEFAULT_LIMITS,
        clock: Clock | None = None,
        admission: Admission | None = None,
        *,
        answer_format: AnswerFormat,
        fast_path: FastPath | None = None,
        base: bytes = b"",
    ) -> None:
        self.on_shutdown: list[Callable[[], None]] = []
        self._state = ServerState(
            handler, answer_format, limits, clock or SystemClock(), admission, fast_path, base
        )
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self.port = 0

    @property
    def sockets(self) -> Sequence[socket.socket]:
        """The sockets that accept connections."""
        return self._server.sockets if self._server is not None else ()

    @property
    def draining(self) -> bool:
        """Whether a shutdown has begun."""
        return self._state.draining

    @property
    def open_connections(self) -> int:
        """Connections open now."""
        return len(self._state.peers)

    @property
    def connections_total(self) -> int:
        """Connections accepted since the start."""
        return self._state.peers_total

    @property
    def handed_over_total(self) -> int:
        """Connections given to other processes since the start."""
        return self._state.handed_over

    @property
    def adopted_total(self) -> int:
        """Connections taken over from other processes since the start."""
        return self._state.adopted

    @property
    def can_adopt(self) -> bool:
        """Whether it has started, and there is room for a connection of another process."""
        return self._server is not None and not self._state.draining and self._state.too_many < 0

    @property
    def bytes_in(self) -> int:
        """Bytes received since the start."""
        return self._state.bytes_in

    @property
    def bytes_out(self) -> int:
        """Bytes of answers since the start."""
        return self._state.bytes_out

    @property
    def request_bytes(self) -> int:
        """Bytes held now for requests that are incomplete or waiting."""
        return self._state.heads_bytes + self._state.requests.held + self._state.large_bodies.held

    def requests_by_class(self) -> dict[str, int]:
        """Return the answers since the start by status class, such as ``2xx``."""
        return {f"{digit}xx": count for digit, count in enumerate(self._state.answers) if digit}

    async def start(self, host: str, port: int, *, shared_port: bool = False) -> None:
        """Accept connections; :attr:`port` is then the real one, also for port 0.

        Several processes may listen on a ``shared_port``: the kernel divides the connections among them.
        """
        state = self._state
        state.loop = asyncio.get_running_loop()
        self._server = await state.loop.create_server(
            lambda: Connection(state), host, port, backlog=_BACKLOG, reuse_port=shared_port or None
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._sweep()

    async def adopt(self, connection: socket.socket, request: Request) -> None:
        """Serve a connection that another process has accepted; answer a request that was read there first.

        The socket belongs to the server from now on. The other process must not read from it any more.
        """
        state = self._state
        connection.setblocking(False)
        state.adopted += 1
        await state.loop.connect_accepted_socket(lambda: AdoptedConnection(state, request), connection)

    async def shutdown(self, grace_seconds: float) -> None:
        """Finish the current requests, refuse new ones, and cut what is left after the grace period."""
        state = self._state
        state.draining = True
        if self._server is not None:
            self._server.close()
        # No new connections from here on; requests that only wait, such as long-polls, are told to end.
        for tell in self.on_shutdown:
            tell()
        for peer in tuple(state.peers):
            peer.drain()
        try:
            async with asyncio.timeout(grace_seconds):
                await state.nobody_left.wait()
        except TimeoutError:
            await self._cut_everybody()
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            await self._server.wait_closed()

    async def settle(self, seconds_max: float) -> None:
        """Wait until the requests in progress have been answered, at most for ``seconds_max``."""
        running = [task for peer in self._state.peers if (task := peer.running()) is not None]
        if running:
            await asyncio.wait(running, timeout=seconds_max)

    async def _cut_everybody(self) -> None:
        running = [task for peer in self._state.peers if (task := peer.running()) is not None]
        for peer in tuple(self._state.peers):
            peer.abort()
        await self._state.nobody_left.wait()
        if running:
            await asyncio.wait(running, timeout=self._state.limits.clean_up_seconds_max)

    def _sweep(self) -> None:
        """Check every connection about twice a second, so that no request needs a timer."""
        state = self._state
        self._sweeper = state.loop.call_later(SWEEP_SECONDS, self._sweep)
        state.tick()
        now = state.loop.time()
        for peer in tuple(state.peers):
            peer.sweep(now)
