"""Appending and reading events over HTTP."""

import asyncio
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial

from durable_sessions.access.caller import Caller, Role
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    DurableSessionsError,
    InvalidEventError,
    InvalidHeaderError,
    InvalidRequestError,
)
from durable_sessions.http.api import headers
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.followers import Followers
from durable_sessions.http.api.lifetime_headers import CLOSED, lifetime_headers
from durable_sessions.http.api.live_readers import LiveReaders
from durable_sessions.http.api.parse_threads import BodyParser, is_large
from durable_sessions.http.api.reads import Reads
from durable_sessions.http.api.sessions import event_indexes, incarnations
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.api.sessions.errors import refusal_to
from durable_sessions.http.api.sessions.event_stream import SessionFraming
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.searches import Searches
from durable_sessions.http.api.sse import FIELDS
from durable_sessions.http.carrier.message import Answer, Header, Later, Request, Response, StreamingResponse
from durable_sessions.http.openapi import events as described
from durable_sessions.http.openapi.answer_headers import (
    IDEMPOTENT_REPLAYED,
    PRODUCER_EPOCH,
    PRODUCER_SEQ,
    STREAM_NEXT_OFFSET,
    STREAM_UP_TO_DATE,
)
from durable_sessions.http.openapi.common import LIVE
from durable_sessions.http.openapi.request_headers import ACCEPT, IDEMPOTENCY_KEY, LAST_EVENT_ID, PREFER
from durable_sessions.limits import Limits
from durable_sessions.managed_agents import event_types
from durable_sessions.sessions import drafts, event_ids, pairs, threads
from durable_sessions.sessions.append import Batch, Stored
from durable_sessions.sessions.reading import EventPage
from durable_sessions.sessions.selection import EVERYTHING, Selection
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView
from durable_sessions.streams import offsets
from durable_sessions.streams.stream import Key

_PREFER = PREFER.key
_LAST_EVENT_ID = LAST_EVENT_ID.key
_IDEMPOTENCY_KEY = IDEMPOTENCY_KEY.key
_ACCEPT = ACCEPT.key
JSON: Header = (b"Content-Type", b"application/json")
_NDJSON: Header = (b"Content-Type", b"application/x-ndjson")
_NO_STORE: Header = (b"Cache-Control", b"no-store")
_UP_TO_DATE: Header = (STREAM_UP_TO_DATE, b"true")
_PAGE = re.compile(r"(asc|desc)-([0-9]{1,15})(?:-([0-9]{1,15}))?", re.ASCII)


@dataclass(slots=True)
class Range:
    """Which events a read is for: between two positions, in either order, at most ``limit``.

    ``ends`` says that ``stop`` is the end even if there are more events after it.
    """

    start: int
    stop: int
    limit: int
    backwards: bool = False
    ends: bool = False

    def page(self, position: int) -> str:
        """Return the token of the next page, which begins at a position and ends where this range does."""
        if self.backwards:
            return f"desc-{position}-{self.start}" if self.start else f"desc-{position}"
        return f"asc-{position}-{self.stop}" if self.ends else f"asc-{position}"


class Events:
    """Answers requests for the events of a session."""

    def __init__(
        self,
        sessions: Sessions,
        searches: Searches,
        reads: Reads,
        followers: Followers,
        clock: Clock,
        readers: LiveReaders,
        auth: Authenticator,
        limits: Limits,
        parser: BodyParser,
    ) -> None:
        self._parser = parser
        self._sessions = sessions
        self._searches = searches
        self._reads = reads
        self._followers = followers
        self._clock = clock
        self._readers = readers
        self._auth = auth
        self._limits = limits
        self._asked = described.EventRange(limits)

    # Appending --------------------------------------------------------------------------

    def append(self, request: Request, caller: Caller, key: Key) -> Later[Stored] | Awaitable[Response]:
        """Append events durably; 204, or 200 with the events as stored."""
        if is_large(request.body):
            return self._append_large(request, caller, key)
        return self._append(request, key, self._batch(request, caller, strict=is_strict(request)))

    async def _append_large(self, request: Request, caller: Caller, key: Key) -> Response:
        strict = is_strict(request)
        batch = await self._parser.parsed(request.body, self._batch, request, caller, strict=strict)
        return await self._append(request, key, batch)

    def _append(self, request: Request, key: Key, batch: Batch) -> Later[Stored] | Awaitable[Response]:
        strict = is_strict(request)
        shown = strict or b"return=representation" in request.headers.get(_PREFER, b"")
        if shown or any(draft.id is not None for draft in batch.drafts):
            appended = self._sessions.append_named(key, batch, len(request.body))
            return self._answer_with_events(appended, key, strict=strict, shown=shown)
        later = self._sessions.append(key, batch, len(request.body))
        return Later(later, partial(self._acknowledged, request.id, key))

    async def _answer_with_events(
        self, appended: Awaitable[Stored], key: Key, *, strict: bool, shown: bool
    ) -> Response:
        """Answer an append, with the stored events if asked to and if a producer's repeat knows them."""
        stored = await appended
        acknowledgement = _acknowledgement(stored, self._limits)
        if not shown or (stored.duplicate and not stored.events and not strict):
            return acknowledgement
        events = await self._sessions.events.stored(self._sessions.find(key, stored.life), stored.events)
        body = b"".join((b'{"data":[', b",".join(events), b"]}"))
        return Response(200, [JSON, *acknowledgement.headers], body)

    def _acknowledged(self, request_id: bytes, key: Key, future: "asyncio.Future[Stored]") -> Response:
        """Answer an append when it is durable, or refused."""
        refused = future.exception()  # not raised: its traceback would make a cycle with the future
        if isinstance(refused, DurableSessionsError):
            return refusal_to(refused, request_id, self._sessions.life(key))
        return _acknowledgement(future.result(), self._limits)

    def _batch(self, request: Request, caller: Caller, *, strict: bool) -> Batch:
        body = request.body
        terms = headers.parse_append(request, self._limits)
        events: list[drafts.Draft] = []
        if body:
            events = drafts.parse(body, self._limits, wrapped_only=strict)
        elif not terms.close:
            raise InvalidEventError(problem=drafts.NO_EVENT)
        if strict:
            event_types.check(events)
        if terms.incarnation is None:
            terms.incarnation = incarnations.asked(request)
        key = _idempotency_key(request, self._limits)
        check = 0 if key is None else event_ids.body_check(body)
        return Batch(events, caller.principal, terms, key, check, creates=not strict)

    # Reading ----------------------------------------------------------------------------

    def read(self, request: Request, caller: Caller, key: Key) -> Answer | Awaitable[Answer]:
        """Answer a read, synchronously if it neither waits nor needs the disk."""
        parameters = Parameters(request)
        durable = self._sessions.find(key, incarnations.asked(request))
        self._sessions.streams.touch(durable)
        if "window" in parameters and "around" not in parameters and not is_strict(request):
            raise InvalidRequestError(problem="window goes with around; send around=<position> as well.")
        live = parameters.word(LIVE)
        if "q" in parameters:
            return self._search(caller, parameters, durable)
        if live:
            return self._live(request, caller, key, durable, parameters, live)
        asked = self._range(durable, parameters)
        selection = parameters.selection()
        # The cheapest way that can give the answer: only a plain page of recent events is answered without
        # waiting for anything.
        if parameters.word(described.PAIRS):
            return self._with_pairs(request, caller, durable, asked, selection)
        if selection.everything and not asked.backwards and not _wants_lines(request):
            page = self._sessions.events.hot_page(durable, asked.start, asked.stop, asked.limit)
            if page is not None:
                return _answer(request, durable, asked, page)
        return self._read(request, caller, durable, asked, selection)

    async def _search(self, caller: Caller, parameters: Parameters, durable: StreamView) -> Response:
        for other in ("live", "pairs"):
            if other in parameters:
                raise InvalidRequestError(
                    problem=f"q and {other} do not go together; search first, then read around a hit."
                )
        asked = self._range(durable, parameters, searched=True)
        found = await self._searches.within(caller, durable, asked.start, asked.stop, parameters)
        found.headers = [*found.headers, incarnations.of(durable)]
        return found

    async def _read(
        self, request: Request, caller: Caller, durable: StreamView, asked: Range, selection: Selection
    ) -> Response:
        apart = _wants_lines(request)
        if selection.everything and not asked.backwards and not apart:
            page = await self._page(durable, asked, selection)
        else:
            async with self._sessions.scans.admitted(caller.key_id):
                page = await self._page(durable, asked, selection, apart=apart)
        return _answer(request, durable, asked, page)

    async def _page(
        self, durable: StreamView, asked: Range, selection: Selection, *, apart: bool = False
    ) -> EventPage:
        return await self._sessions.events.page(
            durable, asked.start, asked.stop, asked.limit, selection, backwards=asked.backwards, apart=apart
        )

    async def _with_pairs(
        self, request: Request, caller: Caller, durable: StreamView, asked: Range, selection: Selection
    ) -> Response:
        async with self._sessions.scans.admitted(caller.key_id):
            page = await self._page(durable, asked, selection, apart=True)
            positions = page.positions or range(page.first, page.first + page.count)
            events = zip(positions, page.events(), strict=True)
            complete = await pairs.complete(self._sessions.events, durable, events)
        if asked.backwards:
            complete.reverse()  # pairs are completed in the order of positions
        page.apart = [event for _, event in complete]
        page.pieces, page.count = [b",".join(page.apart)], len(complete)
        return _answer(request, durable, asked, page)

    def _live(
        self,
        request: Request,
        caller: Caller,
        key: Key,
        durable: StreamView,
        parameters: Parameters,
        live: str,
    ) -> Answer | Awaitable[Answer]:
        if "offset" not in parameters:
            raise InvalidRequestError(
                problem="A live read needs an offset; send offset=-1, now or a saved one."
            )
        if not parameters.selection().everything:
            raise InvalidRequestError(
                problem="A live read cannot be filtered; use /events/stream?offset=… with types[] instead."
            )
        position = _offset(parameters, durable)
        if live == "sse":
            answer = self._reads.follow(durable, position, parameters.text("cursor"), caller)
            answer.chunks = self._auth.while_valid(caller, answer.chunks)
            answer.headers.append(incarnations.of(durable))
            return answer
        return self._long_poll(request, caller, key, durable, position)

    async def _long_poll(
        self, request: Request, caller: Caller, key: Key, durable: StreamView, position: int
    ) -> Response:
        await self._auth.waiting(caller, self._reads.wait(key, durable, position, caller))
        self._auth.require_valid(caller)  # the key may have been revoked or have expired meanwhile
        asked = Range(position, durable.tail, self._limits.page_events_max)
        if position >= durable.tail:
            fields = [
                (STREAM_NEXT_OFFSET, offsets.encode(position).encode()),
                _UP_TO_DATE,
                _NO_STORE,
                incarnations.of(durable),
            ]
            return Response(204, [*fields, CLOSED] if durable.closed else fields)
        return await self._read(request, caller, durable, asked, EVERYTHING)

    def _range(self, durable: StreamView, parameters: Parameters, *, searched: bool = False) -> Range:
        """Return the requested range; several kinds of positions cannot be combined."""
        limit = 0 if searched else parameters.whole(self._asked.limit)
        backwards = not searched and parameters.choice("order", "asc", described.ORDERS) == "desc"
        end = durable.tail
        if "page" in parameters and not searched:  # clients send the first page's parameters with it
            return _paged(parameters, end, limit, backwards)
        given = [name for name in ("offset", "from", "tail", "around") if name in parameters]
        if len(given) > 1:
            raise InvalidRequestError(problem=f"Send one of {' and '.join(given)}, not both.")
        if "tail" in parameters:
            count = parameters.whole(self._asked.tail)
            return Range(max(0, end - count), end, max(count, 1), backwards)
        if "around" in parameters:
            middle = parameters.whole(self._asked.around)
            window = parameters.whole(self._asked.window)
            stop = min(end, middle + window + 1)
            return Range(min(max(0, middle - window), stop), stop, 2 * window + 1, backwards, ends=True)
        if "from" in parameters:
            start = parameters.whole(self._asked.start)
            _require_within(str(start), start, durable)
            return Range(start, end, limit, backwards)
        return Range(_offset(parameters, durable), end, limit, backwards)

    async def one(self, request: Request, caller: Caller, key: Key, event: str) -> Response:
        """Answer with one event."""
        durable = self._sessions.find(key, incarnations.asked(request))
        _, stored = await self._sessions.events.by_id(durable, event)
        return Response(200, [JSON, _NO_STORE, incarnations.of(durable)], stored)

    def head(self, request: Request, caller: Caller, key: Key) -> Response:
        """Answer with the offset and state that a client needs to continue, without a body."""
        durable = self._sessions.find(key, incarnations.asked(request))
        fields: list[Header] = [
            JSON,
            (STREAM_NEXT_OFFSET, offsets.encode(durable.tail).encode()),
            _NO_STORE,
            incarnations.of(durable),
            *lifetime_headers(durable),
        ]
        return Response(200, fields)

    async def stream(
        self, request: Request, caller: Caller, key: Key, thread: str | None = None
    ) -> StreamingResponse:
        """Follow a session as in Anthropic's API: from now on, or from a given offset."""
        caller.require(Role.READER)
        parameters = Parameters(request)
        durable = self._sessions.find(key, incarnations.asked(request))
        position = durable.tail
        last = request.headers.get(_LAST_EVENT_ID)
        if last:  # a client that reconnects repeats the offset of its first request as well
            position = (await self._sessions.events.by_id(durable, last.decode(errors="replace")))[0] + 1
        elif "offset" in parameters:
            position = _offset(parameters, durable)
        for kind in parameters.texts("event_deltas"):
            if kind not in described.DELTAS:
                raise InvalidRequestError(problem=f"event_deltas[] takes {' and '.join(described.DELTAS)}.")
        selection = parameters.selection()
        if thread is not None:
            selection = of_thread(durable, thread)
        framing = SessionFraming(self._clock, selection)
        chunks = self._readers.following(caller, self._followers.follow(durable, position, framing))
        fields = [*FIELDS, incarnations.of(durable)]
        return StreamingResponse(200, fields, self._auth.while_valid(caller, chunks))

    async def of_thread(self, request: Request, caller: Caller, key: Key, thread: str) -> Response:
        """Answer with a page of one thread's events."""
        parameters = Parameters(request)
        durable = self._sessions.find(key, incarnations.asked(request))
        asked = self._range(durable, parameters)
        return await self._read(request, caller, durable, asked, of_thread(durable, thread))


def _acknowledgement(stored: Stored, limits: Limits) -> Response:
    fields: list[Header] = [
        (STREAM_NEXT_OFFSET, offsets.encode(stored.tail).encode()),
        incarnations.header(stored.life),
    ]
    if stored.repeats.repeated:
        fields += event_indexes.of(stored.repeats, limits)
    if stored.closed:
        fields.append(CLOSED)
    if stored.duplicate:
        fields.append((IDEMPOTENT_REPLAYED, b"true"))
    if stored.producer is not None:
        fields.append((PRODUCER_EPOCH, b"%d" % stored.producer.epoch))
        fields.append((PRODUCER_SEQ, b"%d" % stored.producer.seq))
    return Response(204, fields)


def of_thread(durable: StreamView, thread: str) -> Selection:
    """Return what selects the events of a thread."""
    return Selection(thread=thread, primary=thread == threads.primary(session_of(durable.stream.key)))


def _idempotency_key(request: Request, limits: Limits) -> str | None:
    value = request.headers.get(_IDEMPOTENCY_KEY)
    if value is None:
        return None
    if not value or len(value) > limits.idempotency_key_max:
        raise InvalidHeaderError(
            header="Idempotency-Key", problem=f"send 1 to {limits.idempotency_key_max} bytes"
        )
    return value.decode("latin-1")


def _offset(parameters: Parameters, durable: StreamView) -> int:
    value = parameters.text("offset")
    if value is None or value == "-1":
        return 0
    if value == "now":
        return durable.tail
    position = offsets.decode(value)
    _require_within(value, position, durable)
    return position


def _require_within(given: str, position: int, durable: StreamView) -> None:
    """Refuse a position beyond the end of the session: its reader has seen events that are lost."""
    if position > durable.tail:
        raise InvalidRequestError(
            problem=f"{given} lies beyond the end of the session, {offsets.encode(durable.tail)}, "
            f"which is position {durable.tail}."
        )


def _paged(parameters: Parameters, end: int, limit: int, backwards: bool) -> Range:
    match = _PAGE.fullmatch(parameters.text("page") or "")
    if match is None:
        raise InvalidRequestError(problem="page is not one that this server gave; send next_page as it came.")
    order, position, bound = match[1], min(int(match[2]), end), match[3]
    if "order" in parameters and (order == "desc") != backwards:
        raise InvalidRequestError(problem=f"The page was made with order={order}; send the same order.")
    if order == "desc":
        return Range(min(int(bound or 0), position), position, limit, backwards=True)
    if bound is None:
        return Range(position, end, limit)
    return Range(position, max(position, min(int(bound), end)), limit, ends=True)


def _wants_lines(request: Request) -> bool:
    return b"application/x-ndjson" in request.headers.get(_ACCEPT, b"")


def _answer(request: Request, durable: StreamView, asked: Range, page: EventPage) -> Response:
    at = durable.tail if asked.backwards else page.next
    up_to_date = at == durable.tail
    offset = offsets.encode(at).encode()
    life = incarnations.of(durable)
    fields: list[Header] = [(STREAM_NEXT_OFFSET, offset), _NO_STORE, life]
    if up_to_date:
        fields.append(_UP_TO_DATE)
        if durable.closed:
            fields.append(CLOSED)
    if _wants_lines(request):
        events = page.events()
        body = b"".join([event.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n" for event in events])
        return Response(200, [_NDJSON, *fields], body)
    following = b'"%b"' % asked.page(page.next).encode() if page.more else b"null"
    end = b'],"next_page":%b,"next_offset":"%b","up_to_date":%b,"incarnation":"%b"}' % (
        following,
        offset,
        b"true" if up_to_date else b"false",
        life[1],
    )
    # Joined, not formatted: formatting a large body takes thirty times as long as copying it.
    return Response(200, [JSON, *fields], b"".join((b'{"data":[', *page.pieces, end)))
