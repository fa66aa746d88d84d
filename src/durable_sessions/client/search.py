"""Searching: the requests, and what is found."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

import httpx2

from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import Time, json_of, session_path, time_text
from durable_sessions.client.event import Event
from durable_sessions.client.info import SessionInfo, session_info
from durable_sessions.client.pages import (
    Order,
    given,
    metadata_parameters,
    time_parameters,
    type_parameters,
)

HITS_MAX = 20
"""How many hits of one session are asked for unless said otherwise."""
SESSIONS_MAX = 20
"""How many sessions with hits are asked for unless said otherwise."""
HITS_PER_SESSION_MAX = 3
"""How many hits of each of several sessions are asked for unless said otherwise."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An event that was found; ``highlights`` are the words that matched."""

    event: Event
    score: float
    snippet: str
    highlights: list[Any]
    raw: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Hits in one session, the best first; ``next_page`` asks for more of them."""

    hits: list[Hit]
    total_hits: int
    next_page: str | None
    indexed_through: str | None
    up_to_date: bool


@dataclass(frozen=True, slots=True)
class SearchGroup:
    """A session in which something was found, and the best of it."""

    session: SessionInfo
    hits: list[Hit]
    raw: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SearchResults:
    """Sessions in which something was found, the best first; ``raw`` is the whole answer."""

    groups: list[SearchGroup]
    total_hits: int
    total_sessions: int
    next_page: str | None
    indexed_through: Any
    up_to_date: bool
    raw: dict[str, Any] = field(repr=False)


class SearchFilters(TypedDict, total=False):
    """Which events of the workspace are searched, and how many are found."""

    limit: int
    hits: int
    session: str | None
    role: str | None
    agent: str | None
    metadata: Mapping[str, str] | None
    types: str | Iterable[str] | None
    after: Time | None
    before: Time | None
    order: Order | None
    page: str | None


def everywhere(
    q: str,
    *,
    limit: int = SESSIONS_MAX,
    hits: int = HITS_PER_SESSION_MAX,
    session: str | None = None,
    role: str | None = None,
    agent: str | None = None,
    metadata: Mapping[str, str] | None = None,
    types: str | Iterable[str] | None = None,
    after: Time | None = None,
    before: Time | None = None,
    order: Order | None = None,
    page: str | None = None,
) -> ApiCall[SearchResults]:
    """Search all sessions of the workspace."""
    parameters = given(
        ("q", q),
        ("limit", limit),
        ("hits", hits),
        ("session", session),
        ("role", role),
        ("agent", agent),
        ("after", None if after is None else time_text(after)),
        ("before", None if before is None else time_text(before)),
        ("order", order),
        ("page", page),
    )
    parameters += metadata_parameters(metadata) + type_parameters(types)
    return ApiCall("GET", "/v1/search", _results, tuple(parameters))


class EventSearchFilters(TypedDict, total=False):
    """Which events of one session are searched, and how many are found."""

    limit: int
    role: str | None
    types: str | Iterable[str] | None
    after: Time | None
    before: Time | None
    order: Order | None
    page: str | None


def within(
    session: str,
    q: str,
    *,
    limit: int = HITS_MAX,
    role: str | None = None,
    types: str | Iterable[str] | None = None,
    after: Time | None = None,
    before: Time | None = None,
    order: Order | None = None,
    page: str | None = None,
) -> ApiCall[SearchPage]:
    """Search one session."""
    parameters = given(("q", q), ("limit", limit), ("role", role), ("order", order), ("page", page))
    parameters += type_parameters(types) + time_parameters(after, before)
    return ApiCall("GET", session_path(session, "events"), _page, tuple(parameters))


def _results(answer: httpx2.Response) -> SearchResults:
    said = json_of(answer)
    return SearchResults(
        [SearchGroup(session_info(one["session"]), _hits(one["hits"]), one) for one in said["data"]],
        int(said.get("total_hits", 0)),
        int(said.get("total_sessions", 0)),
        said.get("next_page"),
        said.get("indexed_through"),
        bool(said.get("up_to_date", True)),
        said,
    )


def _page(answer: httpx2.Response) -> SearchPage:
    said = json_of(answer)
    return SearchPage(
        _hits(said["data"]),
        int(said.get("total_hits", 0)),
        said.get("next_page"),
        said.get("indexed_through"),
        bool(said.get("up_to_date", True)),
    )


def _hits(found: list[dict[str, Any]]) -> list[Hit]:
    return [_hit(one) for one in found]


def _hit(found: dict[str, Any]) -> Hit:
    how = found.get("search", {})
    event = {name: value for name, value in found.items() if name != "search"}
    return Hit(
        Event(event),
        float(how.get("score", 0.0)),
        str(how.get("snippet", "")),
        list(how.get("highlights", ())),
        found,
    )
