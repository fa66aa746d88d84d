"""The client for programs without an event loop: every call blocks until its answer is there."""

from collections.abc import Generator, Iterator
from pathlib import Path
from threading import Lock
from typing import Unpack

import httpx2

from durable_sessions.client import artifact, calls, pages, search, work_calls
from durable_sessions.client.artifact import Artifact, Download
from durable_sessions.client.calls import SessionFields
from durable_sessions.client.errors import NotFoundError
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.memory import MemoryCollection
from durable_sessions.client.options import RETRIES, TIMEOUT_SECONDS, Options
from durable_sessions.client.pages import SessionFilters
from durable_sessions.client.producer import ProducerCache
from durable_sessions.client.search import SearchFilters, SearchResults
from durable_sessions.client.session import Session
from durable_sessions.client.session_changes import ListTail, SessionChanges
from durable_sessions.client.session_tail import SILENCE_SECONDS_MAX
from durable_sessions.client.signatures import keywords_of
from durable_sessions.client.transport import Transport
from durable_sessions.client.work import Work, woken


class SessionCollection:
    """The sessions of the workspace."""

    def __init__(self, transport: Transport, producers: ProducerCache[Lock]) -> None:
        self._transport = transport
        self._producers = producers

    @keywords_of(calls.create)
    def create(
        self,
        id: str | None = None,  # noqa: A002
        **fields: Unpack[SessionFields],
    ) -> Session:
        """Create a session, or return the existing one if it is the same; ConflictError if it differs."""
        made = self._transport.send(calls.create(id, **fields))
        return Session(made.id, self._transport, self._producers, made.incarnation)

    def get(self, id: str) -> SessionInfo:  # noqa: A002
        """Return a session as the server describes it."""
        return self._transport.send(calls.info(id))

    @keywords_of(pages.sessions)
    def list(self, **filters: Unpack[SessionFilters]) -> Iterator[SessionInfo]:
        """Yield all sessions that match, the newest first unless ``order`` is ``"asc"``, page by page."""
        return self._transport.paginate(pages.sessions(**filters))

    def follow(
        self, *, silence_seconds_max: float = SILENCE_SECONDS_MAX
    ) -> Generator[SessionChanges, None, None]:
        """Yield the sessions of the workspace as they change, for ever, across lost connections.

        Changes are not replayed. Each connection begins with a ``gap``: list the sessions then.
        """
        tail = ListTail(self._transport.attempts())
        while True:
            yield from self._transport.receive(tail, silence_seconds_max)


class ArtifactCollection:
    """Payloads too large for events, named by their SHA-256."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def put(self, data: bytes | Path, media_type: str = "application/octet-stream") -> Artifact:
        """Store bytes, or a file piece by piece; what is stored already is not stored a second time."""
        return self._transport.send(artifact.put(data, media_type))

    def get(self, sha256: str) -> bytes:
        """Return the bytes of an artifact, checked against its digest."""
        return b"".join(self.stream(sha256))

    def stream(self, sha256: str) -> Iterator[bytes]:
        """Yield an artifact in pieces, across lost connections; raise at the end if the digest is wrong."""
        download = Download(sha256, self._transport.attempts())
        timeout = self._transport.options.timeout
        while not download.complete:
            yield from self._transport.receive(download, timeout)

    def delete(self, sha256: str) -> None:
        """Remove an artifact, even if events refer to it; needs an admin key."""
        self._transport.send(artifact.delete(sha256))

    def exists(self, sha256: str) -> bool:
        """Say whether an artifact is stored."""
        try:
            self._transport.send(artifact.exists(sha256))
        except NotFoundError:
            return False
        return True


class Client:
    """Talks to a server; threads may share it.

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
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        options = Options.chosen(url, api_key, timeout, retries, principal)
        self.url = options.url
        self.options = options
        self._transport = Transport(options, transport)
        self._producers = ProducerCache(Lock)
        self.sessions = SessionCollection(self._transport, self._producers)
        self.artifacts = ArtifactCollection(self._transport)
        self.memory = MemoryCollection(self._transport)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def session(self, id: str, *, epoch: int | None = None) -> Session:  # noqa: A002
        """Return a handle of a session, without sending a request.

        With the ``epoch`` of a lease its appends are those of the worker that holds it: a program that such a
        worker starts takes part in its work.
        """
        return Session(id, self._transport, self._producers, epoch=epoch)

    def wake(
        self,
        id: str,  # noqa: A002
        *,
        worker: str | None = None,
        seconds: int = 60,
        exclusive: bool = True,
        force: bool = False,
    ) -> Work:
        """Wake a session: no other worker has it from now on, and one that had it is fenced.

        Use the result as a context manager; it renews the lease, and releases it at the end.
        """
        return woken(self.session(id), worker, seconds, exclusive=exclusive, force=force)

    def release(self, id: str, epoch: int, reason: str | None = None) -> str:  # noqa: A002
        """Give a session back that another process has woken as this principal; return where it ends."""
        return self._transport.send(work_calls.release(id, epoch, reason))

    @keywords_of(search.everywhere)
    def search(self, q: str, **filters: Unpack[SearchFilters]) -> SearchResults:
        """Return the sessions with events that match ``q``, the best first.

        Returns up to ``limit`` sessions, with up to ``hits`` of the matching events of each.
        """
        return self._transport.send(search.everywhere(q, **filters))
