"""Pages of sessions that are sorted by one of their times."""

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api.sessions.json_pages import json_page
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.openapi.sessions import ORDER
from durable_sessions.sessions import view
from durable_sessions.sessions.ranking import Ranked, ranked
from durable_sessions.sessions.sort_key import SortKey
from durable_sessions.sessions.store import Sessions, Wanted
from durable_sessions.storage.door import StreamView

CREATED = "created_at"
"""The order in which sessions are kept, which needs no sorting."""
RANKS: dict[str, Callable[[StreamView], int]] = {
    "started_at": view.began_ms,
    "updated_at": view.updated_ms,
    "activity": view.last_active_ms,
}
_PAGE = re.compile(r"([a-z_]{1,20})-(asc|desc)-(next|prev)-([0-9]{1,15})-([0-9]{1,18})", re.ASCII)


class SortedCursor(NamedTuple):
    """Where a page begins: after a place, in an order, forwards or backwards."""

    sort: str
    newest_first: bool
    back: bool
    after: SortKey | None

    def token(self, place: SortKey, *, back: bool) -> str:
        """Return the token of the page after a place, in one direction or the other."""
        order, way = "desc" if self.newest_first else "asc", "prev" if back else "next"
        return f"{self.sort}-{order}-{way}-{place.at_ms}-{place.number}"

    @property
    def descends(self) -> bool:
        """Whether later sessions come first, in the direction of reading."""
        return self.newest_first != self.back

    def page(self, found: Ranked) -> bytes:
        """Return a page as JSON, with the tokens of the next and the previous one."""
        shown = found.sessions[::-1] if self.back else found.sessions
        has_next = found.more if not self.back else self.after is not None
        has_previous = found.more if self.back else self.after is not None
        return json_page(
            [one for _, one in shown],
            next_page=self.token(shown[-1][0], back=False) if shown and has_next else None,
            prev_page=self.token(shown[0][0], back=True) if shown and has_previous else None,
        )


async def sorted_sessions(
    sessions: Sessions, cursor: SortedCursor, workspace: str, limit: int, wanted: Wanted
) -> Ranked:
    """Return the sessions of a page, in the order of one of their times."""
    now_ms = sessions.now_ms()
    return await ranked(
        sessions,
        workspace,
        RANKS[cursor.sort],
        cursor.after,
        limit,
        wanted,
        lambda one: msgspec.json.encode(view.session_object(one, now_ms)),
        newest_first=cursor.descends,
    )


def sorted_cursor(parameters: Parameters, sort: str) -> SortedCursor:
    """Return where a page of a sorted list begins."""
    order = parameters.word(ORDER)
    token = parameters.text("page")
    if token is None:
        return SortedCursor(sort, order == "desc", back=False, after=None)
    match = _PAGE.fullmatch(token)
    if match is None or match[1] != sort:
        raise InvalidRequestError(
            problem=f"page is not one of a list with sort={sort}; send next_page as it came."
        )
    if "order" in parameters and match[2] != order:
        raise InvalidRequestError(problem=f"The page was made with order={match[2]}; send the same order.")
    after = SortKey(int(match[4]), int(match[5]))
    return SortedCursor(sort, match[2] == "desc", back=match[3] == "prev", after=after)
