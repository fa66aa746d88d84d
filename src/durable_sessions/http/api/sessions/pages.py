"""Pages of the threads and resources of a session, which are in memory."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api.sessions.json_pages import json_page
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.openapi.common import ALL_LIMIT
from durable_sessions.limits import Limits
from durable_sessions.storage.turns import Turns

T = TypeVar("T")


async def sliced(
    items: Sequence[T],
    parameters: Parameters,
    show: Callable[[T], bytes],
    turns: Turns,
    limits: Limits,
    wanted: Callable[[T], bool] = lambda item: True,
) -> bytes:
    """Return a page of items as JSON, with the token of the next one; new items come last and move no page.

    Positions count all items, whether they match the filter or not, so that a page stays in place when items
    change. A page ends before the item that would make it too large.
    """
    limit = parameters.whole(ALL_LIMIT)
    found: list[bytes] = []
    size = 0
    turn = turns.begin()
    for at in range(_begin(parameters), len(items)):
        if wanted(items[at]):
            shown = show(items[at])
            size += len(shown) + 1
            if len(found) == limit or (found and size > limits.page_bytes_max):
                return json_page(found, next_page=str(at))
            found.append(shown)
        if turn.over:
            await turn.rest()
    return json_page(found, next_page=None)


def _begin(parameters: Parameters) -> int:
    token = parameters.text("page")
    if token is None:
        return 0
    if not token.isascii() or not token.isdigit() or len(token) > 9:
        raise InvalidRequestError(problem="page is not one that this server gave; send next_page as it came.")
    return int(token)
