"""A real server in a thread of this process, for tests that are not async."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, TypeVar

import uvloop

from durable_sessions.testing.server import LocalServer, local_server

T = TypeVar("T")


class _LoopThread:
    """An event loop that runs in a thread of its own."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="durable-sessions-server", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """End the thread."""
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BackgroundServer:
    """A server that runs while the test does; it can be restarted on the same data and port."""

    def __init__(self, server: LocalServer, thread: _LoopThread) -> None:
        self._server = server
        self._thread = thread

    @property
    def url(self) -> str:
        """Where the server is reached, without a slash at the end."""
        return self._server.url

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._server.data

    def restart(self) -> None:
        """Stop, and start again on the same data directory and port."""
        self._thread.run(self._server.restart())


@contextmanager
def server(data: Path | None = None, **settings: Any) -> Iterator[BackgroundServer]:
    """Run a server on a free port of this machine for the length of a ``with`` block.

    Its data is in a temporary directory that is removed after the block, unless ``data`` names one. Other
    ``settings`` are passed by name.
    """
    if data is None:
        with (
            TemporaryDirectory(prefix="durable-sessions-") as directory,
            server(Path(directory), **settings) as running,
        ):
            yield running
        return
    thread = _LoopThread()
    try:
        local = local_server(data, **settings)
        running = BackgroundServer(thread.run(local.__aenter__()), thread)
        try:
            yield running
        finally:
            thread.run(local.__aexit__(None, None, None))
    finally:
        thread.close()
