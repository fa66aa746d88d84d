"""Events of sessions in other partitions: whoever has the session says which of them there are."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import LinkDownError
from durable_sessions.http.api.neighbours import Neighbours, on_behalf_of
from durable_sessions.http.carrier.message import Request
from durable_sessions.sessions.references import KnownEvents
from durable_sessions.sessions.store import Sessions
from durable_sessions.streams import placements
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.placements import AT_HOME, Placement
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

T = TypeVar("T")

KNOWN_EVENTS = b"/internal/known-events"
"""Where a partition says which events a session of it has."""
_TRIES = 8
"""How often home is asked for a name: each further time only if others have moved the name meanwhile."""


class _Asked(NamedTuple):
    path: str
    events: Sequence[str]


class _Said(NamedTuple):
    """What a partition has of a session, and if that is nothing, where it has noted that the name lives."""

    known: KnownEvents | None
    placement: Placement | None = None


class ForeignEvents:
    """Asks the partition that a session lives in: the home of its name, or where home's note says."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours

    async def find(self, key: Key, events: Sequence[str]) -> KnownEvents | None:
        """Return which of these events a session has, None if there is no such session.

        Raises LinkDownError if that cannot be known now.
        """

        async def ask(partition: int) -> _Said:
            asked = _Asked(key.path, events)
            said: _Said = await self._neighbours.read(
                partition, KNOWN_EVENTS, on_behalf_of(key.workspace), asked, _Said
            )
            return said

        return await asked_where_it_lives(self._neighbours.home(*key), ask)


async def asked_where_it_lives(
    home: int, ask: Callable[[int], Awaitable[tuple[T | None, Placement | None]]]
) -> T | None:
    """Return what the partition that a name lives in says of it, None if nobody has it.

    ``ask`` returns what a partition says, and if that is nothing, where it has noted that the name lives.
    """
    refused: Placement | None = None
    for _ in range(_TRIES):
        said, placement = await ask(home)
        if said is not None or placement is None or placement.partition == AT_HOME:
            return said
        if placement == refused:
            return None  # the name has a place, and nobody there has it now
        said, _ = await ask(placement.partition)
        if said is not None:
            return said
        refused = placement
    raise LinkDownError(reason="the name is being moved")


async def answer(sessions: Sessions, request: Request, caller: Caller) -> _Said:
    """Answer the question of another partition; what is said is durable."""
    asked = msgspec.msgpack.decode(request.body, type=_Asked)
    key = Key(caller.workspace, asked.path)
    known = await sessions.references.known(key, asked.events)
    return _Said(None, await noted(sessions, key)) if known is None else _Said(known)


async def noted(sessions: Sessions, key: Key) -> Placement | None:
    """Return where a name lives as far as this partition, its home, knows; None if it has no note."""

    def decide(state: State, now_ms: int) -> tuple[list[Effect], Placement | None]:
        return [], placements.noted(state, key)

    return await sessions.streams.commit(decide)
