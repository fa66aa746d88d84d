"""Stands before a partition's application: a request about a name that lives elsewhere goes no further."""

from collections.abc import Awaitable
from typing import Protocol

from durable_sessions.access.caller import Caller
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.node.targets import named_of
from durable_sessions.streams.placed_names import PlacedNames
from durable_sessions.streams.placements import Placement
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

_MISDIRECTED = 421
_PLACED_AT = b"Placed-At"


class GuardedPartition(Protocol):
    """The partition whose names are looked up."""

    @property
    def tip(self) -> State:
        """The state when everything decided so far is durable."""
        ...

    def settled(self) -> Awaitable[None]:
        """Return what is done when everything decided so far is durable."""
        ...


class PlacementGate:
    """Answers for one partition which requests belong to another; a router follows such an answer."""

    def __init__(self, partition: GuardedPartition, names: PlacedNames) -> None:
        self._partition = partition
        self._names = names

    def redirect(self, request: Request) -> Awaitable[Answer] | None:
        """Return the answer to a request that belongs elsewhere, None if it is answered here."""
        named, caller = request.named or named_of(request), request.caller
        if named is None or not isinstance(caller, Caller):
            return None
        name = Key(caller.workspace, named.path)
        where = self._names.elsewhere(self._partition.tip, name, named.note)
        return None if where is None else self._answer(request, where)

    async def _answer(self, request: Request, where: Placement) -> Answer:
        """Answer when what the answer rests on is durable: a note that is lost would never have been."""
        try:
            await self._partition.settled()
        except DurableSessionsError as error:
            return ANSWER_FORMAT.refuse(request.path, error, request.id)
        return Response(_MISDIRECTED, [(_PLACED_AT, b"%d %d" % where)])


def placement_in(answer: Answer) -> Placement | None:
    """Return where else a request belongs, None if this is the answer to it."""
    if answer.status != _MISDIRECTED or not answer.headers or answer.headers[0][0] != _PLACED_AT:
        return None
    partition, note = map(int, answer.headers[0][1].split())
    return Placement(partition, note)
