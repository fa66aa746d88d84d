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
from durable_sessions.sessions.ranking import SortKey, ranked
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


class _Cursor(NamedTuple):
    """Where a page begins: after a place, in an order, forwards or backwards."""

    sort: str
    newest_first: bool
    back: bool
    after: SortKey | None

    def token(self, place: SortKey, *, back: bool) -> str:
        """Return the token of the page after a place, in one direction or the other."""
        order, way = "desc" if self.newest_first else "asc", "prev" if back else "next"
        return f"{self.sort}-{order}-{way}-{place.at_ms}-{place.number}"


async def sorted_page(
    sessions: Sessions, parameters: Parameters, workspace: str, sort: str, limit: int, wanted: Wanted
) -> bytes:
    """Return a page of sessions in the order of one of their times."""
    cursor = _cursor(parameters, sort)
    now_ms = sessions.now_ms()
    found = await ranked(
        sessions,
        workspace,
        RANKS[sort],
        cursor.after,
        limit,
        wanted,
        lambda one: msgspec.json.encode(view.session_object(one, now_ms)),
        newest_first=cursor.newest_first != cursor.back,
    )
    shown = found.sessions[::-1] if cursor.back else found.sessions
    has_next = found.more if not cursor.back else cursor.after is not None
    has_previous = found.more if cursor.back else cursor.after is not None
    return json_page(
        [one for _, one in shown],
        next_page=cursor.token(shown[-1][0], back=False) if shown and has_next else None,
        prev_page=cursor.token(shown[0][0], back=True) if shown and has_previous else None,
    )


def _cursor(parameters: Parameters, sort: str) -> _Cursor:
    order = parameters.word(ORDER)
    token = parameters.text("page")
    if token is None:
        return _Cursor(sort, order == "desc", back=False, after=None)
    match = _PAGE.fullmatch(token)
    if match is None or match[1] != sort:
        raise InvalidRequestError(
            problem=f"page is not one of a list with sort={sort}; send next_page as it came."
        )
    if "order" in parameters and match[2] != order:
        raise InvalidRequestError(problem=f"The page was made with order={match[2]}; send the same order.")
    after = SortKey(int(match[4]), int(match[5]))
    return _Cursor(sort, match[2] == "desc", back=match[3] == "prev", after=after)
