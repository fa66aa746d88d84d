"""Searches in the sessions of several partitions: each gives its best, and they are merged by score.

A page token has, for every partition, the snapshot that it searched and how many of its sessions were shown.
The statistics of words are those of each partition. One that cannot answer is named, and the rest is shown.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.sessions.errors import refusal
from durable_sessions.http.api.sessions.merged_listing import Ask
from durable_sessions.http.api.sessions.page_tokens import PageTokens, not_given
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.searches import SearchPart
from durable_sessions.http.bodies.search import FoundSession, FoundSessionsAnswer
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi import search as described
from durable_sessions.limits import Limits
from durable_sessions.search.index import DEPTH_MAX
from durable_sessions.sessions.record import path_of
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.times import rfc3339

PATH = b"/internal/search"
"""Where each partition answers with its part."""
_FIELDS: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_PART = msgspec.msgpack.Decoder(SearchPart)
_UNAVAILABLE = 503
_VIEW = re.compile("[0-9a-f]{12}", re.ASCII)


class _Place(msgspec.Struct, array_like=True):
    """Where a partition goes on: its snapshot, and how many of its sessions precede."""

    view: str = ""
    offset: int = 0

    @property
    def is_known(self) -> bool:
        """Whether a partition can have been there; what a client sends becomes part of other requests."""
        return 0 <= self.offset <= DEPTH_MAX and (not self.view or bool(_VIEW.fullmatch(self.view)))

    def __str__(self) -> str:
        return f"{self.view}-{self.offset}"


class _Merged(NamedTuple):
    """A page, and how many groups of each partition are on it."""

    groups: list[FoundSession]
    taken: list[int]


class MergedSearch:
    """Answers ``GET /v1/search`` from several partitions; ``ask`` asks one of them."""

    def __init__(self, ask: Ask, partitions: Sequence[int], limits: Limits, tokens: PageTokens) -> None:
        self._ask = ask
        self._tokens = tokens
        self._partitions = partitions
        self._bytes_max = limits.page_bytes_max

    async def __call__(self, request: Request) -> Answer:
        """Answer with the sessions that have the best hits."""
        try:
            parameters = Parameters(request)
            limit = parameters.whole(described.LIMIT)
            places = self._places(parameters)
            requests = self._requests(request, parameters, places)
            answers = await asyncio.gather(*(self._ask(number, part) for number, part in requests.items()))
        except DurableSessionsError as error:
            return refusal(error, request)
        parts, missing = dict[int, SearchPart](), list[int]()
        for number, answer in zip(requests, answers, strict=True):
            assert isinstance(answer, Response)
            if answer.status == _UNAVAILABLE:
                missing.append(number)
            elif answer.status != 200:
                return answer
            else:
                parts[number] = _PART.decode(answer.body)
        if missing and not parts:
            return next(iter(answers))
        return self._answer(parts, missing, places, limit)

    def _answer(
        self, parts: dict[int, SearchPart], missing: list[int], places: dict[int, _Place], limit: int
    ) -> Response:
        page = self._merged(list(parts.values()), limit)
        more = False
        for (number, part), taken in zip(parts.items(), page.taken, strict=True):
            used_up = taken == len(part.groups)
            offset = places[number].offset
            # A group has the rank that it has among all that the partition found, of which some are not
            # shown; so the next page begins behind all that was looked at.
            places[number] = _Place(part.view, offset + (part.limit if used_up else part.groups[taken][0]))
            more |= not used_up or part.more
        through = [part.through_ms for part in parts.values()]
        complete = not missing and all(part.is_complete for part in parts.values())
        known = [at_ms for at_ms in through if at_ms is not None]
        said = FoundSessionsAnswer(
            data=page.groups,
            next_page=self._tokens.token([*places.values()]) if more and _depth(places) < DEPTH_MAX else None,
            total_hits=sum(part.total_hits for part in parts.values()),
            total_sessions=sum(part.total_sessions for part in parts.values()),
            # Of the whole only what holds for every partition can be said: the earliest of their times.
            indexed_through=rfc3339(min(known)) if not missing and len(known) == len(through) else None,
            up_to_date=complete,
        )
        if missing:
            said.complete, said.missing = False, missing
        return Response(200, _FIELDS, msgspec.json.encode(said))

    def _merged(self, parts: Sequence[SearchPart], limit: int) -> _Merged:
        """Return the best groups of all parts; a part that is used up and has more ends the page."""
        taken = [0] * len(parts)
        groups: list[FoundSession] = []
        size = 0
        while len(groups) < limit:
            heads = []
            for at, part in enumerate(parts):
                if taken[at] < len(part.groups):
                    heads.append((-part.groups[taken[at]][1], at))
                elif part.more:
                    return _Merged(groups, taken)
            if not heads:
                break
            first = min(heads)[1]
            _, _, session, hits = parts[first].groups[taken[first]]
            size += len(session) + sum(map(len, hits))
            if groups and size > self._bytes_max:
                break
            groups.append(FoundSession(msgspec.Raw(session), [msgspec.Raw(hit) for hit in hits]))
            taken[first] += 1
        return _Merged(groups, taken)

    def _requests(
        self, request: Request, parameters: Parameters, places: dict[int, _Place]
    ) -> dict[int, Request]:
        """Return what each partition is asked; one that has none of the named sessions is not asked."""
        kept = [
            pair
            for pair in request.query.split(b"&")
            if pair.partition(b"=")[0] not in (b"page", b"session", b"session[]")
        ]
        named = parameters.texts("session")
        workspace = getattr(request.caller, "workspace", "")
        homes: dict[int, list[bytes]] = {}
        for name in named:
            home = home_partition(workspace, path_of(name), len(self._partitions))
            homes.setdefault(home, []).append(b"session=" + quote(name, safe="").encode())
        requests = {}
        for number in homes if named else self._partitions:
            query = [*kept, *homes.get(number, ())]
            if places[number].view:
                query.append(f"page={places[number]}".encode())
            part = Request(b"GET", PATH, b"&".join(pair for pair in query if pair), request.headers, b"")
            part.id, part.audience, part.caller = request.id, request.audience, request.caller
            requests[number] = part
        return requests

    def _places(self, parameters: Parameters) -> dict[int, _Place]:
        token = parameters.text("page")
        if token is None:
            return {number: _Place() for number in self._partitions}
        places = self._tokens.places(token, list[_Place], "search")
        if len(places) != len(self._partitions) or not all(place.is_known for place in places):
            raise not_given("search")
        return dict(zip(self._partitions, places, strict=True))


def _depth(places: dict[int, _Place]) -> int:
    return max(place.offset for place in places.values())
