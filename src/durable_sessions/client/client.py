"""The client for ordinary programs: every call waits for its answer."""

from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Unpack

import httpx2

from durable_sessions.client import artifact, calls, pages, search
from durable_sessions.client.artifact import Artifact, Download
from durable_sessions.client.calls import SessionFields
from durable_sessions.client.errors import NotFoundError
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.options import RETRIES, TIMEOUT_SECONDS, Options
from durable_sessions.client.pages import SessionFilters
from durable_sessions.client.producer import Lines
from durable_sessions.client.search import SearchFilters, SearchResults
from durable_sessions.client.session import Session
from durable_sessions.client.transport import Transport


class SessionCollection:
    """The sessions of the workspace."""

    def __init__(self, transport: Transport, lines: Lines[Lock]) -> None:
        self._transport = transport
        self._lines = lines

    def create(
        self,
        id: str | None = None,  # noqa: A002
        **said: Unpack[SessionFields],
    ) -> Session:
        """Create a session, or confirm one that says the same; ConflictError if it differs."""
        made = self._transport.send(calls.create(id, **said))
        return Session(made.id, self._transport, self._lines, made.incarnation)

    def get(self, id: str) -> SessionInfo:  # noqa: A002
        """Return what the server knows of a session."""
        return self._transport.send(calls.info(id))

    def list(self, **filters: Unpack[SessionFilters]) -> Iterator[SessionInfo]:
        """Yield all sessions that match, the newest first unless ``order`` is ``"asc"``, page by page."""
        return self._transport.walk(pages.sessions(**filters))


class ArtifactCollection:
    """Payloads too large for events, named by their SHA-256."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def put(self, data: bytes | Path, media_type: str = "application/octet-stream") -> Artifact:
        """Store bytes, or those of a file piece by piece; what is there already is not stored again."""
        return self._transport.send(artifact.put(data, media_type))

    def get(self, sha256: str) -> bytes:
        """Return the bytes of an artifact, checked against its digest."""
        return b"".join(self.stream(sha256))

    def stream(self, sha256: str) -> Iterator[bytes]:
        """Yield an artifact in pieces, across disconnects; raise at the end if the digest is wrong."""
        download = Download(sha256, self._transport.attempts())
        timeout = self._transport.options.timeout
        while not download.complete:
            yield from self._transport.receive(download, timeout)

    def delete(self, sha256: str) -> None:
        """Remove an artifact, whatever refers to it; needs an admin's key."""
        self._transport.send(artifact.delete(sha256))

    def exists(self, sha256: str) -> bool:
        """Say whether an artifact is stored."""
        try:
            self._transport.send(artifact.exists(sha256))
        except NotFoundError:
            return False
        return True


class Client:
    """Speaks to a server; may be shared by threads.

    Without ``url`` and ``api_key`` the variables ``DURABLE_SESSIONS_URL`` and ``DURABLE_SESSIONS_API_KEY``
    count. ``timeout`` is in seconds and for each attempt, ``retries`` is how often a request is sent again.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        options = Options.chosen(url, api_key, timeout, retries)
        self.url = options.url
        self._transport = Transport(options, transport)
        self._lines = Lines(Lock)
        self.sessions = SessionCollection(self._transport, self._lines)
        self.artifacts = ArtifactCollection(self._transport)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def session(self, id: str) -> Session:  # noqa: A002
        """Return a handle of a session; nothing is sent."""
        return Session(id, self._transport, self._lines)

    def search(self, q: str, **filters: Unpack[SearchFilters]) -> SearchResults:
        """Return the sessions in which something matches, best first.

        Up to ``limit`` sessions, 20 unless said otherwise, with up to ``hits`` events of each, 3 unless said
        otherwise.
        """
        return self._transport.send(search.everywhere(q, **filters))
