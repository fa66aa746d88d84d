"""What streams are listed by: times to sort them by, and terms to find them by.

Which of these a stream has is up to the packages above, who give an ``IndexOf``. It is used for streams in
memory and for the rows of the catalog alike.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from durable_sessions.streams.stream import Key

TimeOrder = Literal["began", "updated", "active"]
"""By which of their times streams are listed."""
ORDERS: tuple[TimeOrder, ...] = ("began", "updated", "active")
Place = tuple[int, int]
"""Where a stream stands in such a list: its time in milliseconds, then its number."""


class IndexedStream(NamedTuple):
    """The times of a stream in milliseconds, in the order of ``ORDERS``, and its terms."""

    times: tuple[int, int, int]
    terms: Sequence[int] = ()


IndexOf = Callable[[Key, int, int, Mapping[str, bytes]], IndexedStream | None]
"""Returns what a stream is listed by, given when it was created and changed, and its attributes; or None."""


def nothing_indexed(
    key: Key, created_ms: int, changed_ms: int, attributes: Mapping[str, bytes]
) -> IndexedStream | None:
    """List no stream by anything but its number."""
    return None
