"""Pages of what one session holds in memory: its threads and its resources."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.sessions.parameters import Parameters

T = TypeVar("T")

_PAGE_MAX = 1_000


def sliced(
    items: Sequence[T], parameters: Parameters, wanted: Callable[[T], bool] = lambda item: True
) -> dict[str, object]:
    """Return a page of items, with where the next one begins; new items come last and move no page.

    A page counts items whether wanted or not, so that it holds its place when they change.
    """
    limit = parameters.number("limit", _PAGE_MAX, _PAGE_MAX, 1)
    found: list[T] = []
    for at in range(_begin(parameters), len(items)):
        if wanted(items[at]):
            if len(found) == limit:
                return {"data": found, "next_page": str(at)}
            found.append(items[at])
    return {"data": found, "next_page": None}


def _begin(parameters: Parameters) -> int:
    token = parameters.text("page")
    if token is None:
        return 0
    if not token.isascii() or not token.isdigit() or len(token) > 9:
        raise InvalidRequestError(problem="page is not one that this server gave; send next_page as it came.")
    return int(token)
