"""The memory scopes of a workspace as any partition reaches them: one partition has them all."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import OutcomeUnknownError
from durable_sessions.http.api.neighbours import Neighbours, on_behalf_of
from durable_sessions.http.carrier.message import Request
from durable_sessions.limits import Limits
from durable_sessions.sessions.memory import directory, intake
from durable_sessions.sessions.memory.directory import FoundWrites, ReplacedWrites, WritesAsked
from durable_sessions.sessions.memory.records import FOLDER, NamedEvent, scope_key
from durable_sessions.sessions.memory.scopes import Scopes
from durable_sessions.streams.outbox import OwedRecord, RecordId
from durable_sessions.streams.stream import Key

_FIND, _TAKE = b"/internal/memory/find", b"/internal/memory/take"
_REPLACED = b"/internal/memory/replaced"


class _Taken(NamedTuple):
    """A record that a partition owes to a scope."""

    path: str
    source: str
    number: int
    data: bytes


class _ReplacedAsked(NamedTuple):
    """Which writes of a scope are asked about."""

    scope: str
    writes: list[NamedEvent]


class PartitionDelivery(Protocol):
    """Delivers what this partition owes to others; ``failure`` says why it cannot do so now."""

    failure: str | None

    async def delivered(self, targets: Iterable[Key], seconds_max: float) -> bool:
        """Wait until targets have all that they are owed now; False if that takes too long."""
        ...


class MemoryOwner:
    """Finds scopes wherever they are, and takes what other partitions owe to those of this one."""

    def __init__(self, scopes: Scopes, neighbours: Neighbours, limits: Limits) -> None:
        self.scopes = scopes
        self._neighbours = neighbours
        self._limits = limits
        self.outbox: PartitionDelivery | None = None
        self.handlers: dict[bytes, Callable[[Request, Caller], Awaitable[object]]] = {
            _FIND: self._answer_find,
            _TAKE: self._answer_take,
            _REPLACED: self._answer_replaced,
        }

    def is_home(self, workspace: str) -> bool:
        """Say whether this partition has the scopes of a workspace."""
        return self._neighbours.is_home(workspace, FOLDER)

    async def find(self, workspace: str, asked: WritesAsked) -> FoundWrites:
        """Look writes up where the scopes are."""
        if self.is_home(workspace):
            return await directory.find(self.scopes, workspace, asked)
        found: FoundWrites = await self.ask(on_behalf_of(workspace), _FIND, asked, FoundWrites)
        return found

    async def replaced(
        self, workspace: str, scope: str, writes: Sequence[NamedEvent]
    ) -> list[ReplacedWrites]:
        """Return what writes replaced and which replaced them, from where the scopes are."""
        if self.is_home(workspace):
            return await directory.replaced(self.scopes, workspace, scope, writes)
        asked = _ReplacedAsked(scope, list(writes))
        found: list[ReplacedWrites] = await self.ask(
            on_behalf_of(workspace), _REPLACED, asked, list[ReplacedWrites]
        )
        return found

    async def ask(self, caller: Caller, path: bytes, asked: object, answer: Any) -> Any:
        """Ask the partition that has the scopes of a caller's workspace."""
        home = self._neighbours.home(caller.workspace, FOLDER)
        return await self._neighbours.call(home, path, caller, asked, answer)

    async def delivered(self, workspace: str, scopes: Collection[str]) -> None:
        """Wait until scopes of another partition have all they are owed now, or refuse after some time."""
        if not scopes or self.is_home(workspace) or self.outbox is None:
            return
        targets = [scope_key(workspace, scope) for scope in scopes]
        if not await self.outbox.delivered(targets, self._limits.memory_delivery_seconds_max):
            failure = self.outbox.failure or "it is slow"
            raise OutcomeUnknownError(
                reason=f"the session has the events, and their memory scope gets them later ({failure})"
            )

    async def deliver(self, record: OwedRecord) -> None:
        """Give a record to the partition that has its scope; return when it is durable there."""
        workspace, path = record.target
        home = self._neighbours.home(workspace, path)
        # The id goes along: a record that is delivered twice, after a lost answer, is stored once.
        taken = _Taken(path, *record.id, record.data)
        await self._neighbours.call(home, _TAKE, on_behalf_of(workspace), taken, bool)

    # Of the partition with the scopes ---------------------------------------------------

    async def _answer_find(self, request: Request, caller: Caller) -> object:
        asked = msgspec.msgpack.decode(request.body, type=WritesAsked)
        return await directory.find(self.scopes, caller.workspace, asked)

    async def _answer_replaced(self, request: Request, caller: Caller) -> object:
        asked = msgspec.msgpack.decode(request.body, type=_ReplacedAsked)
        return await directory.replaced(self.scopes, caller.workspace, asked.scope, asked.writes)

    async def _answer_take(self, request: Request, caller: Caller) -> object:
        taken = msgspec.msgpack.decode(request.body, type=_Taken)
        record = OwedRecord(
            Key(caller.workspace, taken.path), RecordId(taken.source, taken.number), taken.data
        )
        await intake.take(self.scopes, record, self._limits)
        return True
