"""What partitions do for each other about names: say where one lives, place it elsewhere, give it up."""

from collections.abc import Awaitable, Callable

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.http.carrier.message import Request
from durable_sessions.storage.door import Streams
from durable_sessions.streams import placements
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.placements import Placement
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

WHERE, PLACE, GIVE_UP = b"/internal/where", b"/internal/place", b"/internal/give-up"


class NameAsked(msgspec.Struct, array_like=True):
    """A name of the caller's workspace; ``note`` is the number of a note that was given up, or shall be."""

    path: str
    partition: int = 0
    note: int = placements.NO_NOTE


class NameFound(msgspec.Struct, array_like=True):
    """Whether a partition has a stream of that name, and what it has noted of it."""

    exists: bool
    placement: Placement | None = None


_ASKED = msgspec.msgpack.Decoder(NameAsked)


class PlacementOperations:
    """Answers for one partition; every answer is durable when it is given."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.handlers: dict[bytes, Callable[[Request, Caller], Awaitable[object]]] = {
            WHERE: self._where,
            PLACE: self._place,
            GIVE_UP: self._give_up,
        }

    async def _where(self, request: Request, caller: Caller) -> object:
        asked = _ASKED.decode(request.body)
        name = Key(caller.workspace, asked.path)

        def decide(state: State, now_ms: int) -> tuple[list[Effect], NameFound]:
            return [], NameFound(state.get(name) is not None, placements.noted(state, name))

        return await self._streams.commit(decide)

    async def _place(self, request: Request, caller: Caller) -> object:
        asked = _ASKED.decode(request.body)
        name = Key(caller.workspace, asked.path)

        def decide(state: State, now_ms: int) -> tuple[list[Effect], NameFound]:
            effects, placement = placements.place(state, name, asked.partition, asked.note, now_ms)
            return effects, NameFound(placement is None, placement)

        return await self._streams.commit(decide)

    async def _give_up(self, request: Request, caller: Caller) -> object:
        asked = _ASKED.decode(request.body)
        name = Key(caller.workspace, asked.path)

        def decide(state: State, now_ms: int) -> tuple[list[Effect], NameFound]:
            effects, done = placements.give_up(state, name, asked.note, now_ms)
            return effects, NameFound(not done)

        return await self._streams.commit(decide)
