"""Search over HTTP: in one session with ``GET …/events?q=``, in all with ``GET /v1/search?q=``."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import InvalidRequestError, StreamNotFoundError
from durable_sessions.http.api.sessions.listing import by_agent, by_metadata
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.search_parameters import (
    order_of,
    page_of,
    query_of,
    require_no_page,
    scope_of,
)
from durable_sessions.http.bodies.search import (
    FoundEventsAnswer,
    FoundPositionsAnswer,
    FoundSession,
    FoundSessionsAnswer,
    HitDetails,
)
from durable_sessions.http.carrier.message import Header, Request, Response
from durable_sessions.http.openapi import search as described
from durable_sessions.http.openapi.events import CLIP, EventRange
from durable_sessions.limits import Limits
from durable_sessions.search.index import DEPTH_MAX, IndexHit
from durable_sessions.search.query import Query
from durable_sessions.search.scope import POSITION_MAX, Scope
from durable_sessions.search.service import FoundSessions, Search, Wish
from durable_sessions.search.snippet import snippet
from durable_sessions.search.text import searchable
from durable_sessions.sessions import clipping
from durable_sessions.sessions.json_members import members
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.storage.door import StreamView
from durable_sessions.streams import offsets
from durable_sessions.times import rfc3339

_FIELDS: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_NAMED_SESSIONS_MAX = 100
_READ_AT_A_TIME = 8


class SearchPart(msgspec.Struct, array_like=True):
    """What one partition found.

    A group is a session as JSON with its hits; before it are its rank in the partition and its best score.
    """

    groups: list[tuple[int, float, bytes, list[bytes]]]
    limit: int
    total_hits: int
    total_sessions: int
    more: bool
    view: str
    is_complete: bool
    through_ms: int | None


_Groups = dict[int, tuple[FoundSession, Sequence[IndexHit]]]


class _Found(NamedTuple):
    """What was found, and the part of it that is shown, by rank."""

    whole: FoundSessions
    groups: _Groups
    offset: int
    limit: int


class Searches:
    """Answers searches with the events that were found, each with its score and a snippet."""

    def __init__(self, sessions: Sessions, search: Search, limits: Limits) -> None:
        self._sessions = sessions
        self._search = search
        self._limits = limits
        self._limit = EventRange(limits).found_limit

    async def within(
        self, caller: Caller, durable: StreamView, start: int, stop: int, parameters: Parameters
    ) -> Response:
        """Answer a search in the events of one session between two positions."""
        with self._search.admission.enter(caller.key_id):
            return await self._within(durable, start, stop, parameters)

    async def best(
        self, caller: Caller, durable: StreamView, stop: int, q: str | None
    ) -> tuple[tuple[int, float], ...]:
        """Return the positions and scores of the events before a position that match best."""
        wish = Wish(query_of(q), Scope(), self._limits.context_hits_max)
        with self._search.admission.enter(caller.key_id):
            found = await self._search.in_session(durable, 0, stop, wish)
        return tuple((hit.position, hit.score) for hit in found.hits)

    async def everywhere(self, request: Request, caller: Caller) -> Response:
        """Answer a search in all sessions of a workspace, grouped by session."""
        caller.require(Role.READER)
        with self._search.admission.enter(caller.key_id):
            return await self._everywhere(request, caller)

    async def _within(self, durable: StreamView, start: int, stop: int, parameters: Parameters) -> Response:
        selection = parameters.selection()
        query = query_of(parameters.text("q"))
        if parameters.word(described.FIELDS):
            require_no_page(parameters)
        page = page_of(parameters)
        if page.stop is not None:  # the range of the first page: the session may have grown since
            start, stop = page.start, min(page.stop, durable.tail)
        limit = parameters.whole(self._limit)
        order = order_of(parameters)
        scope = scope_of(parameters, selection)
        if parameters.word(described.FIELDS):
            return await self._positions(durable, start, stop, Wish(query, scope, DEPTH_MAX, order="asc"))
        found = await self._search.in_session(
            durable, start, stop, Wish(query, scope, limit, page.offset, order, page.view)
        )
        clip = parameters.whole_if_given(CLIP)
        (events,) = await self._shown([(durable, found.hits)], query, clip)
        following = page.offset + len(events)
        more = events and following < min(found.total, DEPTH_MAX)
        return _json(
            FoundEventsAnswer(
                data=events,
                next_page=f"{found.view}-{following}-{start}-{stop}" if more else None,
                total_hits=found.total,
                indexed_through=offsets.encode(found.through),
                up_to_date=found.through >= min(stop, durable.tail),
            )
        )

    async def _positions(self, durable: StreamView, start: int, stop: int, wish: Wish) -> Response:
        """Answer with the positions of all hits, which are in the index, and with none of the events."""
        found = await self._search.in_session(durable, start, stop, wish)
        return _json(
            FoundPositionsAnswer(
                total_hits=found.total,
                positions=[hit.position for hit in found.hits],
                truncated=found.total > len(found.hits),
                indexed_through=offsets.encode(found.through),
                up_to_date=found.through >= min(stop, durable.tail),
            )
        )

    async def part(self, request: Request, caller: Caller) -> SearchPart:
        """Return what one of several partitions has for a page of the whole search."""
        with self._search.admission.enter(caller.key_id):
            found = await self._found(request, caller)
        groups = [
            (rank, hits[0].score, bytes(group.session), [bytes(hit) for hit in group.hits])
            for rank, (group, hits) in found.groups.items()
        ]
        return SearchPart(
            groups,
            found.limit,
            found.whole.total_hits,
            found.whole.total_sessions,
            found.whole.more,
            found.whole.view,
            found.whole.is_complete,
            found.whole.through_ms,
        )

    async def _everywhere(self, request: Request, caller: Caller) -> Response:
        found = await self._found(request, caller)
        whole, following = found.whole, found.offset + found.limit
        return _json(
            FoundSessionsAnswer(
                data=[group for group, _ in found.groups.values()],
                next_page=f"{whole.view}-{following}" if whole.more else None,
                total_hits=whole.total_hits,
                total_sessions=whole.total_sessions,
                indexed_through=None if whole.through_ms is None else rfc3339(whole.through_ms),
                up_to_date=whole.is_complete,
            )
        )

    async def _found(self, request: Request, caller: Caller) -> "_Found":
        parameters = Parameters(request)
        query = query_of(parameters.text("q"))
        page = page_of(parameters)
        limit = parameters.whole(described.LIMIT)
        hits = parameters.whole(described.HITS)
        if order_of(parameters) != "score":
            raise InvalidRequestError(
                problem="Sessions are in the order of their best hits; order= goes with …/events?q=."
            )
        scope = scope_of(parameters, parameters.selection())
        named = self._named(parameters, caller.workspace)
        if named:
            parts = [part for durable in named for part in self._search.chain(durable, 0, POSITION_MAX)]
            scope = msgspec.structs.replace(scope, chain=tuple(dict.fromkeys(parts)))
        scope = await self._narrowed(scope, parameters, caller)
        wish = Wish(query, scope, limit, page.offset, view=page.view)
        while True:
            found = await self._search.in_workspace(caller.workspace, wish, hits, named)
            groups = await self._groups(found, query)
            if groups is not None or wish.limit == 1:
                break
            # Too large for a page. The snapshot is fixed, so search it again with a smaller limit.
            wish = wish._replace(limit=wish.limit // 2, view=found.view)
        return _Found(found, groups or {}, page.offset, wish.limit)

    async def _groups(self, whole: FoundSessions, query: Query) -> _Groups | None:
        """Return the sessions that were found by rank, with their hits; None if too large for a page."""
        found = whole.sessions
        turn = self._sessions.scans.turns.begin()
        groups: _Groups = {}
        size = 0
        for at in range(0, len(found), _READ_AT_A_TIME):
            some = found[at : at + _READ_AT_A_TIME]
            ranks = whole.ranks[at : at + _READ_AT_A_TIME]
            for rank, (durable, hits), shown in zip(ranks, some, await self._shown(some, query), strict=True):
                session = msgspec.json.encode(self._sessions.shown(durable))
                size += len(session) + sum(len(bytes(hit)) for hit in shown)
                if groups and size > self._limits.page_bytes_max:
                    return None
                if shown:
                    groups[rank] = FoundSession(msgspec.Raw(session), shown), hits
                if turn.over:
                    await turn.rest()
        return groups

    def _named(self, parameters: Parameters, workspace: str) -> list[StreamView]:
        """Return the sessions that the request names."""
        named = parameters.texts("session")
        if len(named) > _NAMED_SESSIONS_MAX:
            raise InvalidRequestError(problem=f"Send at most {_NAMED_SESSIONS_MAX} sessions.")
        return [self._sessions.find(session_key(workspace, name)) for name in dict.fromkeys(named)]

    async def _narrowed(self, scope: Scope, parameters: Parameters, caller: Caller) -> Scope:
        """Narrow a scope to the sessions that have this agent and metadata."""
        agent, metadata = parameters.text("agent"), parameters.nested("metadata")
        if agent is None and not metadata:
            return scope
        tests = [*([] if agent is None else [by_agent(agent, None)]), by_metadata(metadata)]
        most = self._limits.searched_sessions_max
        async with self._sessions.scans.admitted(caller.key_id):
            streams = await self._sessions.lists.numbers(
                caller.workspace, lambda one: all(test(one) for test in tests), most, metadata
            )
        if len(streams) > most:
            raise InvalidRequestError(
                problem=f"More than {most} sessions are like that; "
                "search without agent and metadata, or name more of the metadata."
            )
        return msgspec.structs.replace(scope, streams=tuple(streams))

    async def _shown(
        self,
        found: Sequence[tuple[StreamView, Sequence[IndexHit]]],
        query: Query,
        clip: int | None = None,
    ) -> list[list[msgspec.Raw]]:
        """Return the events that were found in each session, as many of each as fit into a page.

        Of a session that was deleted in the meantime there are none.
        """
        events = await asyncio.gather(*[self._read(durable, hits) for durable, hits in found])
        return await asyncio.to_thread(_with_snippets, events, [hits for _, hits in found], query, clip)

    async def _read(self, durable: StreamView, hits: Sequence[IndexHit]) -> list[bytes]:
        events: list[bytes] = []
        size = 0
        for at in range(0, len(hits), _READ_AT_A_TIME):
            some = hits[at : at + _READ_AT_A_TIME]
            read = (self._sessions.events.one(durable, hit.position) for hit in some)
            try:
                found = await asyncio.gather(*read)
            except StreamNotFoundError:
                return []
            for event in found:
                size += len(event)
                if events and size > self._limits.page_bytes_max:
                    return events
                events.append(event)
        return events


def _with_snippets(
    events: Sequence[Sequence[bytes]],
    hits: Sequence[Sequence[IndexHit]],
    query: Query,
    clip: int | None,
) -> list[list[msgspec.Raw]]:
    return [
        [_with_snippet(event, hit, query, clip) for event, hit in zip(*of_session, strict=False)]
        for of_session in zip(events, hits, strict=True)
    ]


def _with_snippet(event: bytes, hit: IndexHit, query: Query, clip: int | None) -> msgspec.Raw:
    # The member is appended to the bytes of the event, which are never decoded and encoded again.
    piece = snippet(searchable(event).text, query)
    said = HitDetails(float(f"{hit.score:.6g}"), piece.text, piece.highlights, hit.position)
    if b'"search"' in event:
        event = _without_search(event)
    if clip is not None:
        event = clipping.clip(event, clip)
    return msgspec.Raw(b"".join((event[:-1], b',"search":', msgspec.json.encode(said), b"}")))


def _without_search(event: bytes) -> bytes:
    """Return an event without its own ``search`` member, which would otherwise occur twice."""
    kept = [one.raw_key + b":" + one.value for one in members(event) if one.key != "search"]
    return b"{" + b",".join(kept) + b"}"


def _json(said: FoundEventsAnswer | FoundPositionsAnswer | FoundSessionsAnswer) -> Response:
    return Response(200, _FIELDS, msgspec.json.encode(said))
