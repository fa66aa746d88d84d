"""What the server and the process that searches say to each other: msgpack with a length in front."""

from struct import Struct
from typing import NamedTuple

import msgspec

from durable_sessions.search.index import Hit, Order
from durable_sessions.search.query import Query
from durable_sessions.search.scope import Scope

LENGTH = Struct("<I")
FRAME_BYTES_MAX = 64 * 1024 * 1024


class Add(msgspec.Struct, tag="add", array_like=True, frozen=True):
    """Events of a stream from a position on, as they are stored: ``value,value,``."""

    workspace: str
    stream: int
    first: int
    data: bytes

    @property
    def size(self) -> int:
        """What it counts among what is under way."""
        return len(self.data)


class Remove(msgspec.Struct, tag="remove", array_like=True, frozen=True):
    """A stream's events from a position on are gone."""

    workspace: str
    stream: int
    from_position: int

    @property
    def size(self) -> int:
        """What it counts among what is under way, near enough."""
        return 64


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


class Stop(msgspec.Struct, tag="stop", array_like=True, frozen=True):
    """Keep what was added, and end."""


class Ready(msgspec.Struct, tag="ready", array_like=True, frozen=True):
    """The process serves; ``tails`` say by workspace and stream up to where events are in the index."""

    tails: dict[str, dict[int, int]]


class Taken(msgspec.Struct, tag="taken", array_like=True, frozen=True):
    """What was added or removed counts so many bytes less."""

    size: int


class Session(NamedTuple):
    """Hits in one stream."""

    stream: int
    hits: list[Hit]


class Answer(msgspec.Struct, tag="answer", array_like=True, frozen=True):
    """What a search found. Hits that are not grouped are all of one ``Session`` each.

    ``view`` names the point in time that was searched, for the next page.
    """

    number: int
    sessions: list[Session]
    total_hits: int
    total_sessions: int
    view: str


class Failed(msgspec.Struct, tag="failed", array_like=True, frozen=True):
    """A search that could not be carried out; without a number, the process itself could not begin."""

    number: int
    reason: str


Request = Add | Remove | Ask | Stop
Reply = Ready | Taken | Answer | Failed


def frame(message: Request | Reply) -> bytes:
    """Return a message as it is sent."""
    payload = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(payload)) + payload
