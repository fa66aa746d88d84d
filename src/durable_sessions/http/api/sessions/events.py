"""Reading and following the events of a session over HTTP."""

from collections.abc import Awaitable

import msgspec

from durable_sessions.access.caller import Caller, Role
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    InvalidRequestError,
)
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.followers import Followers
from durable_sessions.http.api.lifetime_headers import CLOSED, lifetime_headers
from durable_sessions.http.api.live_readers import LiveReaders
from durable_sessions.http.api.reads import Reads
from durable_sessions.http.api.sessions import event_ranges, incarnations
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.api.sessions.event_ranges import EventRanges, Range
from durable_sessions.http.api.sessions.event_stream import SessionFraming
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.searches import Searches
from durable_sessions.http.api.sse import FIELDS
from durable_sessions.http.carrier.message import Answer, Header, Request, Response, StreamingResponse
from durable_sessions.http.openapi import events as described
from durable_sessions.http.openapi.answer_headers import (
    EVENT_POSITION,
    STREAM_NEXT_OFFSET,
    STREAM_UP_TO_DATE,
)
from durable_sessions.http.openapi.common import LIVE
from durable_sessions.http.openapi.request_headers import (
    ACCEPT,
    LAST_EVENT_ID,
)
from durable_sessions.http.openapi.search import FIELDS as SEARCHED_FIELDS
from durable_sessions.limits import Limits
from durable_sessions.sessions import clipping, event_lenses, threads, tool_pairs
from durable_sessions.sessions.reading import EventPage
from durable_sessions.sessions.selection import EVERYTHING, Selection
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView
from durable_sessions.streams import offsets
from durable_sessions.streams.stream import Key
from durable_sessions.threads import CPU

_LAST_EVENT_ID = LAST_EVENT_ID.key
_ACCEPT = ACCEPT.key
JSON: Header = (b"Content-Type", b"application/json")
_NDJSON: Header = (b"Content-Type", b"application/x-ndjson")
_NO_STORE: Header = (b"Cache-Control", b"no-store")
_UP_TO_DATE: Header = (STREAM_UP_TO_DATE, b"true")


class Events:
    """Answers reads of the events of a session."""

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
    ) -> None:
        self._sessions = sessions
        self._searches = searches
        self._reads = reads
        self._followers = followers
        self._clock = clock
        self._readers = readers
        self._auth = auth
        self._limits = limits
        self._ranges = EventRanges(sessions.events, limits)

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
        if parameters.word(SEARCHED_FIELDS):
            raise InvalidRequestError(problem="fields=positions goes with q; send q=<words> as well.")
        if event_ranges.event_around(parameters) is not None:
            return self._read_around(request, caller, parameters, durable)
        return self._read_range(request, caller, parameters, durable, self._ranges.of(durable, parameters))

    async def _read_around(
        self, request: Request, caller: Caller, parameters: Parameters, durable: StreamView
    ) -> Answer:
        asked = await self._ranges.located(durable, parameters)
        answer = self._read_range(request, caller, parameters, durable, asked)
        return answer if isinstance(answer, Response) else await answer

    def _read_range(
        self, request: Request, caller: Caller, parameters: Parameters, durable: StreamView, asked: Range
    ) -> Response | Awaitable[Response]:
        """Answer with a page in the cheapest way: only a plain one of recent events waits for nothing."""
        selection = parameters.selection()
        if parameters.word(described.PAIRS):
            return self._with_pairs(request, caller, durable, asked, selection)
        is_plain = selection.everything and not asked.backwards and not asked.is_of_copies
        if is_plain and not _wants_lines(request):
            page = self._sessions.events.hot_page(durable, asked.start, asked.stop, asked.limit)
            if page is not None:
                return _answer(request, durable, asked, page)
        return self._read(request, caller, durable, asked, selection)

    async def _search(self, caller: Caller, parameters: Parameters, durable: StreamView) -> Response:
        for other in ("live", "pairs", "lens"):
            if other in parameters:
                raise InvalidRequestError(
                    problem=f"q and {other} do not go together; search first, then read around a hit."
                )
        asked = await self._ranges.located(durable, parameters, searched=True)
        found = await self._searches.within(caller, durable, asked.start, asked.stop, parameters)
        found.headers = [*found.headers, incarnations.of(durable)]
        return found

    async def _read(
        self, request: Request, caller: Caller, durable: StreamView, asked: Range, selection: Selection
    ) -> Response:
        apart = _wants_lines(request) or asked.is_of_copies
        if selection.everything and not asked.backwards and not apart:
            page = await self._page(durable, asked, selection)
        else:
            async with self._sessions.scans.admitted(caller.key_id):
                page = await self._page(durable, asked, selection, apart=apart)
        await _copy(page, asked)
        return _answer(request, durable, asked, page, scattered=not selection.everything)

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
            complete = await tool_pairs.complete(self._sessions.events, durable, events)
        if asked.backwards:
            complete.reverse()  # pairs are completed in the order of positions
        page.apart = [event for _, event in complete]
        page.positions = [position for position, _ in complete]
        page.pieces, page.count = [b",".join(page.apart)], len(complete)
        await _copy(page, asked)
        return _answer(request, durable, asked, page, scattered=True)

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
        for other in ("clip", "lens"):
            if other in parameters:
                raise InvalidRequestError(
                    problem=f"A live read sends events as they are stored; leave out {other}."
                )
        position = event_ranges.offset(parameters, durable)
        if live == "sse":
            cursor = parameters.text("cursor")
            answer = self._reads.follow(durable, position, cursor, caller, has_position=True)
            answer.chunks = self._auth.while_valid(caller, answer.chunks)
            answer.headers.append(incarnations.of(durable))
            return answer
        return self._long_poll(request, caller, key, durable, position)

    async def _long_poll(
        self, request: Request, caller: Caller, key: Key, durable: StreamView, position: int
    ) -> Response:
        await self._auth.waiting(caller, self._reads.wait(key, durable, position, caller))
        await self._auth.require_valid(caller)  # the key may have been revoked or have expired meanwhile
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

    async def one(self, request: Request, caller: Caller, key: Key, event: str) -> Response:
        """Answer with one event."""
        durable = self._sessions.find(key, incarnations.asked(request))
        asked = Parameters(request)
        clip, lens = asked.whole_if_given(described.CLIP), asked.flag(described.LENS)
        position, stored = await self._sessions.events.by_id(durable, event)
        if lens:
            stored = await CPU.run(event_lenses.with_lens, stored)
        if clip is not None and len(stored) > clip:
            stored = await CPU.run(clipping.clip, stored, clip)
        fields = [JSON, _NO_STORE, incarnations.of(durable), (EVENT_POSITION, b"%d" % position)]
        return Response(200, fields, stored)

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
            position = event_ranges.offset(parameters, durable)
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
        asked = await self._ranges.located(durable, parameters)
        return await self._read(request, caller, durable, asked, of_thread(durable, thread))


def of_thread(durable: StreamView, thread: str) -> Selection:
    """Return what selects the events of a thread."""
    return Selection(thread=thread, primary=thread == threads.primary(session_of(durable.stream.key)))


def _wants_lines(request: Request) -> bool:
    return b"application/x-ndjson" in request.headers.get(_ACCEPT, b"")


async def _copy(page: EventPage, asked: Range) -> None:
    """Show the events of a page otherwise than they are stored, in a thread: taking them apart takes long."""
    if not asked.is_of_copies:
        return
    events = page.events()
    if asked.lens:
        events = await CPU.run(event_lenses.with_lenses, events)
    clip = asked.clip
    if clip is not None and any(len(event) > clip for event in events):
        events = await CPU.run(clipping.clip_all, events, clip)
    page.apart = [*events]
    page.pieces = [b",".join(page.apart)]


def _answer(
    request: Request, durable: StreamView, asked: Range, page: EventPage, *, scattered: bool = False
) -> Response:
    """Answer with a page; with the positions of all its events if they are ``scattered``."""
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
    end = b'],"next_page":%b,"next_offset":"%b","up_to_date":%b,"incarnation":"%b","first":%b}' % (
        following,
        offset,
        b"true" if up_to_date else b"false",
        life[1],
        b"null" if not page.count else b"%d" % (page.positions[0] if page.positions else page.first),
    )
    if scattered:
        end = b'%b,"positions":%b}' % (end[:-1], msgspec.json.encode(page.positions or []))
    # Joined, not formatted: formatting a large body takes thirty times as long as copying it.
    return Response(200, [JSON, *fields], b"".join((b'{"data":[', *page.pieces, end)))
