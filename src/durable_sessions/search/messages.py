"""Messages between the server and the search process: msgpack with a length in front."""

from array import array
from collections.abc import Iterator, Mapping
from itertools import islice
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from durable_sessions.search.index import IndexHit, Order
from durable_sessions.search.query import Query
from durable_sessions.search.scope import Scope

LENGTH = Struct("<I")
REPLY_BYTES_MAX = 4 * 1024 * 1024
"""The largest message of the process; one that sends more is broken and is killed."""
TAILS_PER_PART = 10_000


class Add(msgspec.Struct, tag="add", array_like=True, frozen=True):
    """Events of a stream from a position on, as they are stored: ``value,value,``."""

    workspace: str
    stream: int
    first: int
    data: bytes
    erasures: int = 0
    """How many events of the stream were erased before these were read."""

    @property
    def size(self) -> int:
        """How many bytes of the limit on unacknowledged messages it uses."""
        return len(self.data)


class Remove(msgspec.Struct, tag="remove", array_like=True, frozen=True):
    """A stream's events from a position on are gone.

    With ``purge_at_ms`` no file may have them any more by then.
    """

    workspace: str
    stream: int
    from_position: int
    purge_at_ms: int = 0

    @property
    def size(self) -> int:
        """About how many bytes of the limit on unacknowledged messages it uses."""
        return 64


class Erase(msgspec.Struct, tag="erase", array_like=True, frozen=True):
    """Events that were added before read otherwise now: each a position, and the event that is there.

    ``erasures`` counts all events of the stream that were erased. By ``purge_at_ms`` no file may have the
    erased ones any more.
    """

    workspace: str
    stream: int
    events: list[tuple[int, bytes]]
    erasures: int
    purge_at_ms: int

    @property
    def size(self) -> int:
        """About how many bytes of the limit on unacknowledged messages it uses."""
        return 64 + sum(len(event) for _, event in self.events)


class Ask(msgspec.Struct, tag="ask", array_like=True, frozen=True):
    """A search. It finds everything that was added before it, unless it names an older ``view``.

    With ``hits_per_session`` the answer is grouped, and ``limit`` and ``offset`` count sessions.
    """

    number: int
    workspace: str
    query: Query
    scope: Scope
    limit: int
    offset: int = 0
    order: Order = "score"
    hits_per_session: int = 0
    view: str = ""
    refs: tuple[str, ...] = ()
    """Instead of a query: all events that have one of these terms of refs, the oldest first."""
    deadline: float = 0.0
    """When the client stops waiting, by the machine's monotonic clock; 0 for never."""


class Cancel(msgspec.Struct, tag="cancel", array_like=True, frozen=True):
    """The client no longer waits for the answer to a search."""

    number: int


class Ping(msgspec.Struct, tag="ping", array_like=True, frozen=True):
    """Ask whether the process is alive; the answer is a :class:`Pong`."""


class Stop(msgspec.Struct, tag="stop", array_like=True, frozen=True):
    """Commit what was added, and end."""


class Indexed(msgspec.Struct, tag="indexed", array_like=True, frozen=True):
    """Up to which position some streams of a workspace are indexed: arrays of eight-byte numbers.

    Streams are sorted, across messages as well. ``erasures`` has for each how many erasures are known.
    """

    workspace: str
    streams: bytes
    tails: bytes
    erasures: bytes = b""


class Ready(msgspec.Struct, tag="ready", array_like=True, frozen=True):
    """The process serves; all ``Indexed`` messages came before this one."""


class Pong(msgspec.Struct, tag="pong", array_like=True, frozen=True):
    """The process is alive; its longest-running step began so many seconds ago.

    ``searches`` is how many it has carried out.
    """

    busy_seconds: float = 0.0
    searches: int = 0


class Taken(msgspec.Struct, tag="taken", array_like=True, frozen=True):
    """Acknowledges so many bytes of ``Add`` and ``Remove`` messages."""

    size: int


class SessionHits(NamedTuple):
    """Hits in one stream."""

    stream: int
    hits: list[IndexHit]


class SearchAnswer(msgspec.Struct, tag="answer", array_like=True, frozen=True):
    """The result of a search. If hits are not grouped, each is in a ``SessionHits`` of its own.

    ``view`` names the snapshot of the index that was searched, for the next page.
    """

    number: int
    sessions: list[SessionHits]
    total_hits: int
    total_sessions: int
    view: str


class Failed(msgspec.Struct, tag="failed", array_like=True, frozen=True):
    """A search that failed; with the number 0, the process itself could not start."""

    number: int
    reason: str


Request = Add | Remove | Erase | Ask | Cancel | Ping | Stop
Reply = Indexed | Ready | Pong | Taken | SearchAnswer | Failed


def frame(message: Request | Reply) -> bytes:
    """Return a message as it is sent."""
    payload = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(payload)) + payload


def indexed(
    workspace: str, tails: Mapping[int, int], erasures: Mapping[int, int] = MappingProxyType({})
) -> Iterator[Indexed]:
    """Yield what an index holds, a bounded number of streams at a time."""
    streams = iter(sorted(tails))
    while part := list(islice(streams, TAILS_PER_PART)):
        # Bytes of arrays instead of lists of numbers: a million streams are decoded without a million
        # objects.
        ends = array("q", [tails[stream] for stream in part])
        known = array("q", [erasures.get(stream, 0) for stream in part])
        yield Indexed(workspace, array("q", part).tobytes(), ends.tobytes(), known.tobytes())
