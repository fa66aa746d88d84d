"""How any partition reaches the memory scopes of a workspace, which are all in one partition."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from durable_sessions.sessions.memory.records import NamedEvent
from durable_sessions.sessions.memory.scopes import Scopes


class WritesAsked(NamedTuple):
    """Which writes are looked for, in a scope or, if it is unknown, in all; and what is to be added to it."""

    scope: str | None
    writes: list[NamedEvent]
    more_records: int = 0
    more_bytes: int = 0


class FoundWrites(NamedTuple):
    """What a scope has of them, each as it is called there; ``scope`` is where they were found.

    ``position`` is the number of its records.
    """

    scope: str | None
    position: int
    has_room: bool
    is_held: bool
    writes: list[NamedEvent | None]


class ReplacedWrites(NamedTuple):
    """What a write replaced under its key, and which writes replaced it."""

    before: NamedEvent | None = None
    after: list[NamedEvent] = []


class ScopeDirectory(Protocol):
    """Finds memory, wherever it is."""

    @property
    def scopes(self) -> Scopes:
        """The scopes of this partition."""
        ...

    def is_home(self, workspace: str) -> bool:
        """Say whether this partition has the scopes of a workspace."""
        ...

    async def find(self, workspace: str, asked: WritesAsked) -> FoundWrites:
        """Look writes up; what is not there, is None."""
        ...

    async def replaced(
        self, workspace: str, scope: str, writes: Sequence[NamedEvent]
    ) -> list[ReplacedWrites]:
        """Return what writes of a scope replaced, and which ones replaced them."""
        ...

    async def delivered(self, workspace: str, scopes: Collection[str]) -> None:
        """Wait until scopes of another partition have all that they are owed now, or refuse."""
        ...


class OnlyPartition:
    """The directory of a partition that has all scopes itself."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes

    def is_home(self, workspace: str) -> bool:
        """Say that it is."""
        return True

    async def find(self, workspace: str, asked: WritesAsked) -> FoundWrites:
        """Look writes up."""
        return await find(self.scopes, workspace, asked)

    async def replaced(
        self, workspace: str, scope: str, writes: Sequence[NamedEvent]
    ) -> list[ReplacedWrites]:
        """Return what writes of a scope replaced, and which ones replaced them."""
        return await replaced(self.scopes, workspace, scope, writes)

    async def delivered(self, workspace: str, scopes: Collection[str]) -> None:
        """Return at once: records are in the batch of their event."""


async def find(scopes: Scopes, workspace: str, asked: WritesAsked) -> FoundWrites:
    """Answer a question with the scopes of this partition."""
    if asked.scope is not None:
        return await _found(scopes, workspace, asked.scope, asked)
    nowhere = FoundWrites(None, 0, True, False, [None] * len(asked.writes))
    async for scope in scopes.names(workspace):
        found = await _found(scopes, workspace, scope, asked)
        if any(found.writes):
            return found
    return nowhere


async def replaced(
    scopes: Scopes, workspace: str, scope: str, writes: Sequence[NamedEvent]
) -> list[ReplacedWrites]:
    """Answer with the scopes of this partition; a write that its scope does not have replaced nothing."""
    view = scopes.view(workspace, scope)
    if view is None:
        return [ReplacedWrites() for _ in writes]
    history = await scopes.history(view)
    turn = scopes.turns.begin()
    found: list[ReplacedWrites] = []
    for event in writes:
        write = history.find(event)
        if write is None:
            found.append(ReplacedWrites())
            continue
        before, after = history.replaced(write), list[NamedEvent]()
        for later in history.written_after(write):
            if history.replaced(later) is write:
                after.append(later.event)
            if turn.over:
                await turn.rest()
        found.append(ReplacedWrites(None if before is None else before.event, after))
        if turn.over:
            await turn.rest()
    return found


async def _found(scopes: Scopes, workspace: str, scope: str, asked: WritesAsked) -> FoundWrites:
    view = scopes.view(workspace, scope)
    if view is None:
        has_room = scopes.has_room(scope, None, asked.more_records, asked.more_bytes)
        return FoundWrites(scope, 0, has_room, False, [None] * len(asked.writes))
    has_room = scopes.has_room(scope, view, asked.more_records, asked.more_bytes)
    if not asked.writes:
        return FoundWrites(scope, view.tail, has_room, view.stream.held, [])
    history = await scopes.history(view)
    known = [history.find(one) for one in asked.writes]
    return FoundWrites(
        scope,
        history.position,
        has_room,
        view.stream.held,
        [None if one is None else one.event for one in known],
    )
