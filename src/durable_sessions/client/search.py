"""Search: the requests and their results."""

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
"""The default number of hits in a search of one session."""
SESSIONS_MAX = 20
"""The default number of sessions in a search of the workspace."""
HITS_PER_SESSION_MAX = 3
"""The default number of hits for each session in a search of the workspace."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An event that matched; ``highlights`` mark the words that matched."""

    event: Event
    score: float
    snippet: str
    highlights: list[Any]
    raw: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Hits in one session, the best first; ``next_page`` is the token for more of them."""

    hits: list[Hit]
    total_hits: int
    next_page: str | None
    indexed_through: str | None
    up_to_date: bool


@dataclass(frozen=True, slots=True)
class SearchPositions:
    """Where in one session events match, ascending; ``truncated`` if there are more than these."""

    positions: list[int]
    total_hits: int
    truncated: bool
    indexed_through: str | None
    up_to_date: bool


@dataclass(frozen=True, slots=True)
class SearchGroup:
    """A session with hits, and the best of them."""

    session: SessionInfo
    hits: list[Hit]
    raw: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SearchResults:
    """Sessions with hits, the best first; ``raw`` is the whole answer."""

    groups: list[SearchGroup]
    total_hits: int
    total_sessions: int
    next_page: str | None
    indexed_through: Any
    up_to_date: bool
    raw: dict[str, Any] = field(repr=False)


class SearchFilters(TypedDict, total=False):
    """The keywords of ``client.search``: which events are searched, and how many are returned."""

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
    """The keywords of ``Session.search``: which events are searched, and how many are returned."""

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


class PositionFilters(TypedDict, total=False):
    """The keywords of ``Session.search_positions``: which events are searched."""

    role: str | None
    types: str | Iterable[str] | None
    after: Time | None
    before: Time | None


def positions(
    session: str,
    q: str,
    *,
    role: str | None = None,
    types: str | Iterable[str] | None = None,
    after: Time | None = None,
    before: Time | None = None,
) -> ApiCall[SearchPositions]:
    """Search one session for positions."""
    parameters = given(("q", q), ("fields", "positions"), ("role", role))
    parameters += type_parameters(types) + time_parameters(after, before)
    return ApiCall("GET", session_path(session, "events"), _positions, tuple(parameters))


def _positions(answer: httpx2.Response) -> SearchPositions:
    body = json_of(answer)
    return SearchPositions(
        [int(position) for position in body["positions"]],
        int(body["total_hits"]),
        bool(body["truncated"]),
        body.get("indexed_through"),
        bool(body.get("up_to_date", True)),
    )


def _results(answer: httpx2.Response) -> SearchResults:
    body = json_of(answer)
    return SearchResults(
        [SearchGroup(session_info(one["session"]), _hits(one["hits"]), one) for one in body["data"]],
        int(body.get("total_hits", 0)),
        int(body.get("total_sessions", 0)),
        body.get("next_page"),
        body.get("indexed_through"),
        bool(body.get("up_to_date", True)),
        body,
    )


def _page(answer: httpx2.Response) -> SearchPage:
    body = json_of(answer)
    return SearchPage(
        _hits(body["data"]),
        int(body.get("total_hits", 0)),
        body.get("next_page"),
        body.get("indexed_through"),
        bool(body.get("up_to_date", True)),
    )


def _hits(found: list[dict[str, Any]]) -> list[Hit]:
    return [_hit(one) for one in found]


def _hit(found: dict[str, Any]) -> Hit:
    match = found.get("search", {})
    event = {name: value for name, value in found.items() if name != "search"}
    return Hit(
        Event(event),
        float(match.get("score", 0.0)),
        str(match.get("snippet", "")),
        list(match.get("highlights", ())),
        found,
    )
