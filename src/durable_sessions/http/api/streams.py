"""The Durable Streams protocol: ``/v1/stream/{path}``."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from durable_sessions.access.audit import Audit
from durable_sessions.errors import (
    DurableSessionsError,
    InvalidPathError,
    MethodNotAllowedError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.http.api import headers
from durable_sessions.http.api.auth import Authenticator, Caller, Role
from durable_sessions.http.api.deletions import deletion
from durable_sessions.http.api.errors import error_response
from durable_sessions.http.api.lifetime_headers import CLOSED, lifetime_headers
from durable_sessions.http.api.offset_lines import OFFSET_LINE
from durable_sessions.http.api.parse_threads import BodyParser, is_large
from durable_sessions.http.api.reads import Reads
from durable_sessions.http.api.route_table import ROUTES, Handler
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.session_streams import SessionStreams, is_session
from durable_sessions.http.carrier.message import (
    Answer,
    Header,
    Later,
    Request,
    Response,
    StreamingResponse,
)
from durable_sessions.http.openapi.answer_headers import (
    LOCATION,
    PRODUCER_EPOCH,
    PRODUCER_SEQ,
    STREAM_NEXT_OFFSET,
)
from durable_sessions.http.paths import stream_key
from durable_sessions.limits import Limits
from durable_sessions.storage.door import Streams, Told
from durable_sessions.streams import append, content, messages, offsets
from durable_sessions.streams.append import Append, AppendResult
from durable_sessions.streams.create import Created
from durable_sessions.streams.effects import RecordsAppended
from durable_sessions.streams.messages import Payload
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.stream import Key

_RESOURCE = ROUTES.at("/v1/stream/{path}")
ALLOW = _RESOURCE.allow or ""


class StreamsFace:
    """Answers the protocol's requests; hot paths are dispatched first."""

    def __init__(
        self,
        streams: Streams,
        sessions: SessionStreams,
        reads: Reads,
        auth: Authenticator,
        limits: Limits,
        public_url: str,
        audit: Audit,
        parser: BodyParser,
    ) -> None:
        self._parser = parser
        self._audit = audit
        self._sessions = sessions
        self._streams = streams
        self._auth = auth
        self._reads = reads
        self._limits = limits
        self._public_url = public_url

    def handle(self, request: Request, caller: Caller) -> Answer | Awaitable[Answer]:
        """Answer a request below the stream root."""
        try:
            role, handler = self._methods[request.method]
        except KeyError:
            raise MethodNotAllowedError(allow=ALLOW) from None
        if role is not None:
            caller.require(role)
        return handler(self, request, caller)

    def _append(self, request: Request, caller: Caller) -> Answer | Awaitable[Answer]:
        key = stream_key(caller.workspace, request.path)
        if self._sessions.holds(key):
            return self._append_to_session(request, caller, key)
        terms = headers.parse_append(request, self._limits)
        if is_large(request.body):
            return self._append_large(key, terms)
        return Later(self._streams.append(key, terms), _appended if request.body else _closed)

    def take(
        self, workspace: str, path: bytes, content_type: str | None, body: bytes, waiting: Told[bytes]
    ) -> bool:
        """Take a plain append to a stream, and tell ``waiting`` when it is durable."""
        key = _key_of_plain(workspace, path)
        if key is None:
            return False
        limits = self._limits

        def decide(stream: StreamRecord, now_ms: int) -> tuple[RecordsAppended, bytes] | None:
            effect = append.plain(stream, content_type, body, now_ms, limits)
            return None if effect is None else (effect, OFFSET_LINE % effect.next)

        return self._streams.append_told(key, len(body), decide, waiting)

    async def _append_large(self, key: Key, terms: Append) -> Answer:
        try:
            terms.parsed = await self._parsed(terms.body, terms.content_type)
            return _acknowledgement(await self._streams.append(key, terms), with_data=True)
        except DurableSessionsError as error:
            return error_response(error)

    async def _parsed(self, body: bytes, content_type: str | None) -> Payload | DurableSessionsError | None:
        """Parse a large body before anything is decided; its errors are reported in the usual order."""
        if content_type is not None and not content.is_json(content_type):
            return None
        return await self._parser.parsed(body, messages.attempt, body, self._limits)

    async def _append_to_session(self, request: Request, caller: Caller, key: Key) -> Answer:
        try:
            result, life = await self._sessions.append(request, caller, key)
        except DurableSessionsError as error:
            return error_response(error)
        answer = _acknowledgement(result, with_data=bool(request.body))
        answer.headers.append(incarnations.header(life))
        return answer

    def _read(self, request: Request, caller: Caller) -> Answer | Awaitable[Answer]:
        try:
            key = stream_key(caller.workspace, request.path)
            life = self._sessions.life(key, request)
            answer = self._reads.answer(key, request, caller)
        except (StreamNotFoundError, StreamGoneError) as error:
            return self._refuse(self._missing(key, error))
        if life is not None:
            answer = incarnations.with_header(answer, life)
        if isinstance(answer, StreamingResponse):
            answer.chunks = self._auth.while_valid(caller, answer.chunks)
        return answer if isinstance(answer, Answer) else self._guard(answer, caller)

    def _head(self, request: Request, caller: Caller) -> Answer | Awaitable[Answer]:
        key = stream_key(caller.workspace, request.path)
        try:
            durable = self._streams.find(key)
        except (StreamNotFoundError, StreamGoneError) as error:
            return self._refuse(self._missing(key, error))
        stream = durable.stream
        fields: list[Header] = [
            (b"Content-Type", stream.content_type.encode("latin-1")),
            (STREAM_NEXT_OFFSET, offsets.encode(durable.tail).encode()),
            (b"Cache-Control", b"no-store"),
            *lifetime_headers(durable),
        ]
        if self._sessions.holds(stream.key):
            fields.append(incarnations.of(durable))
        return Response(200, fields)

    async def _create(self, request: Request, caller: Caller) -> Answer:
        try:
            key = stream_key(caller.workspace, request.path)
            life = None
            if self._sessions.holds(key):
                created, life = await self._sessions.create(request, caller, key)
            else:
                created = await self._create_stream(request, key)
        except DurableSessionsError as error:
            return error_response(error)
        fields: list[Header] = [
            (b"Content-Type", created.content_type.encode("latin-1")),
            (STREAM_NEXT_OFFSET, offsets.encode(created.tail).encode()),
        ]
        if created.closed:
            fields.append(CLOSED)
        if life is not None:
            fields.append(incarnations.header(life))
        if created.new:
            base = headers.base_url(request, self._public_url).encode("latin-1")
            fields.append((LOCATION, base + request.path))
        return Response(201 if created.new else 200, fields)

    async def _create_stream(self, request: Request, key: Key) -> Created:
        wanted = headers.parse_create(request, self._limits)
        if is_large(request.body):
            found = await self._parsed(wanted.body, wanted.content_type)
            wanted = replace(wanted, parsed=found)
        fork = wanted.fork
        anchor_end = await self._streams.anchor_end(key, fork) if fork and fork.beyond else None
        return await self._streams.create(key, wanted, anchor_end)

    async def _delete(self, request: Request, caller: Caller) -> Answer:
        try:
            key = stream_key(caller.workspace, request.path)
            act = self._audit.beside(deletion(caller, request, "stream", key.path))
            if self._sessions.holds(key):
                await self._sessions.delete(request, caller, key, act)
            else:
                await self._streams.delete(key, act)
        except DurableSessionsError as error:
            return error_response(error)
        act.log()
        return Response(204, [])

    def _missing(self, key: Key, error: DurableSessionsError) -> DurableSessionsError:
        """Return the refusal of a read: a session that is kept for its forks is missing, its id is free."""
        if isinstance(error, StreamGoneError) and self._sessions.holds(key):
            return StreamNotFoundError(path=key.path)
        return error

    async def _refuse(self, error: DurableSessionsError) -> Answer:
        """Answer a refused read once the state that it rests on is durable."""
        try:
            await self._streams.settled()
        except DurableSessionsError as failure:
            return error_response(failure)
        return error_response(error)

    async def _guard(self, answer: Awaitable[Answer], caller: Caller) -> Answer:
        """Answer a read that has to wait, during which the key may be revoked."""
        try:
            answered = await self._auth.waiting(caller, answer)
            await self._auth.require_valid(caller)
            return answered
        except DurableSessionsError as error:
            return error_response(error)

    # Every path below the stream root is one resource, so an append finds its handler in one look-up: the
    # walk through the segments of its path, which the route table makes elsewhere, would find the same.
    _methods: ClassVar[dict[bytes, tuple[Role | None, Handler]]] = _RESOURCE.bind(
        ROUTES.complete(
            {
                "createStream": _create,
                "appendToStream": _append,
                "readStream": _read,
                "headStream": _head,
                "deleteStream": _delete,
            },
            "Streams",
        )
    )


@lru_cache(maxsize=4096)
def _key_of_plain(workspace: str, path: bytes) -> Key | None:
    """Return the key of the stream at a path, None if none can have it or it is that of a session."""
    try:
        key = stream_key(workspace, path)
    except InvalidPathError:
        return None
    return None if is_session(key) else key


def _appended(future: "asyncio.Future[AppendResult]") -> Response:
    """Answer an append with data when it is durable, or refused."""
    return _acknowledged(future, with_data=True)


def _closed(future: "asyncio.Future[AppendResult]") -> Response:
    """Answer an append without data, which closes a stream."""
    return _acknowledged(future, with_data=False)


def _acknowledged(future: "asyncio.Future[AppendResult]", *, with_data: bool) -> Response:
    refused = future.exception()  # not raised: its traceback would make a cycle with the future
    if isinstance(refused, DurableSessionsError):
        return error_response(refused)
    return _acknowledgement(future.result(), with_data=with_data)


def _acknowledgement(result: AppendResult, *, with_data: bool) -> Response:
    fields: list[Header] = [(STREAM_NEXT_OFFSET, offsets.encode(result.tail).encode())]
    if result.closed:
        fields.append(CLOSED)
    producer = result.producer
    if producer is None:
        return Response(204, fields)
    fields += [(PRODUCER_EPOCH, b"%d" % producer.epoch), (PRODUCER_SEQ, b"%d" % producer.seq)]
    return Response(204 if result.duplicate or not with_data else 200, fields)
