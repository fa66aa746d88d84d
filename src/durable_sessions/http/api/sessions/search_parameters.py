"""What a search asks for, read from its query parameters: words, page, order and scope."""

import re
from typing import NamedTuple

from durable_sessions.errors import InvalidQueryError, InvalidRequestError
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.openapi import search as described
from durable_sessions.search import query_problems
from durable_sessions.search.index import Order
from durable_sessions.search.query import QUERY_CHARACTERS_MAX, Query, parse
from durable_sessions.search.scope import Scope
from durable_sessions.sessions.selection import Selection

_ORDERS: tuple[Order, ...] = ("score", "asc", "desc")
_PAGE = re.compile(r"([0-9a-f]{12})-([0-9]{1,6})(?:-([0-9]{1,15})-([0-9]{1,15}))?", re.ASCII)


class PageToken(NamedTuple):
    """Where a page begins: the snapshot in time, how many hits precede it, and the range of a session."""

    view: str = ""
    offset: int = 0
    start: int = 0
    stop: int | None = None


def query_of(text: str | None) -> Query:
    """Return the parsed query; any text is valid that has a word or a filter, and no misspelt filter."""
    if text is None or not text.strip():
        raise InvalidRequestError(problem="q is empty: send words to look for, such as q=timeout.")
    if (problem := query_problems.problem_of(text[:QUERY_CHARACTERS_MAX])) is not None:
        raise InvalidQueryError(problem=problem)
    query = parse(text)
    if not query.clauses and not query.filters:
        raise InvalidQueryError(problem=query_problems.without_words(text))
    return query


def require_no_page(parameters: Parameters) -> None:
    """Refuse what selects a page where all positions are asked for."""
    for other in ("page", "order", "limit", "clip"):
        if other in parameters:
            raise InvalidRequestError(
                problem=f"fields=positions has all positions in ascending order; leave out {other}."
            )


def page_of(parameters: Parameters) -> PageToken:
    """Return where the asked page begins; a token holds all of it, so that no server must remember it."""
    token = parameters.text("page")
    if token is None:
        return PageToken()
    match = _PAGE.fullmatch(token)
    if match is None:
        raise InvalidRequestError(problem="page is not one that this search gave; send next_page as it came.")
    if match[3] is None:
        return PageToken(match[1], int(match[2]))
    return PageToken(match[1], int(match[2]), int(match[3]), int(match[4]))


def order_of(parameters: Parameters) -> Order:
    """Return the order in which hits are wanted, the best first unless another is named."""
    chosen = parameters.choice("order", "score", _ORDERS)
    return next(order for order in _ORDERS if order == chosen)


def scope_of(parameters: Parameters, selection: Selection) -> Scope:
    """Return which events are searched: by type, role and time."""
    roles = parameters.texts("role")
    for role in roles:
        if role not in described.ROLES:
            raise InvalidRequestError(
                problem=f"role={role[:40]} is not known; send {', '.join(described.ROLES)}."
            )
    # A scope includes its beginning and excludes its end, in whole milliseconds: hence the additions of 1.
    lower = [selection.happened_after_ms, selection.after_ms]
    upper = [selection.through_ms]
    after = [at + 1 for at in lower if at is not None] + [at for at in (selection.from_ms,) if at is not None]
    before = [at + 1 for at in upper if at is not None]
    before += [at for at in (selection.happened_before_ms, selection.before_ms) if at is not None]
    return Scope(
        types=selection.types,
        roles=tuple(roles),
        after_ms=max(after, default=None),
        before_ms=min(before, default=None),
    )
