"""Artifacts over HTTP: ``/v1/artifacts/{sha256}``."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar

import msgspec

from durable_sessions.access.audit import Audit
from durable_sessions.errors import (
    ArtifactNotFoundError,
    ArtifactRedactedError,
    ArtifactTooLargeError,
    InvalidHeaderError,
    InvalidRequestError,
    OverloadedError,
    RangeNotSatisfiableError,
    ShareExceededError,
)
from durable_sessions.http.api import headers
from durable_sessions.http.api.auth import Caller
from durable_sessions.http.api.deletions import deletion
from durable_sessions.http.api.route_table import ROUTES, Handler, Match
from durable_sessions.http.bodies.artifacts import StoredArtifact
from durable_sessions.http.carrier.message import Answer, Header, Request, Response, StreamingResponse
from durable_sessions.http.openapi.answer_headers import ACCEPT_RANGES, CONTENT_RANGE, ETAG
from durable_sessions.http.openapi.request_headers import IF_NONE_MATCH, IF_RANGE, RANGE
from durable_sessions.limits import Limits
from durable_sessions.shares import Shares
from durable_sessions.storage.artifacts import ArtifactInfo, Artifacts

_IF_NONE_MATCH = IF_NONE_MATCH.key
_RANGE_HEADER = RANGE.key
_IF_RANGE = IF_RANGE.key
ROOT = b"/v1/artifacts/"
ALLOW = ROUTES.at("/v1/artifacts/{sha256}").allow or ""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RANGE = re.compile(r"bytes=(?:(\d{1,18})-(\d{1,18})?|-(\d{1,18}))")
_DEFAULT_TYPE = "application/octet-stream"
_PIECE_BYTES = 256 * 1024


class ArtifactsFace:
    """Answers requests for artifacts, within a memory budget; refusals are raised."""

    def __init__(self, artifacts: Artifacts, limits: Limits, audit: Audit) -> None:
        self._audit = audit
        self._artifacts = artifacts
        self._limits = limits
        self._held = Shares(limits.artifact_memory_bytes_max)

    async def handle(self, request: Request, caller: Caller, found: Match) -> Answer:
        """Answer a request for one artifact of the caller's workspace."""
        (digest,) = found.values
        if not _DIGEST.fullmatch(digest):
            raise InvalidRequestError(
                problem="An artifact is named by the SHA-256 of its bytes: send 64 lower-case hex digits."
            )
        route = found.resource.route(request)
        if route.role is not None:
            caller.require(route.role)
        answer = self._handlers[route.id](self, request, caller, digest)
        return answer if isinstance(answer, Answer) else await answer

    async def show(self, request: Request, caller: Caller, digest: str) -> Answer:
        """Answer with an artifact, or with the part of it that a request asks for."""
        info = await self._artifacts.find(caller.workspace, digest)
        fields = _fields(digest, info)
        if headers.matches_etag(request.headers.get(_IF_NONE_MATCH, b""), f'"{digest}"'):
            return Response(304, fields)
        if request.method == b"HEAD":
            return Response(200, [*fields, (b"Content-Length", b"%d" % info.bytes)])
        return await self._read(request, caller, digest, info, fields)

    async def keep(
        self, caller: Caller, digest: str, data: bytes, content_type: str
    ) -> tuple[ArtifactInfo, bool]:
        """Store an artifact durably; return what it is, and whether it is new."""
        if len(data) > self._limits.artifact_bytes_max:
            raise ArtifactTooLargeError(artifact_bytes_max=self._limits.artifact_bytes_max)
        # Until the bucket has it, the body stays in memory, and buckets can be slow.
        self._hold(caller, len(data))
        try:
            return await self._artifacts.store(caller.workspace, digest, data, content_type)
        finally:
            self._release(caller, len(data))

    async def _store(self, request: Request, caller: Caller, digest: str) -> Response:
        info, new = await self.keep(caller, digest, request.body, self._content_type(request))
        said = StoredArtifact(digest, info.bytes, info.content_type)
        fields = [
            (b"Content-Type", b"application/json"),
            (b"Cache-Control", b"no-store"),
            (ETAG, b'"%b"' % digest.encode()),
        ]
        return Response(201 if new else 200, fields, msgspec.json.encode(said))

    async def _delete(self, request: Request, caller: Caller, digest: str) -> Response:
        """Delete an artifact; it is no error if there is none.

        The audit record is written first: it may list a failed attempt, but it never misses a deletion.
        """
        try:
            info = await self._artifacts.find(caller.workspace, digest)
        except (ArtifactNotFoundError, ArtifactRedactedError):
            pass
        else:
            await self._audit.record(deletion(caller, request, "artifact", digest, bytes=info.bytes))
        await self._artifacts.delete(caller.workspace, digest)
        return Response(204, [])

    def _content_type(self, request: Request) -> str:
        given = request.headers.get(b"content-type", b"").decode("latin-1") or _DEFAULT_TYPE
        most = self._limits.content_type_bytes_max
        if len(given) > most or not (given.isascii() and given.isprintable()):
            raise InvalidHeaderError(header="Content-Type", problem=f"send 1 to {most} printable characters")
        return given

    async def _read(
        self, request: Request, caller: Caller, digest: str, info: ArtifactInfo, fields: list[Header]
    ) -> Answer:
        first, end = _range(request, digest, info.bytes)
        # All of it is counted and read, even for a range: only the whole can be checked against the digest.
        self._hold(caller, info.bytes)
        try:
            data = await self._artifacts.read(caller.workspace, digest, info)
        except BaseException:
            self._release(caller, info.bytes)
            raise
        fields.append((b"Content-Length", b"%d" % (end - first)))
        whole = (first, end) == (0, info.bytes)
        if not whole:
            fields.append((CONTENT_RANGE, b"bytes %d-%d/%d" % (first, end - 1, info.bytes)))
        pieces = _Pieces(partial(self._release, caller), data, first, end)
        return StreamingResponse(200 if whole else 206, fields, pieces)

    def _hold(self, caller: Caller, size: int) -> None:
        """Count an artifact in memory for its caller, or shed; the local caller may use the whole budget."""
        held, holder = self._held, caller.key_id
        held.take(holder, size)
        if held.full() or (holder is not None and held.excess(holder)):
            full = held.full()
            self._release(caller, size)
            if full or holder is None:
                raise OverloadedError(what="artifact bytes in memory")
            raise ShareExceededError(what="the memory for artifacts", limit="artifact_memory_bytes_max")

    def _release(self, caller: Caller, size: int) -> None:
        self._held.give(caller.key_id, size)

    _handlers: ClassVar[dict[str, Handler]] = ROUTES.complete(
        {"putArtifact": _store, "getArtifact": show, "deleteArtifact": _delete}, "Artifacts"
    )


class _Pieces:
    """Sends an artifact in pieces; its memory is released at the end, even if sending never began."""

    def __init__(self, release: Callable[[int], None], data: bytes, first: int, end: int) -> None:
        self._release = release
        self._size = len(data)
        view = memoryview(data)
        self._pieces: Iterator[bytes] = (
            bytes(view[at : min(at + _PIECE_BYTES, end)]) for at in range(first, end, _PIECE_BYTES)
        )

    def __aiter__(self) -> "_Pieces":
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Release the memory."""
        self._pieces = iter(())
        size, self._size = self._size, 0
        self._release(size)


def _fields(digest: str, info: ArtifactInfo) -> list[Header]:
    return [
        (b"Content-Type", info.content_type.encode("latin-1")),
        (ETAG, b'"%b"' % digest.encode()),
        (b"Cache-Control", b"private, max-age=31536000, immutable"),
        (ACCEPT_RANGES, b"bytes"),
    ]


def _range(request: Request, digest: str, size: int) -> tuple[int, int]:
    """Return the start and the end of the requested range; a request for several ranges gets everything."""
    given = request.headers.get(_RANGE_HEADER, b"").decode("latin-1")
    condition = request.headers.get(_IF_RANGE)
    found = _RANGE.fullmatch(given)
    if found is None or (condition is not None and condition != b'"%b"' % digest.encode()):
        return 0, size
    if found[3] is not None:
        first, end = max(size - int(found[3]), 0), size
    else:
        first, end = int(found[1]), min(int(found[2]) + 1, size) if found[2] else size
    if found[2] is not None and found[1] is not None and int(found[2]) < int(found[1]):
        return 0, size  # not a valid range: ignored, as RFC 9110 says
    if first >= end:
        raise RangeNotSatisfiableError(range=given[:80], size=size)
    return first, end
