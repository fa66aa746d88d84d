"""Lists of sessions: filters, and pages that stay consistent while sessions are created."""

from typing import NamedTuple

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.api.sessions.json_pages import json_page
from durable_sessions.http.api.sessions.listed_slots import ListedSlots, listed_slots
from durable_sessions.http.api.sessions.listed_work import ListedWork
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.session_counts import counted
from durable_sessions.http.api.sessions.sorted_pages import CREATED, sorted_cursor, sorted_sessions
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.common import CREATED_AT, INCLUDE_ARCHIVED
from durable_sessions.http.openapi.sessions import AGENT_VERSION, LIMIT, ORDER, SORT
from durable_sessions.sessions import record, summary, view
from durable_sessions.sessions.indexing import value_text
from durable_sessions.sessions.outline.outlines import Outlines
from durable_sessions.sessions.session_lists import Listed, Wanted
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.session_object import LIFECYCLES
from durable_sessions.sessions.sort_key import SortKey
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView


class ListCursor(NamedTuple):
    """Where a page begins: after a session, in an order, forwards or backwards."""

    newest_first: bool
    back: bool
    after: int | None

    def __str__(self) -> str:
        return f"{'desc' if self.newest_first else 'asc'}-{'prev' if self.back else 'next'}-{self.after}"

    @property
    def descends(self) -> bool:
        """Whether later sessions come first, in the direction of reading."""
        return self.newest_first != self.back

    def onward(self, after: int | None) -> "ListCursor | None":
        """Return where the page after this one begins, None at the end."""
        return None if after is None else self._replace(after=after)

    def turned(self) -> "ListCursor | None":
        """Return where the page in the other direction begins."""
        if self.after is None:
            return None
        step = 1 if self.newest_first == self.back else -1
        return self._replace(back=not self.back, after=self.after + step)


class PartitionRows(msgspec.Struct, array_like=True):
    """Sessions of one partition, each with its place.

    ``more`` says whether others follow; in a list by creation, they follow the position ``next``, in one by
    another time the place ``reach``.
    """

    sessions: list[tuple[SortKey, bytes]]
    next: int | None
    more: bool
    reach: SortKey | None = None


async def listed(sessions: Sessions, outlines: Outlines, request: Request, caller: Caller) -> bytes:
    """Return a page of sessions as JSON, with the tokens of the next and the previous page."""
    parameters = Parameters(request)
    slots = listed_slots(parameters, sessions.limits)
    work = ListedWork(parameters, sessions, caller.workspace)
    wanted = work.also(slots.also_held(sessions, _wanted(parameters, tolerant=is_strict(request))))
    pairs = parameters.nested("metadata") | work.pairs
    limit = parameters.whole(LIMIT)
    if (sort := sort_of(parameters)) != CREATED:
        sorting = sorted_cursor(parameters, sort)
        async with sessions.scans.admitted(caller.key_id):
            found = await sorted_sessions(
                sessions, sorting, caller.workspace, limit, wanted, pairs, slots.indexed
            )
            found.sessions, is_cut = await slots.shown(sessions, found.sessions)
            found.next = found.sessions[-1][0] if is_cut else found.next
            found.sessions = await counted(sessions, outlines, parameters, found.sessions)
        return sorting.page(found)
    cursor = list_cursor(parameters)
    async with sessions.scans.admitted(caller.key_id):
        created = await _created(sessions, cursor, caller.workspace, limit, wanted, pairs, slots)
        created.sessions = await counted(sessions, outlines, parameters, created.sessions)
    shown = [one for _, one in created.sessions]
    following, previous = cursor.onward(created.next), cursor.turned()
    if cursor.back:
        shown, following, previous = shown[::-1], previous, following
    return json_page(
        shown,
        next_page=None if following is None else str(following),
        prev_page=None if previous is None else str(previous),
    )


async def rows(sessions: Sessions, outlines: Outlines, request: Request, caller: Caller) -> PartitionRows:
    """Return what one of several partitions has for a page of the whole list."""
    parameters = Parameters(request)
    slots = listed_slots(parameters, sessions.limits)
    work = ListedWork(parameters, sessions, caller.workspace)
    wanted = work.also(slots.also_held(sessions, _wanted(parameters, tolerant=is_strict(request))))
    pairs = parameters.nested("metadata") | work.pairs
    limit = parameters.whole(LIMIT)
    sort = sort_of(parameters)
    async with sessions.scans.admitted(caller.key_id):
        if sort != CREATED:
            sorting = sorted_cursor(parameters, sort)
            ranked = await sorted_sessions(
                sessions, sorting, caller.workspace, limit, wanted, pairs, slots.indexed
            )
            ranked.sessions, is_cut = await slots.shown(sessions, ranked.sessions)
            ranked.next = ranked.sessions[-1][0] if is_cut else ranked.next
            ranked.sessions = await counted(sessions, outlines, parameters, ranked.sessions)
            return PartitionRows(ranked.sessions, None, ranked.next is not None, ranked.next)
        cursor = list_cursor(parameters)
        found = await _created(sessions, cursor, caller.workspace, limit, wanted, pairs, slots)
        found.sessions = await counted(sessions, outlines, parameters, found.sessions)
        return PartitionRows(found.sessions, found.next, found.next is not None)


async def _created(
    sessions: Sessions,
    cursor: ListCursor,
    workspace: str,
    limit: int,
    wanted: Wanted,
    pairs: dict[str, str],
    slots: ListedSlots,
) -> Listed:
    """Return the sessions of a page, in the order of their creation."""
    found = await sessions.lists.by_creation(
        workspace,
        cursor.after,
        limit,
        wanted,
        lambda one: msgspec.json.encode(sessions.shown(one)),
        newest_first=cursor.descends,
        pairs=pairs,
        slot=slots.indexed,
    )
    found.sessions, is_cut = await slots.shown(sessions, found.sessions)
    found.next = found.sessions[-1][0].number if is_cut else found.next
    return found


def sort_of(parameters: Parameters) -> str:
    """Return what a list is sorted by."""
    return parameters.word(SORT)


def list_cursor(parameters: Parameters) -> ListCursor:
    """Return where a page of a list by creation begins."""
    order = parameters.word(ORDER)
    token = parameters.text("page")
    if token is None:
        return ListCursor(order == "desc", back=False, after=None)
    made, _, rest = token.partition("-")
    way, _, after = rest.partition("-")
    known = made in ("asc", "desc") and way in ("next", "prev") and after.isascii() and after.isdigit()
    if not known or len(after) > 18:
        raise InvalidRequestError(problem="page is not one that this server gave; send next_page as it came.")
    if "order" in parameters and made != order:
        raise InvalidRequestError(problem=f"The page was made with order={made}; send the same order.")
    return ListCursor(made == "desc", back=way == "prev", after=int(after))


def _wanted(parameters: Parameters, *, tolerant: bool) -> Wanted:
    """Return a function that says whether a session passes all filters."""
    tests: list[Wanted] = []
    lifecycles = parameters.choices("lifecycle", LIFECYCLES, tolerant=tolerant)
    if not parameters.flag(INCLUDE_ARCHIVED) and not lifecycles:
        tests.append(lambda one: record.ARCHIVED not in one.attributes)
    if statuses := parameters.choices("statuses", summary.STATUSES, tolerant=tolerant):
        tests.append(lambda one: summary.of(one.attributes).status in statuses)
    if lifecycles:
        tests.append(
            lambda one: view.lifecycle(one, summary.of(one.attributes), view.control_of(one)) in lifecycles
        )
    tests += _time_tests(parameters)
    tests += _agent_tests(parameters)
    if metadata := parameters.nested("metadata"):
        tests.append(by_metadata(metadata))
    if q := parameters.text("q"):
        tests.append(lambda one: _mentions(one, q.casefold()))
    for unknown in ("deployment_id", "memory_store_id"):
        if (value := parameters.text(unknown)) is not None:
            tests.append(lambda one, value=value: _refers(one, value))  # type: ignore[misc]
    return lambda one: all(test(one) for test in tests)


def _time_tests(parameters: Parameters) -> list[Wanted]:
    """Return the filters by time: of creation on this server, and of the beginning, perhaps elsewhere."""
    tests: list[Wanted] = []
    if (gt := parameters.time_ms(CREATED_AT["gt"])) is not None:
        tests.append(lambda one: one.stream.created_at_ms > gt)
    if (gte := parameters.time_ms(CREATED_AT["gte"])) is not None:
        tests.append(lambda one: one.stream.created_at_ms >= gte)
    if (lt := parameters.time_ms(CREATED_AT["lt"])) is not None:
        tests.append(lambda one: one.stream.created_at_ms < lt)
    if (lte := parameters.time_ms(CREATED_AT["lte"])) is not None:
        tests.append(lambda one: one.stream.created_at_ms <= lte)
    after, before = parameters.happened()
    if after is not None:
        tests.append(lambda one: view.began_ms(one) > after)
    if before is not None:
        tests.append(lambda one: view.began_ms(one) < before)
    return tests


class _Agent(msgspec.Struct):
    id: str = ""
    version: int = 0


def _agent_tests(parameters: Parameters) -> list[Wanted]:
    name, version = parameters.text("agent_id"), parameters.whole_if_given(AGENT_VERSION)
    return [] if name is None and version is None else [by_agent(name, version)]


def by_agent(name: str | None, version: int | None) -> Wanted:
    """Return a function that says whether a session has this agent, in this version."""

    def wanted(one: StreamView) -> bool:
        raw = record.of(one.attributes).agent
        agent = _Agent() if raw == record.NULL else msgspec.json.decode(raw, type=_Agent)
        return (name is None or agent.id == name) and (version is None or agent.version == version)

    return wanted


def by_metadata(wanted: dict[str, str]) -> Wanted:
    """Return a function that says whether a session has all these values in its metadata."""
    return lambda one: _has(record.of(one.attributes).metadata, wanted)


def _has(metadata: dict[str, msgspec.Raw], wanted: dict[str, str]) -> bool:
    """Say whether metadata has all these values; values other than texts are compared as JSON."""
    for key, value in wanted.items():
        raw = metadata.get(key)
        if raw is None or value_text(raw) != value:
            return False
    return True


def _mentions(one: StreamView, text: str) -> bool:
    said = record.of(one.attributes)
    places = [session_of(one.stream.key), said.title or ""]
    places += [f"{key} {bytes(raw).decode()}" for key, raw in said.metadata.items()]
    return any(text in place.casefold() for place in places)


def _refers(one: StreamView, name: str) -> bool:
    """Say whether a session has this resource."""
    return any(f'"{name}"'.encode() in bytes(raw) for raw in record.of(one.attributes).resources)
