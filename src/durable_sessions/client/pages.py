"""Pagination: the request for the next page, and when to stop."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypedDict, TypeVar

import httpx2

from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import Time, json_of, offset_text, session_path, time_text
from durable_sessions.client.event import Event
from durable_sessions.client.incarnation import PinnedIncarnation
from durable_sessions.client.info import SessionInfo, session_info

EVENTS_PER_PAGE = 1_000
SESSIONS_PER_PAGE = 100

Order = Literal["asc", "desc"]
Lease = Literal["held", "expired", "none"]
WaitsFor = Literal["approval"]
Sort = Literal["created_at", "started_at", "updated_at", "activity"]
"""What sessions are sorted by; for imported ones, ``started_at`` and ``activity`` are original times."""
T = TypeVar("T")


@dataclass(slots=True)
class ItemPage(Generic[T]):
    """The items of one page, the token of the next page, and the position that the answer states."""

    items: list[T]
    next_page: str | None
    next_offset: str | None = None
    up_to_date: bool = False
    closed: bool = False


class Paginator(Generic[T]):
    """Reads a list page by page: ``call()`` is the next request, until ``done``.

    Page tokens are positions in the list, so nothing is left out or repeated while it grows. With
    ``whole_pages`` the last page is not cut at the limit: the server has completed it with what belongs
    together. With ``pinned`` all pages are of one incarnation of a session.
    """

    def __init__(
        self,
        path: str,
        parameters: list[tuple[str, str]],
        item: Callable[[dict[str, Any]], T],
        page_size: int,
        limit: int | None = None,
        *,
        whole_pages: bool = False,
        pinned: PinnedIncarnation | None = None,
    ) -> None:
        if limit is not None and limit < 0:
            raise ValueError("limit is the most items to return, or None for all of them.")
        self._path = path
        self._parameters = parameters
        self._item = item
        self._page_size = page_size
        self._left = limit
        self._whole_pages = whole_pages
        self._pinned = pinned
        self._page: str | None = None
        self.done = limit == 0

    def call(self) -> ApiCall[ItemPage[T]]:
        """Return the request for the next page."""
        # Never more than is still wanted: the rest of a page would be read and thrown away.
        size = self._page_size if self._left is None else min(self._page_size, self._left)
        parameters = [*self._parameters, ("limit", str(size))]
        if self._page is not None:
            parameters.append(("page", self._page))
        call = ApiCall("GET", self._path, self._read, tuple(parameters))
        return call if self._pinned is None else self._pinned.pin(call)

    def take(self, page: ItemPage[T]) -> list[T]:
        """Return the items of a page, up to the limit, and move on behind it."""
        items = page.items
        if self._left is not None:
            if not self._whole_pages:
                items = items[: self._left]
            self._left = max(0, self._left - len(items))
        self._page = page.next_page
        self.done = page.next_page is None or self._left == 0
        return items

    def _read(self, answer: httpx2.Response) -> ItemPage[T]:
        body = json_of(answer)
        return ItemPage(
            [self._item(one) for one in body["data"]],
            body.get("next_page"),
            body.get("next_offset"),
            bool(body.get("up_to_date")),
            "stream-closed" in answer.headers,
        )


class EventFilters(TypedDict, total=False):
    """The keywords of ``Session.events``: which events are read, and in which order."""

    offset: str | int | None
    from_: int | None
    tail: int | None
    around: int | str | None
    window: int | None
    types: str | Iterable[str] | None
    after: Time | None
    before: Time | None
    order: Order
    pairs: Literal["keep"] | None
    clip: int | None
    lens: bool
    thread: str | None
    limit: int | None


def events(
    session: str,
    *,
    offset: str | int | None = None,
    from_: int | None = None,
    tail: int | None = None,
    around: int | str | None = None,
    window: int | None = None,
    types: str | Iterable[str] | None = None,
    after: Time | None = None,
    before: Time | None = None,
    order: Order = "asc",
    pairs: Literal["keep"] | None = None,
    clip: int | None = None,
    lens: bool = False,
    thread: str | None = None,
    limit: int | None = None,
    pinned: PinnedIncarnation | None = None,
) -> Paginator[Event]:
    """Paginate the events of a session."""
    parameters = given(
        ("offset", None if offset is None else offset_text(offset)),
        ("from", from_),
        ("tail", tail),
        ("around", around),
        ("window", window),
        ("order", None if order == "asc" else order),
        ("pairs", pairs),
        ("clip", clip),
        ("lens", "true" if lens else None),
    )
    parameters += type_parameters(types) + time_parameters(after, before)
    # Without this, a session that grows while its tail is read would yield more events than were asked for.
    if tail is not None and pairs is None:
        limit = tail if limit is None else min(tail, limit)
    path = session_path(session, *(() if thread is None else ("threads", thread)), "events")
    whole_pages = pairs is not None
    return Paginator(path, parameters, Event, EVENTS_PER_PAGE, limit, whole_pages=whole_pages, pinned=pinned)


class SessionFilters(TypedDict, total=False):
    """The keywords of ``client.sessions.list``: which sessions, and in which order."""

    limit: int | None
    q: str | None
    metadata: Mapping[str, str] | None
    lifecycle: str | Iterable[str] | None
    statuses: str | Iterable[str] | None
    agent_id: str | None
    after: Time | None
    before: Time | None
    include_archived: bool
    order: Order
    sort: Sort | None
    counts: bool
    holding: str | Iterable[str] | None
    show: str | Iterable[str] | None
    forked_from: str | None
    routed_to: str | None
    waits_for: WaitsFor | None
    lease: Lease | None
    done: bool | None


def sessions(
    *,
    limit: int | None = None,
    q: str | None = None,
    metadata: Mapping[str, str] | None = None,
    lifecycle: str | Iterable[str] | None = None,
    statuses: str | Iterable[str] | None = None,
    agent_id: str | None = None,
    after: Time | None = None,
    before: Time | None = None,
    include_archived: bool = False,
    order: Order = "desc",
    sort: Sort | None = None,
    counts: bool = False,
    holding: str | Iterable[str] | None = None,
    show: str | Iterable[str] | None = None,
    forked_from: str | None = None,
    routed_to: str | None = None,
    waits_for: WaitsFor | None = None,
    lease: Lease | None = None,
    done: bool | None = None,
) -> Paginator[SessionInfo]:
    """Paginate the sessions of the workspace."""
    parameters = given(("q", q), ("agent_id", agent_id), ("order", order), ("sort", sort))
    parameters += metadata_parameters(metadata)
    parameters += [("lifecycle", one) for one in _several(lifecycle)]
    parameters += [("statuses[]", one) for one in _several(statuses)]
    parameters += [("holding", one) for one in _several(holding)]
    parameters += [("show", one) for one in _several(show)]
    parameters += time_parameters(after, before)
    parameters += given(("forked_from", forked_from), ("routed_to", routed_to), ("lease", lease))
    parameters += given(("waits_for", waits_for))
    if done is not None:
        parameters.append(("done", "true" if done else "false"))
    if include_archived:
        parameters.append(("include_archived", "true"))
    if counts:
        parameters.append(("counts", "true"))
    return Paginator("/v1/sessions", parameters, session_info, SESSIONS_PER_PAGE, limit)


def type_parameters(types: str | Iterable[str] | None) -> list[tuple[str, str]]:
    """Return the parameters that select event types."""
    return [("types[]", one) for one in _several(types)]


def time_parameters(after: Time | None, before: Time | None) -> list[tuple[str, str]]:
    """Return the parameters that select a period."""
    return given(
        ("after", None if after is None else time_text(after)),
        ("before", None if before is None else time_text(before)),
    )


def metadata_parameters(metadata: Mapping[str, str] | None) -> list[tuple[str, str]]:
    """Return the parameters that select sessions with these metadata."""
    return [(f"metadata[{key}]", value) for key, value in (metadata or {}).items()]


def given(*parameters: tuple[str, str | int | None]) -> list[tuple[str, str]]:
    """Return the parameters that have a value."""
    return [(name, str(value)) for name, value in parameters if value is not None]


def _several(values: str | Iterable[str] | None) -> list[str]:
    if values is None:
        return []
    return [values] if isinstance(values, str) else list(values)
