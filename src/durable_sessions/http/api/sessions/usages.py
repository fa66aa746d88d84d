"""Usage over HTTP: what the sessions of a workspace used, summed by day, agent, model or metadata."""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import ClassVar

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import DurableSessionsError, InvalidRequestError
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions.errors import refusal
from durable_sessions.http.api.sessions.merged_rows import part_request
from durable_sessions.http.api.sessions.page_tokens import UNSEALED, PageTokens, not_given
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.bodies.usage import UsageAnswer, UsageSum
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi.usage import AFTER, BY
from durable_sessions.limits import Limits
from durable_sessions.sessions import record, summary, usage_days
from durable_sessions.sessions.graph.happened import ModelUsage
from durable_sessions.sessions.indexing import value_text
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.usage_days import UsedRow
from durable_sessions.storage.door import StreamView
from durable_sessions.threads import CPU

PATH = b"/internal/used"
"""Where each partition answers with its sums."""
_FIELDS: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_BY = re.compile(r"day|agent|model|metadata\[(.+)\]", re.DOTALL)
_STEP_SESSIONS = 100
_KEY_CHARACTERS_MAX = 200
_START, _END = -1, -2
"""Places of a partition: before its newest session, and behind its oldest one."""


class GroupSum(msgspec.Struct, array_like=True):
    """What one group used, and in how many sessions."""

    usage: ModelUsage = msgspec.field(default_factory=ModelUsage)
    priced: int = 0
    sessions: int = 0

    def add(self, other: "GroupSum") -> None:
        """Add what others of the group used."""
        self.usage.add(other.usage)
        self.priced += other.priced
        self.sessions += other.sessions


class PartitionSums(msgspec.Struct, array_like=True):
    """The sums of some sessions of a partition by key, and behind which session it goes on."""

    groups: list[tuple[str | None, GroupSum]]
    next: int
    is_exact: bool


_PARTS = msgspec.msgpack.Decoder(PartitionSums)
Ask = Callable[[int, Request], Awaitable[Answer]]


class _Agent(msgspec.Struct):
    id: str = ""


class _Sums:
    """Sums by key, of which there are a bounded number; what has no room is summed under None."""

    def __init__(self, most: int) -> None:
        self.groups: dict[str | None, GroupSum] = {}
        self._most = most

    def add(self, key: str | None, some: GroupSum) -> None:
        if key not in self.groups and len(self.groups) >= self._most:
            key = None
        self.groups.setdefault(key, GroupSum()).add(some)


class UsageReports:
    """Answers for the sessions of one partition."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._limits = sessions.limits

    async def _read(self, request: Request, caller: Caller) -> Answer:
        parameters = Parameters(request)
        (place,) = _places(parameters, 1, UNSEALED)
        part = await self._summed(parameters, caller, place)
        return answer_of(parameters, [part], self._limits, UNSEALED)

    async def part(self, request: Request, caller: Caller) -> PartitionSums:
        """Return what one of several partitions has for a page."""
        parameters = Parameters(request)
        return await self._summed(parameters, caller, parameters.number("place", _START, 2**53))

    async def _summed(self, parameters: Parameters, caller: Caller, place: int) -> PartitionSums:
        """Sum what the sessions behind a place used; looks at a bounded number of them."""
        if place == _END:
            return PartitionSums([], _END, is_exact=True)
        by, pair = _grouping(parameters)
        after_ms = parameters.time_ms(AFTER)
        from_day = None if after_ms is None else usage_days.day_of(after_ms)
        sums = _Sums(self._limits.usage_groups_max)
        is_exact, looked = True, 0
        now_ms = self._sessions.now_ms()
        at = None if place == _START else place
        async with self._sessions.scans.admitted(caller.key_id):
            turn = self._sessions.scans.turns.begin()
            while looked < self._limits.listed_sessions_max:
                page = self._sessions.streams.folders.page(
                    caller.workspace, record.FOLDER, at, _STEP_SESSIONS, newest_first=True
                )
                for durable in page.streams:
                    if not durable.removed and not durable.stream.expired(now_ms):
                        is_exact &= _add(sums, durable, by, pair, from_day)
                    at = durable.stream.id
                    if turn.over:
                        await turn.rest()
                looked += len(page.streams)
                if not page.more:
                    return PartitionSums(list(sums.groups.items()), _END, is_exact)
        return PartitionSums(list(sums.groups.items()), _START if at is None else at, is_exact)

    handlers: ClassVar[dict[str, Handler]] = {"readUsage": _read}


class MergedUsages:
    """Answers ``GET /v1/usage`` from several partitions; ``ask`` asks one of them."""

    def __init__(self, ask: Ask, partitions: Sequence[int], limits: Limits, tokens: PageTokens) -> None:
        self._ask = ask
        self._tokens = tokens
        self._partitions = partitions
        self._limits = limits

    async def __call__(self, request: Request) -> Answer:
        """Answer with the sums of all; a partition that cannot answer makes it fail, not smaller."""
        try:
            parameters = Parameters(request)
            parts: list[PartitionSums] = []
            # One after the other: each looks at many sessions, and most of a server's share its processors.
            places = _places(parameters, len(self._partitions), self._tokens)
            for number, place in zip(self._partitions, places, strict=True):
                if place == _END:
                    parts.append(PartitionSums([], _END, is_exact=True))
                    continue
                answer = await self._ask(number, _part(request, place))
                assert isinstance(answer, Response), "sums are not streamed"
                if answer.status != 200:
                    return answer
                parts.append(_PARTS.decode(answer.body))
            # In a thread: of many partitions, the groups take longer than the event loop may be held.
            return await CPU.run(answer_of, parameters, parts, self._limits, self._tokens)
        except DurableSessionsError as error:
            return refusal(error, request)


def answer_of(
    parameters: Parameters, parts: Sequence[PartitionSums], limits: Limits, tokens: PageTokens
) -> Response:
    """Return the sums of all partitions."""
    by, _ = _grouping(parameters)
    sums = _Sums(limits.usage_groups_max)
    for part in parts:
        for key, some in part.groups:
            sums.add(key, some)
    found = list(sums.groups.items())
    if by == "day":
        found.sort(key=lambda pair: pair[0] or "")
    else:
        found.sort(key=lambda pair: _weight(pair[1]), reverse=True)
    places = [part.next for part in parts]
    is_over = all(place == _END for place in places)
    said = UsageAnswer(
        [_shown(key, some) for key, some in found],
        is_over and "page" not in parameters and all(part.is_exact for part in parts),
        None if is_over else tokens.token(places),
    )
    return Response(200, _FIELDS, msgspec.json.encode(said))


def _add(sums: _Sums, durable: StreamView, by: str, pair: str | None, from_day: int | None) -> bool:
    """Add what a session used; say whether all of it could be told apart."""
    attributes = durable.attributes
    if summary.SUMMARY not in attributes:
        return True  # no model request has ended there
    rows = usage_days.of(attributes)
    rest = usage_days.undated(rows, summary.of(attributes).usage)
    is_undated = bool(rest.tokens or rest.cache_read_input_tokens)
    if is_undated:
        rows.append(UsedRow(None, None, rest))
    shown = [row for row in rows if from_day is None or (row.day is not None and row.day >= from_day)]
    own: dict[str | None, GroupSum] = {}
    for key, row in _keyed(shown, durable, by, pair):
        own.setdefault(key, GroupSum(sessions=1)).add(GroupSum(row.usage, row.priced))
    for key, some in own.items():
        sums.add(key, some)
    return from_day is None or all(row.day is not None for row in rows)


def _keyed(
    rows: Sequence[UsedRow], durable: StreamView, by: str, pair: str | None
) -> Iterator[tuple[str | None, UsedRow]]:
    """Yield what a session used, each with the key of its group."""
    if by == "day":
        yield from ((row.date, row) for row in rows)
    elif by == "model":
        yield from ((row.model, row) for row in rows)
    elif rows:
        said = record.of(durable.attributes)
        if pair is not None:
            value = said.metadata.get(pair)
            key = None if value is None else value_text(value)[:_KEY_CHARACTERS_MAX]
        else:
            key = (
                None if said.agent == record.NULL else msgspec.json.decode(said.agent, type=_Agent).id or None
            )
        yield from ((key, row) for row in rows)


def _grouping(parameters: Parameters) -> tuple[str, str | None]:
    """Return what to sum by, and the key of the metadata if it is that."""
    given = parameters.text(BY.name) or str(BY.default)
    match = _BY.fullmatch(given)
    if match is None:
        raise InvalidRequestError(
            problem=f"by={given[:40]} is not known; send day, agent, model or metadata[key]."
        )
    return ("metadata" if match[1] else given), match[1]


def _places(parameters: Parameters, count: int, tokens: PageTokens) -> list[int]:
    """Return where each partition goes on."""
    token = parameters.text("page")
    if token is None:
        return [_START] * count
    places = tokens.places(token, list[int], "server")
    if len(places) != count or min(places) < _END or max(places) > 2**53:
        raise not_given("server")
    return places


def _part(request: Request, place: int) -> Request:
    kept = [one for one in request.query.split(b"&") if one and one.partition(b"=")[0] != b"page"]
    if place != _START:
        kept.append(b"place=%d" % place)
    return part_request(request, PATH, b"&".join(kept))


def _weight(some: GroupSum) -> tuple[float, int]:
    return some.usage.cost_usd, some.usage.tokens + some.usage.cache_read_input_tokens


def _shown(key: str | None, some: GroupSum) -> UsageSum:
    used = some.usage
    return UsageSum(
        key,
        some.sessions,
        used.requests,
        some.priced,
        used.input_tokens,
        used.output_tokens,
        used.cache_read_input_tokens,
        used.cache_creation_input_tokens,
        used.cost_usd,
    )
