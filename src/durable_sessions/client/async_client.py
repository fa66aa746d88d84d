"""The client for programs with an event loop: every call is awaited."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Unpack

import httpx2

from durable_sessions.client import artifact, calls, pages, search, work_calls
from durable_sessions.client.artifact import Artifact, Download
from durable_sessions.client.async_memory import AsyncMemoryCollection
from durable_sessions.client.async_session import AsyncSession
from durable_sessions.client.async_transport import AsyncTransport
from durable_sessions.client.async_work import AsyncWork, woken
from durable_sessions.client.calls import SessionFields
from durable_sessions.client.errors import NotFoundError
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.options import RETRIES, TIMEOUT_SECONDS, Options
from durable_sessions.client.pages import SessionFilters
from durable_sessions.client.producer import ProducerCache
from durable_sessions.client.search import SearchFilters, SearchResults
from durable_sessions.client.session_changes import ListTail, SessionChanges
from durable_sessions.client.session_tail import SILENCE_SECONDS_MAX
from durable_sessions.client.signatures import keywords_of


class AsyncSessionCollection:
    """The sessions of the workspace."""

    def __init__(self, transport: AsyncTransport, producers: ProducerCache[asyncio.Lock]) -> None:
        self._transport = transport
        self._producers = producers

    @keywords_of(calls.create)
    async def create(
        self,
        id: str | None = None,  # noqa: A002
        **fields: Unpack[SessionFields],
    ) -> AsyncSession:
        """Create a session, or return the existing one if it is the same; ConflictError if it differs."""
        made = await self._transport.send(calls.create(id, **fields))
        return AsyncSession(made.id, self._transport, self._producers, made.incarnation)

    async def get(self, id: str) -> SessionInfo:  # noqa: A002
        """Return a session as the server describes it."""
        return await self._transport.send(calls.info(id))

    @keywords_of(pages.sessions)
    def list(self, **filters: Unpack[SessionFilters]) -> AsyncIterator[SessionInfo]:
        """Yield all sessions that match, the newest first unless ``order`` is ``"asc"``, page by page."""
        return self._transport.paginate(pages.sessions(**filters))

    async def follow(
        self, *, silence_seconds_max: float = SILENCE_SECONDS_MAX
    ) -> AsyncGenerator[SessionChanges, None]:
        """Yield the sessions of the workspace as they change, for ever, across lost connections.

        Changes are not replayed. Each connection begins with a ``gap``: list the sessions then.
        """
        tail = ListTail(self._transport.attempts())
        while True:
            # Without aclosing, the connection of a caller that stops iterating would stay open until the
            # garbage collector finds the inner generator.
            async with aclosing(self._transport.receive(tail, silence_seconds_max)) as received:
                async for change in received:
                    yield change


class AsyncArtifactCollection:
    """Payloads too large for events, named by their SHA-256."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def put(self, data: bytes | Path, media_type: str = "application/octet-stream") -> Artifact:
        """Store bytes, or a file piece by piece; what is stored already is not stored a second time."""
        return await self._transport.send(await asyncio.to_thread(artifact.put, data, media_type))

    async def get(self, sha256: str) -> bytes:
        """Return the bytes of an artifact, checked against its digest."""
        return b"".join([piece async for piece in self.stream(sha256)])

    async def stream(self, sha256: str) -> AsyncIterator[bytes]:
        """Yield an artifact in pieces, across lost connections; raise at the end if the digest is wrong."""
        download = Download(sha256, self._transport.attempts())
        timeout = self._transport.options.timeout
        while not download.complete:
            async with aclosing(self._transport.receive(download, timeout)) as received:
                async for piece in received:
                    yield piece

    async def delete(self, sha256: str) -> None:
        """Remove an artifact, even if events refer to it; needs an admin key."""
        await self._transport.send(artifact.delete(sha256))

    async def exists(self, sha256: str) -> bool:
        """Say whether an artifact is stored."""
        try:
            await self._transport.send(artifact.exists(sha256))
        except NotFoundError:
            return False
        return True


class AsyncClient:
    """Talks to a server; belongs to one event loop.

    ``url`` and ``api_key`` default to the environment variables ``DURABLE_SESSIONS_URL`` and
    ``DURABLE_SESSIONS_API_KEY``. ``timeout`` is in seconds and applies to each attempt; ``retries`` is how
    often a failed request is sent again. ``principal`` says who this is, on a server without keys, and
    defaults to ``DURABLE_SESSIONS_PRINCIPAL``; with keys the key does.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        principal: str | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        options = Options.chosen(url, api_key, timeout, retries, principal)
        self.url = options.url
        self.options = options
        self._transport = AsyncTransport(options, transport)
        self._producers = ProducerCache(asyncio.Lock)
        self.sessions = AsyncSessionCollection(self._transport, self._producers)
        self.artifacts = AsyncArtifactCollection(self._transport)
        self.memory = AsyncMemoryCollection(self._transport)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    def session(self, id: str, *, epoch: int | None = None) -> AsyncSession:  # noqa: A002
        """Return a handle of a session, without sending a request.

        With the ``epoch`` of a lease its appends are those of the worker that holds it: a program that such a
        worker starts takes part in its work.
        """
        return AsyncSession(id, self._transport, self._producers, epoch=epoch)

    async def wake(
        self,
        id: str,  # noqa: A002
        *,
        worker: str | None = None,
        seconds: int = 60,
        exclusive: bool = True,
        force: bool = False,
    ) -> AsyncWork:
        """Wake a session: no other worker has it from now on, and one that had it is fenced.

        Use the result as a context manager; it renews the lease, and releases it at the end.
        """
        return await woken(self.session(id), worker, seconds, exclusive=exclusive, force=force)

    async def release(self, id: str, epoch: int, reason: str | None = None) -> str:  # noqa: A002
        """Give a session back that another process has woken as this principal; return where it ends."""
        return await self._transport.send(work_calls.release(id, epoch, reason))

    @keywords_of(search.everywhere)
    async def search(self, q: str, **filters: Unpack[SearchFilters]) -> SearchResults:
        """Return the sessions with events that match ``q``, the best first.

        Returns up to ``limit`` sessions, with up to ``hits`` of the matching events of each.
        """
        return await self._transport.send(search.everywhere(q, **filters))
