"""Pages of sessions that are sorted by one of their times."""

import re
from typing import NamedTuple

import msgspec

from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api.sessions.json_pages import json_page
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.openapi.sessions import ORDER
from durable_sessions.sessions import view
from durable_sessions.sessions.ranking import Ranked, Ranking, ranked
from durable_sessions.sessions.session_lists import Wanted
from durable_sessions.sessions.sort_key import SortKey
from durable_sessions.sessions.store import Sessions

CREATED = "created_at"
"""The order in which sessions are kept, which needs no sorting."""
RANKINGS = {
    "started_at": Ranking("began", view.began_ms),
    "updated_at": Ranking("updated", view.updated_ms),
    "activity": Ranking("active", view.last_active_ms),
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
        shown = [one for _, one in found.sessions]
        onward = None if found.next is None else self.token(found.next, back=self.back)
        turned = None if self.after is None else self.token(self._behind(self.after), back=not self.back)
        if self.back:
            shown, onward, turned = shown[::-1], turned, onward
        return json_page(shown, next_page=onward, prev_page=turned)

    def _behind(self, place: SortKey) -> SortKey:
        """Return the place from which the session at a place is the first in the other direction."""
        return place._replace(number=place.number + (-1 if self.descends else 1))


async def sorted_sessions(
    sessions: Sessions,
    cursor: SortedCursor,
    workspace: str,
    limit: int,
    wanted: Wanted,
    pairs: dict[str, str],
    slot: str | None,
) -> Ranked:
    """Return the sessions of a page, in the order of one of their times."""
    return await ranked(
        sessions,
        workspace,
        RANKINGS[cursor.sort],
        cursor.after,
        limit,
        wanted,
        lambda one: msgspec.json.encode(sessions.shown(one)),
        newest_first=cursor.descends,
        pairs=pairs,
        slot=slot,
    )


def sorted_cursor(parameters: Parameters, sort: str) -> SortedCursor:
    """Return where a page of a sorted list begins."""
    order = parameters.word(ORDER)
    token = parameters.text("page")
    if token is None:
        return SortedCursor(sort, order == "desc", back=False, after=None)
    match = _match(token, sort)
    if "order" in parameters and match[2] != order:
        raise InvalidRequestError(problem=f"The page was made with order={match[2]}; send the same order.")
    after = SortKey(int(match[4]), int(match[5]))
    return SortedCursor(sort, match[2] == "desc", back=match[3] == "prev", after=after)


def place_of(token: str, sort: str) -> SortKey:
    """Return the place in a token of a list that goes in one order and direction only."""
    match = _match(token, sort)
    return SortKey(int(match[4]), int(match[5]))


def _match(token: str, sort: str) -> "re.Match[str]":
    match = _PAGE.fullmatch(token)
    if match is None or match[1] != sort:
        raise InvalidRequestError(
            problem=f"page is not one of a list with sort={sort}; send next_page as it came."
        )
    return match
