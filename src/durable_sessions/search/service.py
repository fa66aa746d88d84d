"""Search in sessions: an acknowledged event is found by the next search."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from durable_sessions.clock import Clock
from durable_sessions.errors import SearchUnavailableError, StreamNotFoundError
from durable_sessions.limits import Limits
from durable_sessions.search.admission import SearchAdmission
from durable_sessions.search.feed import Feed, WorkerCoverage
from durable_sessions.search.index import DEPTH_MAX, IndexHit, Order
from durable_sessions.search.index_names import index_name
from durable_sessions.search.messages import Ask, SearchAnswer, SessionHits
from durable_sessions.search.query import Query
from durable_sessions.search.scope import POSITION_MAX, Scope
from durable_sessions.storage.door import Streams, StreamView

_NO_WORDS = Query((), ())
_TERMS_AT_ONCE = 1_000


class Wish(NamedTuple):
    """What to search for, and which page of the result to return.

    ``view`` names the snapshot of the index that an earlier page was taken from.
    """

    query: Query
    scope: Scope
    limit: int
    offset: int = 0
    order: Order = "score"
    view: str = ""


class SessionMatches(NamedTuple):
    """The hits in one session; all events before the position ``through`` were searched."""

    hits: list[IndexHit]
    total: int
    view: str
    through: int


class FoundSessions(NamedTuple):
    """The hits in all sessions of a workspace.

    ``ranks`` says how many of the index's sessions precede each: several can belong to one, or be gone.
    ``through_ms`` is a time before which all events were searched, None if the index is still being built.
    """

    sessions: list[tuple[StreamView, list[IndexHit]]]
    ranks: list[int]
    total_hits: int
    total_sessions: int
    more: bool
    view: str
    is_complete: bool
    through_ms: int | None


class ReferringEvents(NamedTuple):
    """Events that lead to others: each with the session through which it can be read now.

    ``is_complete`` says that everything durable was searched, ``more`` that there are more than were wanted.
    """

    events: list[tuple[StreamView, IndexHit]]
    is_complete: bool
    more: bool


class Search:
    """Runs searches in the worker, after it was sent everything that is durable."""

    def __init__(self, streams: Streams, feed: Feed, clock: Clock, limits: Limits) -> None:
        self._streams = streams
        self._clock = clock
        self._limits = limits
        self.feed = feed
        self.admission = SearchAdmission(limits)
        self.searches = 0

    async def in_session(self, durable: StreamView, start: int, stop: int, wish: Wish) -> SessionMatches:
        """Search events of a session between two positions, those that it inherits included.

        Or those of another stream that is indexed, such as a memory scope.
        """
        chain = self.chain(durable, start, stop)
        scope = msgspec.structs.replace(wish.scope, chain=tuple(chain))
        workspace = index_name(durable.stream.key)
        assert workspace is not None, "only streams that are indexed are searched"
        ask = Ask(0, workspace, wish.query, scope, wish.limit, wish.offset, wish.order, view=wish.view)
        answer, reach = await self._answer(workspace, [part[0] for part in chain], ask)
        missing = (reach.unsent[stream] for stream, _, end in chain if reach.unsent.get(stream, end) < end)
        through = min([stop, *missing])
        hits = [hit for session in answer.sessions for hit in session.hits]
        return SessionMatches(hits, answer.total_hits, answer.view, through)

    async def in_workspace(
        self, workspace: str, wish: Wish, hits_per_session: int, named: Sequence[StreamView] = ()
    ) -> FoundSessions:
        """Search all sessions of a workspace; hits are grouped by session, the best first.

        With ``named`` sessions, to which the scope must be restricted, hits are shown as theirs.
        """
        await self._streams.expire_now()  # so that nothing is counted that will be gone
        began_ms = self._clock.now_ms()
        ask = Ask(
            0,
            workspace,
            wish.query,
            wish.scope,
            wish.limit,
            wish.offset,
            hits_per_session=hits_per_session,
            view=wish.view,
        )
        answer, reach = await self._answer(workspace, None, ask)
        sessions, ranks = self._readable(answer.sessions, hits_per_session, named)
        merged = len(answer.sessions) - len(sessions)
        return FoundSessions(
            sessions,
            ranks,
            answer.total_hits,
            answer.total_sessions - merged,
            wish.offset + wish.limit < min(answer.total_sessions, DEPTH_MAX),
            answer.view,
            reach.is_complete,
            began_ms if reach.is_complete else reach.since_ms,
        )

    async def referring(self, workspace: str, terms: Sequence[str], limit: int) -> ReferringEvents:
        """Return the events of a workspace that have one of some terms of refs, at most ``limit``."""
        found: dict[tuple[int, int], tuple[StreamView, IndexHit]] = {}
        is_complete, more = True, False
        for begin in range(0, len(terms), _TERMS_AT_ONCE):
            part = tuple(terms[begin : begin + _TERMS_AT_ONCE])
            ask = Ask(0, workspace, _NO_WORDS, Scope(), limit, refs=part)
            answer, reach = await self._answer(workspace, None, ask)
            is_complete &= reach.is_complete
            more |= answer.total_hits > limit
            for hit in (hit for session in answer.sessions for hit in session.hits):
                durable = self._heir(hit)
                if durable is not None and not durable.removed:
                    found.setdefault((hit.stream, hit.position), (durable, hit))
        return ReferringEvents(list(found.values()), is_complete, more)

    async def _answer(
        self, workspace: str, streams: Collection[int] | None, ask: Ask
    ) -> tuple[SearchAnswer, WorkerCoverage]:
        """Ask the worker; if it ends meanwhile, ask its successor once."""
        self.searches += 1
        seconds_max = self._limits.search_wait_seconds_max
        for is_last in (False, True):
            reach = await self.feed.caught_up(workspace, streams, seconds_max)
            try:
                return await reach.link.ask(ask, seconds_max), reach
            except SearchUnavailableError:
                if is_last or not reach.link.lost:
                    raise
        raise AssertionError

    def chain(self, durable: StreamView, start: int, stop: int) -> list[tuple[int, int, int]]:
        """Return the parts of streams that hold a session's events between two positions."""
        chain = []
        position = start
        while position < stop:
            owner, end = self._streams.owner(durable, position)
            end = POSITION_MAX if owner is durable and stop >= durable.tail else min(end, stop)
            chain.append((owner.stream.id, position, end))
            position = end
        return chain or [(durable.stream.id, 0, 0)]

    def _readable(
        self, found: Iterable[SessionHits], hits_per_session: int, named: Sequence[StreamView]
    ) -> tuple[list[tuple[StreamView, list[IndexHit]]], list[int]]:
        """Group hits by the session through which they can be read now, the best first; return ranks too."""
        now_ms = self._clock.now_ms()
        sessions: dict[int, tuple[StreamView, list[IndexHit]]] = {}
        ranks: dict[int, int] = {}
        for rank, (_, hits) in enumerate(found):
            for hit in hits:
                durable = self._named(hit, named) if named else self._heir(hit)
                if durable is None or durable.removed or durable.stream.expired(now_ms):
                    continue  # it was removed during the search
                sessions.setdefault(durable.stream.id, (durable, []))[1].append(hit)
                ranks.setdefault(durable.stream.id, rank)
        for _, hits in sessions.values():
            hits.sort(key=lambda hit: -hit.score)
            del hits[hits_per_session:]
        return list(sessions.values()), list(ranks.values())

    def _heir(self, hit: IndexHit) -> StreamView | None:
        number = self.feed.forks.heir(hit.stream, hit.position)
        return None if number is None else self._streams.peek_id(number)

    def _named(self, hit: IndexHit, named: Sequence[StreamView]) -> StreamView | None:
        """Return which of some sessions an event is of: the one that it was appended to, else a fork."""
        inheriting = None
        for durable in named:
            if durable.stream.id == hit.stream:
                return durable
            is_inherited = hit.position < durable.stream.base
            if inheriting is None and is_inherited and self._owner(durable, hit.position) == hit.stream:
                inheriting = durable
        return inheriting

    def _owner(self, durable: StreamView, position: int) -> int | None:
        try:
            return self._streams.owner(durable, position)[0].stream.id
        except StreamNotFoundError:
            return None  # it was removed meanwhile
