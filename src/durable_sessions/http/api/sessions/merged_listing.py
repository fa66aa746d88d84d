"""Lists of the sessions of several partitions: each gives its part of a page, and they are merged.

A page token has the place of every partition, so that a page goes on exactly behind the one before, whatever
is created meanwhile. A partition that cannot answer makes the list fail, not shorter.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from durable_sessions.errors import DurableSessionsError, InvalidRequestError
from durable_sessions.http.api.sessions.errors import refusal
from durable_sessions.http.api.sessions.json_pages import json_page
from durable_sessions.http.api.sessions.listing import ListCursor, PartitionRows, sort_of
from durable_sessions.http.api.sessions.merged_rows import decoded_rows, merged_rows, part_request
from durable_sessions.http.api.sessions.page_tokens import PageTokens, not_given
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.sorted_pages import CREATED, sorted_cursor
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi.sessions import LIMIT, LIVE_LIST, ORDER
from durable_sessions.limits import Limits
from durable_sessions.sessions.ranking import Ranked

PATH = b"/internal/sessions"
"""Where each partition answers with its part."""
_FIELDS: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_START, _NOTHING = -1, -2
"""Places of a partition: before its first session, and behind its last in this direction.

Others are numbers of sessions, and 0, which is before all numbers.
"""
_NO_ROWS = PartitionRows([], None, more=False)

Ask = Callable[[int, Request], Awaitable[Answer]]
Follow = Callable[[Request], Awaitable[Answer]]
"""Answers with the changes of all partitions."""


class _Vector(msgspec.Struct, array_like=True):
    """Where a page begins: after a session of each partition, in an order, forwards or backwards."""

    newest_first: bool
    back: bool
    after: list[int]

    def cursor(self, place: int) -> ListCursor:
        """Return the cursor of one partition."""
        return ListCursor(self.newest_first, self.back, None if place == _START else place)

    def turned(self) -> "_Vector | None":
        """Return where the page in the other direction begins, None if there is none."""
        if all(place in (_START, _NOTHING) for place in self.after):
            return None
        step = 1 if self.newest_first == self.back else -1
        turns = {_START: _NOTHING, _NOTHING: _START}
        after = [turns.get(place, place + step) for place in self.after]
        return _Vector(self.newest_first, not self.back, after)


class MergedListing:
    """Answers ``GET /v1/sessions`` from several partitions; ``ask`` asks one, ``follow`` follows all."""

    def __init__(
        self, ask: Ask, partitions: Sequence[int], follow: Follow, limits: Limits, tokens: PageTokens
    ) -> None:
        self._ask = ask
        self._follow = follow
        self._partitions = partitions
        self._bytes_max = limits.page_bytes_max
        self._tokens = tokens

    async def __call__(self, request: Request) -> Answer:
        """Answer with a page of sessions, and the tokens of the next and the previous page."""
        try:
            parameters = Parameters(request)
            if parameters.word(LIVE_LIST):
                return await self._follow(request)
            limit = parameters.whole(LIMIT)
            if (sort := sort_of(parameters)) != CREATED:
                return await self._sorted(request, parameters, sort, limit)
            return await self._by_creation(request, parameters, limit)
        except DurableSessionsError as error:
            return refusal(error, request)

    async def _sorted(self, request: Request, parameters: Parameters, sort: str, limit: int) -> Answer:
        """Answer in the order of a time: one place is the same for all partitions."""
        cursor = sorted_cursor(parameters, sort)
        found = decoded_rows(
            await asyncio.gather(*(self._ask(one, _part(request)) for one in self._partitions))
        )
        if isinstance(found, Response):
            return found
        page = merged_rows(found, limit, self._bytes_max, descends=cursor.descends)
        return Response(200, _FIELDS, cursor.page(Ranked(page.sessions, page.reach)))

    async def _by_creation(self, request: Request, parameters: Parameters, limit: int) -> Answer:
        vector = self._vector(parameters)
        found = await self._asked(request, vector)
        if isinstance(found, Response):
            return found
        page = merged_rows(found, limit, self._bytes_max, descends=vector.newest_first != vector.back)
        after = [
            _place(part, taken, place)
            for part, taken, place in zip(found, page.taken, vector.after, strict=True)
        ]
        following = _Vector(vector.newest_first, vector.back, after) if page.more else None
        shown, previous = [one for _, one in page.sessions], vector.turned()
        if vector.back:
            shown, following, previous = shown[::-1], previous, following
        body = json_page(
            shown,
            next_page=None if following is None else self._tokens.token(following),
            prev_page=None if previous is None else self._tokens.token(previous),
        )
        return Response(200, _FIELDS, body)

    async def _asked(self, request: Request, vector: _Vector) -> list[PartitionRows] | Response:
        asked = {
            number: self._ask(number, _part(request, vector.cursor(place)))
            for number, place in zip(self._partitions, vector.after, strict=True)
            if place != _NOTHING
        }
        found = decoded_rows(await asyncio.gather(*asked.values()))
        if isinstance(found, Response):
            return found
        parts = dict(zip(asked, found, strict=True))
        return [parts.get(number, _NO_ROWS) for number in self._partitions]

    def _vector(self, parameters: Parameters) -> _Vector:
        order = parameters.word(ORDER)
        token = parameters.text("page")
        if token is None:
            return _Vector(order == "desc", back=False, after=[_START] * len(self._partitions))
        vector = self._tokens.places(token, _Vector, "server")
        known = len(vector.after) == len(self._partitions) and min(vector.after) >= _NOTHING
        if not known or (vector.back and _START in vector.after):
            raise not_given("server")
        made = "desc" if vector.newest_first else "asc"
        if "order" in parameters and made != order:
            raise InvalidRequestError(problem=f"The page was made with order={made}; send the same order.")
        return vector


def _place(part: PartitionRows, taken: int, before: int) -> int:
    """Return where a partition goes on after this many of its sessions were taken."""
    if taken == len(part.sessions) and part.next is not None:
        return part.next
    return part.sessions[taken - 1][0].number if taken else before


def _part(request: Request, cursor: ListCursor | None = None) -> Request:
    """Return the request to one partition; with a ``cursor`` its own place instead of the whole token."""
    query = request.query
    if cursor is not None:
        kept = [pair for pair in query.split(b"&") if pair.partition(b"=")[0] not in (b"page", b"order")]
        kept.append(b"order=desc" if cursor.newest_first else b"order=asc")
        if cursor.after is not None:
            kept.append(f"page={cursor}".encode())
        query = b"&".join(pair for pair in kept if pair)
    return part_request(request, PATH, query)
