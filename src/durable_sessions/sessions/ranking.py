"""Sorts the sessions of a workspace by a time: scans all of them in short turns and keeps the first."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from durable_sessions.errors import TooManyToSortError
from durable_sessions.sessions import record
from durable_sessions.sessions.sort_key import SortKey
from durable_sessions.sessions.store import Sessions, Wanted
from durable_sessions.storage.door import StreamView

_STEP_SESSIONS = 100


@dataclass(slots=True)
class Ranked:
    """Sessions in order, each encoded and with its place; ``more`` says whether others follow."""

    sessions: list[tuple[SortKey, bytes]]
    more: bool


async def ranked(
    sessions: Sessions,
    workspace: str,
    rank: Callable[[StreamView], int],
    after: SortKey | None,
    limit: int,
    wanted: Wanted,
    show: Callable[[StreamView], bytes],
    *,
    newest_first: bool,
) -> Ranked:
    """Return the sessions after a place; a page ends at the limit, or before it would become too large.

    A session whose time changes between two pages moves, so it may be on both or on neither.
    """
    sign, limits = -1 if newest_first else 1, sessions.limits
    start = None if after is None else (sign * after.at_ms, sign * after.number)
    # Only one page is kept, whatever the number of sessions: a heap whose top is the last of the page. One
    # more than the limit shows whether there is a next page.
    kept: list[tuple[tuple[int, int], StreamView]] = []
    turn, now_ms = sessions.scans.turns.begin(), sessions.now_ms()
    number, looked, is_more = None, 0, True
    while is_more:
        page = sessions.streams.page(workspace, record.FOLDER, number, _STEP_SESSIONS, newest_first=True)
        looked, is_more = looked + len(page.streams), page.more
        if looked > limits.sorted_sessions_max:
            raise TooManyToSortError(sessions_max=limits.sorted_sessions_max)
        for durable in page.streams:
            number = durable.stream.id
            if not durable.removed and not durable.stream.expired(now_ms) and wanted(durable):
                place = (sign * rank(durable), sign * number)
                if start is None or place > start:
                    _keep(kept, place, durable, limit + 1)
            if turn.over:
                await turn.rest()
    kept.sort(key=lambda pair: pair[0], reverse=True)
    found: list[tuple[SortKey, bytes]] = []
    size = 0
    for (at_ms, order), durable in kept[:limit]:
        shown = show(durable)
        size += len(shown) + 1
        if found and size > limits.page_bytes_max:
            return Ranked(found, more=True)
        # Places are negated, because heapq keeps the smallest on top and the last is wanted there.
        found.append((SortKey(sign * -at_ms, sign * -order), shown))
        if turn.over:
            await turn.rest()
    return Ranked(found, more=len(kept) > limit)


def _keep(
    kept: list[tuple[tuple[int, int], StreamView]],
    place: tuple[int, int],
    durable: StreamView,
    most: int,
) -> None:
    turned = (-place[0], -place[1])
    if len(kept) < most:
        heapq.heappush(kept, (turned, durable))
    elif turned > kept[0][0]:
        heapq.heapreplace(kept, (turned, durable))
