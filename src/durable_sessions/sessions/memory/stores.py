"""Memories of memory stores: written and deleted through the API, in the scope ``store:<id>`` of their store.

A memory is what a path of the store holds from its first write to its deletion, also under other paths
meanwhile. So its id says where in the log of the scope it began, and the id of a version where that change
is. Sessions that write to the scope change the same memories. All changes of a store are decided one after
the other, on the whole history: if a session has appended to the scope meanwhile, a change is decided again.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from durable_sessions.errors import OverloadedError, RegisteredObjectNotFoundError
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids
from durable_sessions.sessions.memory import recording, records
from durable_sessions.sessions.memory.history import KnownWrite, ScopeHistory
from durable_sessions.sessions.memory.records import BY_API, NO_SESSION, DeleteRecord, WriteRecord, scope_key
from durable_sessions.sessions.memory.scopes import Scopes
from durable_sessions.storage.door import StreamView
from durable_sessions.streams.effects import Effect, RecordsAppended, ScopeCreated
from durable_sessions.streams.readonly import as_created
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.times import rfc3339

_JSON = "application/json"
_MEMORY = re.compile(r"mem_([0-9a-f]{12})([0-9a-f]{10})", re.ASCII)
_VERSION = re.compile(r"memver_([0-9a-f]{12})([0-9a-f]{10})", re.ASCII)
_TRIES = 100
"""How often a change is decided again because sessions append to the scope; each time one of them got on."""


class NewContent(NamedTuple):
    """What a memory is to be: its path, its content as JSON, and where it began, None for a new one."""

    path: str
    content: msgspec.Raw
    began_at: int | None = None


class MemoryRemoval(NamedTuple):
    """A path that is to hold nothing any more; ``moved`` if the next change is the memory at its new path."""

    path: str
    moved: bool = False


Change = NewContent | MemoryRemoval
Plan = Callable[[ScopeHistory], Sequence[Change]]
"""Returns the changes to make, given everything that was recorded in the scope, or refuses."""
Require = Callable[[State], None]
"""Refuses a change at the tip, such as when the store is archived."""


class StoreScope(NamedTuple):
    """The scope of a store: its log, None as long as nothing was written, and what follows from it."""

    view: StreamView | None
    history: ScopeHistory

    @property
    def tag(self) -> str:
        """What the ids of its memories begin with."""
        return "" if self.view is None else event_ids.tag(self.view.stream)

    def memory_id(self, write: KnownWrite) -> str:
        """Return the id of the memory that a write is of."""
        return f"mem_{self.tag}{write.began_at:010x}"

    def version_id(self, write: KnownWrite) -> str:
        """Return the id of the version that a write made."""
        return version_id(self.tag, write.position)

    def began_at(self, memory: str) -> int:
        """Return where the memory with an id began, or refuse."""
        return self._position(_MEMORY, memory, "memory")

    def version(self, version: str) -> KnownWrite:
        """Return the change with an id, or refuse."""
        found = self.history.at(self._position(_VERSION, version, "memory version"))
        if found is None or found.moved:
            raise RegisteredObjectNotFoundError(kind="memory version", name=version)
        return found

    def _position(self, pattern: re.Pattern[str], name: str, kind: str) -> int:
        match = pattern.fullmatch(name)
        if match is None or match[1] != self.tag:
            raise RegisteredObjectNotFoundError(kind=kind, name=name)
        return int(match[2], 16)


def version_id(tag: str, position: int) -> str:
    """Return the id of the version at a position of a scope."""
    return f"memver_{tag}{position:010x}"


def scope_name(store: str) -> str:
    """Return the scope of a store."""
    return f"store:{store}"


class Stores:
    """The scopes of memory stores, as the API changes them."""

    def __init__(self, scopes: Scopes, limits: Limits) -> None:
        self.scopes = scopes
        self._limits = limits
        # Weak, so that a lock goes with the last change that waits for it: there may be any number of stores.
        self._changing: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    async def open(self, workspace: str, store: str) -> StoreScope:
        """Return the scope of a store as it is now."""
        view = self.scopes.view(workspace, scope_name(store))
        return StoreScope(view, ScopeHistory() if view is None else await self.scopes.history(view))

    async def change(
        self, workspace: str, store: str, actor: str, plan: Plan, require: Require, size: int
    ) -> StoreScope:
        """Make changes of about ``size`` bytes durable; return the scope with them."""
        key = scope_key(workspace, scope_name(store))
        self.scopes.streams.admit(size)
        lock = self._changing.setdefault(key, asyncio.Lock())
        async with lock:
            for _ in range(_TRIES):
                found = await self.open(workspace, store)
                at = 0 if found.view is None else found.history.position
                changes = plan(found.history)
                decided = self.scopes.streams.commit(
                    lambda state, now_ms, at=at, changes=changes: self._decide(  # type: ignore[misc]
                        state, key, at, changes, actor, now_ms, require
                    )
                )
                if await decided:
                    return await self.open(workspace, store)
        raise OverloadedError(what="changes of one memory store")

    def _decide(
        self,
        state: State,
        key: Key,
        at: int,
        changes: Sequence[Change],
        actor: str,
        now_ms: int,
        require: Require,
    ) -> tuple[list[Effect], bool]:
        """Return the effects of changes, and whether they were decided on everything that there is."""
        require(state)
        stream = state.get(key)
        made: list[Effect] = []
        if stream is None:
            created = ScopeCreated(state.next_id, *key, _JSON, now_ms)
            made.append(created)
            number, tail, held, tag = created.stream, 0, 0, event_ids.tag(as_created(created))
        else:
            number, tail, held, tag = stream.id, stream.tail, stream.record_bytes, event_ids.tag(stream)
        if tail != at:
            return [], False
        encoded = [
            records.encode(_record(change, version_id(tag, position), actor, now_ms)) + b","
            for position, change in enumerate(changes, tail)
        ]
        lengths = tuple(map(len, encoded))
        recording.require_room(records.scope_of(key), tail, held, len(encoded), sum(lengths), self._limits)
        made.append(RecordsAppended(number, tail, now_ms, lengths, None, None, False, b"".join(encoded)))
        return made, True


def _record(change: Change, name: str, actor: str, now_ms: int) -> WriteRecord | DeleteRecord:
    common = (name, NO_SESSION, NO_SESSION, rfc3339(now_ms), actor)
    if isinstance(change, MemoryRemoval):
        return DeleteRecord(*common, key=change.path, moved=change.moved)
    return WriteRecord(
        *common,
        key=change.path,
        value=change.content,
        kind="note",
        why=BY_API,
        because=[],
        began_at=change.began_at,
    )
