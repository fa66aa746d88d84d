"""Reads over HTTP: catch-up and long-poll."""

import asyncio
from collections.abc import Awaitable

from durable_sessions.access.caller import Caller
from durable_sessions.errors import (
    InvalidRequestError,
    OffsetBeyondTailError,
    StreamNotFoundError,
)
from durable_sessions.http.api import headers, query, sse
from durable_sessions.http.api.cursor import Cursors
from durable_sessions.http.api.followers import Followers
from durable_sessions.http.api.lifetime_headers import CLOSED
from durable_sessions.http.api.live_readers import LiveReaders
from durable_sessions.http.api.read_throttle import ReadThrottle
from durable_sessions.http.carrier.message import Answer, Header, Request, Response, StreamingResponse
from durable_sessions.http.openapi.answer_headers import (
    ETAG,
    STREAM_CURSOR,
    STREAM_NEXT_OFFSET,
    STREAM_SSE_DATA_ENCODING,
    STREAM_UP_TO_DATE,
)
from durable_sessions.http.openapi.common import LIVE
from durable_sessions.http.openapi.request_headers import IF_NONE_MATCH, STREAM_ENVELOPE
from durable_sessions.limits import Limits
from durable_sessions.sessions import envelopes
from durable_sessions.sessions.record import FOLDER
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.streams import offsets
from durable_sessions.streams.messages import json_array
from durable_sessions.streams.stream import Key

_IF_NONE_MATCH = IF_NONE_MATCH.key
_ENVELOPE = STREAM_ENVELOPE.key
_LIVE = tuple(LIVE.schema["enum"])
_SEND_LIVE = " or ".join(f"live={one}" for one in _LIVE)
_CACHEABLE = (b"Cache-Control", b"private, max-age=60, stale-while-revalidate=300")
_CHECKED = (b"Cache-Control", b"private, no-cache")
"""For sessions, of which events may be erased: a cache must ask whether its copy still holds."""
_NO_STORE = (b"Cache-Control", b"no-store")
_VARY = (b"Vary", STREAM_ENVELOPE.name.encode())
_UP_TO_DATE = (STREAM_UP_TO_DATE, b"true")


class Reads:
    """Answers GET requests on streams."""

    def __init__(
        self,
        streams: Streams,
        followers: Followers,
        cursors: Cursors,
        limits: Limits,
        throttle: ReadThrottle,
        readers: LiveReaders,
        long_poll_seconds: float,
    ) -> None:
        self._streams = streams
        self._followers = followers
        self._cursors = cursors
        self._limits = limits
        self._throttle = throttle
        self._readers = readers
        self._long_poll_seconds = long_poll_seconds

    def answer(self, key: Key, request: Request, caller: Caller) -> Answer | Awaitable[Answer]:
        """Answer a read, synchronously if it neither waits nor needs the disk."""
        parameters = query.parse(request.query) if request.query else {}
        offset, live = parameters.get(b"offset"), parameters.get(b"live")
        start = None if offset is None or offset in ("-1", "now") else offsets.decode(offset)
        if live is not None:
            if live not in _LIVE:
                raise InvalidRequestError(problem=f"live={live[:40]} is not known; send {_SEND_LIVE}.")
            if offset is None:
                raise InvalidRequestError(
                    problem="A live read needs an offset; send offset=-1, now or a saved one."
                )
        durable = self._streams.find(key)
        self._streams.touch(durable)
        position = durable.tail if offset == "now" else start or 0
        if position > durable.tail:
            raise OffsetBeyondTailError(what="The offset", offset=offset, tail=offsets.encode(durable.tail))
        known = request.headers.get(_IF_NONE_MATCH)
        kind = self._envelope(durable, request, parameters.get(b"envelope"))
        if live is None:
            if offset == "now":
                return self._at_tail(durable)
            return self._catch_up(durable, position, known, kind)
        cursor = parameters.get(b"cursor")
        if live == "sse":
            return self.follow(durable, position, cursor, caller, kind=kind)
        return self._long_poll(key, durable, position, cursor, known, caller, kind)

    def _at_tail(self, durable: StreamView) -> Response:
        fields = [_content_type(durable), _next_offset(durable.tail), _UP_TO_DATE, _NO_STORE]
        if durable.closed:
            fields.append(CLOSED)
        return Response(200, fields, b"[]" if durable.stream.is_json else b"")

    def _envelope(self, durable: StreamView, request: Request, given: str | None) -> str | None:
        """Return the type of the events whose messages are read; only sessions have such events."""
        if durable.stream.key.folder != FOLDER:
            return None
        header = request.headers.get(_ENVELOPE)
        return envelopes.asked(header if given is None else given.encode("latin-1"))

    def _catch_up(
        self, durable: StreamView, position: int, known: bytes | None, kind: str | None
    ) -> Answer | Awaitable[Answer]:
        # Most reads are of memory and answered at once, without a task.
        if not self._throttle.full:
            found = self._streams.read_hot(durable, position, self._limits.read_chunk_bytes_max)
            if found is not None:
                return self._records(durable, position, *found, known, kind)
        return self._catch_up_later(durable, position, known, kind)

    async def _catch_up_later(
        self, durable: StreamView, position: int, known: bytes | None, kind: str | None
    ) -> Response:
        await self._throttle.room()
        found = await self._streams.read_pieces(durable, position, self._limits.read_chunk_bytes_max)
        return self._records(durable, position, *found, known, kind)

    def _records(
        self,
        durable: StreamView,
        first: int,
        pieces: list[memoryview],
        following: int,
        known: bytes | None,
        kind: str | None,
    ) -> Response:
        """Answer with records from ``first`` on, or 304 if the client has them already."""
        self._throttle.count(sum(map(len, pieces)))
        up_to_date = following == durable.tail
        closed = up_to_date and durable.closed
        # The tag changes with everything the answer says: the stream (another may have had this path), the
        # range, what was erased, and whether it reaches the end or the close.
        marks = ":c" if closed else ":t" if up_to_date else ""
        if erasures := self._streams.erasures(durable):
            marks += f":e{erasures}"
        if kind is not None:
            marks += f":{kind}"
        etag = f'"{durable.stream.id}:{first}:{following}{marks}"'
        fields: list[Header] = [
            _content_type(durable),
            _next_offset(following),
            (ETAG, etag.encode()),
            _CHECKED if durable.stream.key.folder == FOLDER else _CACHEABLE,
        ]
        if durable.stream.key.folder == FOLDER:
            fields.append(_VARY)
        if up_to_date:
            fields.append(_UP_TO_DATE)
        if closed:
            fields.append(CLOSED)
        if known is not None and headers.matches_etag(known, etag):
            return Response(304, fields)
        if kind is not None:
            return Response(200, fields, envelopes.unwrapped(pieces, kind))
        return Response(200, fields, json_array(pieces) if durable.stream.is_json else b"".join(pieces))

    def follow(
        self,
        durable: StreamView,
        position: int,
        cursor: str | None,
        caller: Caller,
        *,
        has_position: bool = False,
        kind: str | None = None,
    ) -> StreamingResponse:
        """Answer with the protocol's event stream from a position on."""
        fields = [*sse.FIELDS]
        if sse.is_base64(durable):
            fields.append((STREAM_SSE_DATA_ENCODING, b"base64"))
        if kind is None:
            framing = sse.StreamFraming(self._cursors, cursor, self._limits, has_position=has_position)
        else:
            framing = sse.EnvelopeFraming(self._cursors, cursor, self._limits, kind)
        chunks = self._readers.following(caller, self._followers.follow(durable, position, framing))
        return StreamingResponse(200, fields, chunks)

    async def _long_poll(
        self,
        key: Key,
        durable: StreamView,
        position: int,
        cursor: str | None,
        known: bytes | None,
        caller: Caller,
        kind: str | None,
    ) -> Answer:
        """Answer when there are records; the request and its headers are not kept in memory while waiting."""
        await self.wait(key, durable, position, caller)
        stamp = (STREAM_CURSOR, b"%d" % self._cursors.after(cursor))
        if position < durable.tail:
            answer = await self._catch_up_later(durable, position, known, kind)
            answer.headers.append(stamp)
            return answer
        fields = [_next_offset(durable.tail), _UP_TO_DATE, _NO_STORE, CLOSED if durable.closed else stamp]
        return Response(204, fields)

    async def wait(self, key: Key, durable: StreamView, position: int, caller: Caller) -> None:
        """Wait until there are records, the stream has ended, or the long-poll times out."""
        with self._readers.waiting(caller):
            await self._wait(key, durable, position)

    async def _wait(self, key: Key, durable: StreamView, position: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._long_poll_seconds
        while position >= durable.tail and not durable.closed and not self._followers.draining:
            if durable.removed:
                self._streams.find(key)  # raises "gone" if its records are kept for forks
                raise StreamNotFoundError(path=key.path)  # a new stream at the same path is another stream
            waiter = self._streams.wait(durable)
            timer = loop.call_at(deadline, _end, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                waiter.cancel()
            # A partition that is fenced wakes all readers, who must not be told that there is nothing new.
            self._streams.require_writer()
            if loop.time() >= deadline:
                return


def _end(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


def _content_type(durable: StreamView) -> Header:
    return b"Content-Type", durable.stream.content_type.encode("latin-1")


def _next_offset(position: int) -> Header:
    return STREAM_NEXT_OFFSET, offsets.encode(position).encode()
