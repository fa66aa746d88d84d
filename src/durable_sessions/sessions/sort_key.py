"""Where a session stands in a list."""

from typing import NamedTuple


class SortKey(NamedTuple):
    """The time that a list is sorted by, and the number of the session among those of the same time."""

    at_ms: int
    number: int
