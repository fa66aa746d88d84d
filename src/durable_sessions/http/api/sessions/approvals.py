"""Approvals over HTTP: what waits for a person in all sessions, and what was decided."""

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar
from urllib.parse import quote

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import StreamGoneError, StreamNotFoundError
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions.json_pages import json_page
from durable_sessions.http.api.sessions.listed_work import asks_a_person
from durable_sessions.http.api.sessions.listing import PartitionRows
from durable_sessions.http.api.sessions.merged_rows import MergedRows, merged_rows, part_request
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.searches import Searches
from durable_sessions.http.api.sessions.sorted_pages import RANKINGS, SortedCursor, place_of
from durable_sessions.http.bodies.approvals import (
    ApprovalCallAnswer,
    ApprovalRequestAnswer,
    DecidedApprovalAnswer,
    DecidedRequestAnswer,
    DecisionAnswer,
    PendingApprovalAnswer,
)
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi.approvals import LIMIT, STATE
from durable_sessions.sessions import indexing, record
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.ranking import ranked
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.sort_key import SortKey
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.waiting_approvals import WaitingApproval, waiting
from durable_sessions.storage.door import StreamView
from durable_sessions.threads import CPU
from durable_sessions.times import parse_rfc3339, rfc3339

PATH = b"/internal/approvals"
"""Where each partition answers with what waits there."""
_FIELDS: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_SORT = "updated_at"
_SEARCH = b"/v1/search"
_DECIDED_EACH = 20

Ask = Callable[[Request], Awaitable[Answer]]


class _Hit(msgspec.Struct):
    """A decision that search has found."""

    id: str
    created_at: str
    decision: str
    reason: str
    request: str
    actor: str
    search: dict[str, msgspec.Raw]


class _Session(msgspec.Struct):
    id: str
    title: str | None = None


class _Group(msgspec.Struct):
    session: _Session
    hits: list[msgspec.Raw]


class _Found(msgspec.Struct):
    """What search has found."""

    data: list[_Group]
    next_page: str | None
    up_to_date: bool


_FOUND, _HIT = msgspec.json.Decoder(_Found), msgspec.json.Decoder(_Hit)


class Approvals:
    """Answers for the sessions of one partition."""

    def __init__(self, sessions: Sessions, searches: Searches) -> None:
        self._sessions = sessions
        self._searches = searches

    async def _list(self, request: Request, caller: Caller) -> Answer:
        parameters = Parameters(request)
        if parameters.word(STATE) == "decided":

            async def search(asked: Request) -> Answer:
                return await self._searches.everywhere(asked, caller)

            return await decided(request, search)
        return page_of(parameters, [await self.part(request, caller)], self._sessions.limits.page_bytes_max)

    async def part(self, request: Request, caller: Caller) -> PartitionRows:
        """Return the sessions of a page that ask something, each with all that it asks as JSON."""
        parameters = Parameters(request)
        cursor = _cursor(parameters)
        found: list[tuple[SortKey, bytes]] = []
        size = 0
        async with self._sessions.scans.admitted(caller.key_id):
            page = await ranked(
                self._sessions,
                caller.workspace,
                RANKINGS[_SORT],
                cursor.after,
                parameters.whole(LIMIT),
                asks_a_person,
                lambda _: b"",
                newest_first=False,
                pairs={indexing.WAITS_FOR: indexing.APPROVAL},
            )
            for place, _ in page.sessions:
                shown = await self._asked(self._sessions.streams.peek_id(place.number))
                size += len(shown)
                if found and size > self._sessions.limits.page_bytes_max:
                    return PartitionRows(found, None, more=True, reach=found[-1][0])
                found.append((place, shown))
        return PartitionRows(found, None, page.next is not None, page.next)

    async def _asked(self, durable: StreamView | None) -> bytes:
        """Return what a session asks as JSON objects with commas between them."""
        if durable is None:
            return b""
        try:
            found = await waiting(self._sessions.events, durable)
        except (StreamNotFoundError, StreamGoneError):
            return b""  # it was deleted meanwhile
        generators = sorted(Control(durable.attributes, self._sessions.limits).generators)
        shown = (_shown(durable, one, generators, self._sessions.now_ms()) for one in found)
        return b",".join(map(msgspec.json.encode, shown))

    handlers: ClassVar[dict[str, Handler]] = {"listApprovals": _list}


def _shown(
    durable: StreamView, one: WaitingApproval, generators: list[str], now_ms: int
) -> PendingApprovalAnswer:
    asked = one.request
    return PendingApprovalAnswer(
        session_of(durable.stream.key),
        record.of(durable.attributes).title,
        ApprovalRequestAnswer(
            asked.id, asked.question, asked.options, asked.blocking, asked.about, asked.actor
        ),
        None if one.call is None else ApprovalCallAnswer(*one.call),
        generators,
        one.position,
        rfc3339(one.at_ms),
        max(0, now_ms - one.at_ms) / 1000,
    )


def page_of(parameters: Parameters, parts: Sequence[PartitionRows], bytes_max: int) -> Response:
    """Return a page of what all partitions have."""
    merged: MergedRows = merged_rows(parts, parameters.whole(LIMIT), bytes_max, descends=False)
    onward = None if merged.reach is None else _cursor(parameters).token(merged.reach, back=False)
    shown = [rows for _, rows in merged.sessions if rows]
    return Response(200, _FIELDS, json_page(shown, next_page=onward, up_to_date=True))


def _cursor(parameters: Parameters) -> SortedCursor:
    token = parameters.text("page")
    return SortedCursor(_SORT, False, back=False, after=None if token is None else place_of(token, _SORT))


async def decided(request: Request, search: Ask) -> Answer:
    """Return a page of decisions from what a search for them answers."""
    parameters = Parameters(request)
    query = f"q=type:ds.approval.decided&hits={_DECIDED_EACH}&limit={parameters.whole(LIMIT)}"
    if (token := parameters.text("page")) is not None:
        query += "&page=" + quote(token, safe="")
    answer = await search(part_request(request, _SEARCH, query.encode()))
    assert isinstance(answer, Response), "a search is not streamed"
    if answer.status != 200:
        return answer
    # In a thread: the events of a large page take longer to read than the event loop may be held.
    return Response(200, _FIELDS, await CPU.run(_decided_page, answer.body))


def _decided_page(body: bytes) -> bytes:
    found = _FOUND.decode(body)
    rows = [msgspec.json.encode(row) for group in found.data for row in _decisions(group)]
    return json_page(rows, next_page=found.next_page, up_to_date=found.up_to_date)


def _decisions(group: _Group) -> list[DecidedApprovalAnswer]:
    """Return the decisions in a session, the newest first; those that were erased are left out."""
    found: list[tuple[int, DecidedApprovalAnswer]] = []
    for raw in group.hits:
        try:
            hit = _HIT.decode(raw)
            position = msgspec.json.decode(hit.search["position"], type=int)
        except msgspec.MsgspecError:
            continue
        said = DecisionAnswer(hit.id, hit.decision, hit.reason, hit.actor)
        at_ms = parse_rfc3339(hit.created_at) or 0
        one = DecidedApprovalAnswer(
            group.session.id,
            group.session.title,
            DecidedRequestAnswer(hit.request),
            said,
            position,
            hit.created_at,
        )
        found.append((at_ms, one))
    return [one for _, one in sorted(found, key=lambda pair: pair[0], reverse=True)]
