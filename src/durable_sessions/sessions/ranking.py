"""Sessions by one of their times, page by page, from the index."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from durable_sessions.sessions import record
from durable_sessions.sessions.session_lists import Wanted
from durable_sessions.sessions.sort_key import SortKey
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView
from durable_sessions.storage.indexed import TimeOrder
from durable_sessions.storage.turns import Turn

_STEP_SESSIONS = 128
_STEP_SESSIONS_MIN = 16


@dataclass(slots=True)
class Ranked:
    """Sessions in order, each encoded and with its place; ``next`` is behind what the next page begins.

    It is the place of the last session that was looked at, which need not be shown; None at the end.
    """

    sessions: list[tuple[SortKey, bytes]]
    next: SortKey | None


@dataclass(slots=True)
class Ranking:
    """By which time sessions are listed: its name in the index, and how it is read from a session."""

    order: TimeOrder
    time_of: Callable[[StreamView], int]


class _Page:
    """A page that is being filled."""

    def __init__(self, show: Callable[[StreamView], bytes], limit: int, bytes_max: int) -> None:
        self.sessions: list[tuple[SortKey, bytes]] = []
        self._show = show
        self.limit = limit
        self._bytes_max = bytes_max
        self._size = 0

    def takes(self, place: SortKey, durable: StreamView) -> bool:
        """Add a session; say whether there was room for it."""
        if len(self.sessions) == self.limit:
            return False
        shown = self._show(durable)
        self._size += len(shown) + 1
        if self.sessions and self._size > self._bytes_max:
            return False
        self.sessions.append((place, shown))
        return True


async def ranked(
    sessions: Sessions,
    workspace: str,
    ranking: Ranking,
    after: SortKey | None,
    limit: int,
    wanted: Wanted,
    show: Callable[[StreamView], bytes],
    *,
    newest_first: bool,
    pairs: Mapping[str, str] | None = None,
    slot: str | None = None,
) -> Ranked:
    """Return the sessions after a place; looks at a bounded number of them.

    ``pairs`` of metadata that all of them have, or a ``slot`` that an event of each holds, make it cheaper.
    A session whose time changes between two pages moves, so it may be on both or on neither.
    """
    page = _Page(show, limit, sessions.limits.page_bytes_max)
    turn = sessions.scans.turns.begin()
    now_ms = sessions.now_ms()

    def is_listed(durable: StreamView) -> bool:
        return not durable.removed and not durable.stream.expired(now_ms) and wanted(durable)

    # A few matches are cheaper to sort than to find along the order. That is right only if all of them are
    # known, so with too many the order is walked after all.
    if slot is not None:
        few = sessions.limits.sorted_matches_max
        matching = []
        async for one in sessions.lists.holding(workspace, slot, turn):
            if is_listed(one):
                matching.append(one)
            if len(matching) == few:
                break
        if len(matching) < few:
            return await _sorted(page, matching, ranking, after, turn, newest_first=newest_first)
    elif pairs:
        terms, count = await sessions.lists.rarest(workspace, pairs, turn)
        if count < sessions.limits.sorted_matches_max:
            matching = [one async for one in sessions.lists.having(workspace, terms, turn) if is_listed(one)]
            return await _sorted(page, matching, ranking, after, turn, newest_first=newest_first)
    looked = 0
    while looked < sessions.limits.listed_sessions_max:
        # One more than there is room for: the page then ends here, with a place for the next one.
        step = max(_STEP_SESSIONS_MIN, min(_STEP_SESSIONS, limit - len(page.sessions) + 1))
        step = min(step, sessions.limits.listed_sessions_max - looked)
        await sessions.streams.folders.refresh(turn)
        found = sessions.streams.folders.page_by_time(
            workspace, record.FOLDER, ranking.order, after, step, newest_first=newest_first
        )
        for place, durable in found.streams:
            if is_listed(durable) and not page.takes(SortKey(*place), durable):
                return Ranked(page.sessions, after)
            after = SortKey(*place)
            if turn.over:
                await turn.rest()
        looked += len(found.streams)
        if not found.more:
            return Ranked(page.sessions, None)
    return Ranked(page.sessions, after)


async def _sorted(
    page: _Page,
    matching: list[StreamView],
    ranking: Ranking,
    after: SortKey | None,
    turn: Turn,
    *,
    newest_first: bool,
) -> Ranked:
    """Sort the few sessions that there are, and return those after a place."""
    places = [(SortKey(ranking.time_of(one), one.stream.id), one) for one in matching]
    places.sort(key=lambda pair: pair[0], reverse=newest_first)
    for place, durable in places:
        if after is not None and (place >= after if newest_first else place <= after):
            continue
        if not page.takes(place, durable):
            return Ranked(page.sessions, page.sessions[-1][0] if page.sessions else after)
        if turn.over:
            await turn.rest()
    return Ranked(page.sessions, None)
