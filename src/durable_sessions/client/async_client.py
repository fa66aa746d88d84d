"""The client for programs with an event loop: every call is awaited."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Unpack

import httpx2

from durable_sessions.client import artifact, calls, pages, search
from durable_sessions.client.artifact import Artifact, Download
from durable_sessions.client.async_session import AsyncSession
from durable_sessions.client.async_transport import AsyncTransport
from durable_sessions.client.calls import SessionFields
from durable_sessions.client.errors import NotFoundError
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.options import RETRIES, TIMEOUT_SECONDS, Options
from durable_sessions.client.pages import SessionFilters
from durable_sessions.client.producer import ProducerCache
from durable_sessions.client.search import SearchFilters, SearchResults
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
    often a failed request is sent again.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        options = Options.chosen(url, api_key, timeout, retries)
        self.url = options.url
        self._transport = AsyncTransport(options, transport)
        self._producers = ProducerCache(asyncio.Lock)
        self.sessions = AsyncSessionCollection(self._transport, self._producers)
        self.artifacts = AsyncArtifactCollection(self._transport)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    def session(self, id: str) -> AsyncSession:  # noqa: A002
        """Return a handle of a session, without sending a request."""
        return AsyncSession(id, self._transport, self._producers)

    @keywords_of(search.everywhere)
    async def search(self, q: str, **filters: Unpack[SearchFilters]) -> SearchResults:
        """Return the sessions with events that match ``q``, the best first.

        Returns up to ``limit`` sessions, with up to ``hits`` of the matching events of each.
        """
        return await self._transport.send(search.everywhere(q, **filters))
