"""``/v1/memory_stores/{id}/memories``, as Anthropic's SDKs expect them.

The stores themselves are plain registered objects. What they hold is the scope ``store:<id>``: a memory is an
entry whose key is its path, and a version is a record of the scope's log.
"""

import base64
import binascii
from bisect import bisect_left
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, ClassVar

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import (
    InvalidMemoryError,
    InvalidRequestError,
    MemoryPathConflictError,
    MemoryPreconditionError,
    ObjectArchivedError,
    RegisteredObjectNotFoundError,
)
from durable_sessions.http.api.json_body import Expected, decode
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.stored_memories import (
    NO_PAGE,
    answer,
    content_of,
    page_size,
    wants_full,
)
from durable_sessions.http.bodies import memory_stores as bodies
from durable_sessions.http.bodies.deletions import MemoryDeleted
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.http.openapi import memory_stores as described
from durable_sessions.limits import Limits
from durable_sessions.managed_agents.registry import Registry
from durable_sessions.sessions.memory import memory_paths
from durable_sessions.sessions.memory.history import KnownWrite, ScopeHistory
from durable_sessions.sessions.memory.records import WriteRecord
from durable_sessions.sessions.memory.stores import (
    Change,
    MemoryRemoval,
    NewContent,
    Stores,
    StoreScope,
    scope_name,
)
from durable_sessions.storage.scans import Scans
from durable_sessions.streams.state import State

_MEMORY = Expected("A memory", InvalidMemoryError, 'Send {"path":"/notes.md","content":"…"}.')
_CHANGE = Expected("A change of a memory", InvalidMemoryError, 'Send {"content":"…"}.')


class Memories:
    """Answers requests about what memory stores hold, in the partition that has them."""

    def __init__(
        self, stores: Stores, registry: Registry, scans: Scans, limits: Limits, parser: BodyParser
    ) -> None:
        self._stores = stores
        self._registry = registry
        self._scans = scans
        self._limits = limits
        self._parser = parser

    # Memories ---------------------------------------------------------------------------

    async def _create(self, request: Request, caller: Caller, store: str) -> Answer:
        shape = bodies.NewMemoryBody if is_strict(request) else bodies.NativeNewMemoryBody
        body = await self._parser.parsed(request.body, decode, request.body, shape, _MEMORY, self._limits)
        path = memory_paths.checked(body.path, self._limits)
        content = self._content(body.content or "")

        def plan(history: ScopeHistory) -> Sequence[Change]:
            self._require_free(history, path, caller, store)
            return [NewContent(path, content)]

        scope = await self._change(request, caller, store, plan)
        write = scope.history.live(path, scope.history.position)
        return await self._memory(scope, store, write, full=wants_full(request, otherwise=False))

    async def _get(self, request: Request, caller: Caller, store: str, memory: str) -> Answer:
        self._registry.get(caller.workspace, store)
        scope = await self._stores.open(caller.workspace, store)
        write = _live(scope, memory)
        return await self._memory(scope, store, write, full=wants_full(request, otherwise=True))

    async def _update(self, request: Request, caller: Caller, store: str, memory: str) -> Answer:
        shape = bodies.MemoryUpdateBody if is_strict(request) else bodies.NativeMemoryUpdateBody
        body = await self._parser.parsed(request.body, decode, request.body, shape, _CHANGE, self._limits)
        path = None if body.path is None else memory_paths.checked(body.path, self._limits)
        expected = None if body.precondition is None else body.precondition.content_sha256
        content = None if body.content is None else self._content(body.content)
        self._registry.get(caller.workspace, store)
        before = await self._stores.open(caller.workspace, store)
        now = _live(before, memory)
        stored = await self._record(before, now)
        self._require_content(memory, stored, expected)
        if content is None and path in (None, now.key):
            return await self._memory(before, store, now, full=wants_full(request, otherwise=False))

        def plan(history: ScopeHistory) -> Sequence[Change]:
            write = history.memory(before.began_at(memory), history.position)
            if write is None:
                raise RegisteredObjectNotFoundError(kind="memory", name=memory)
            # What was looked at before must still be so where the caller, or the new record, rests on it.
            if write.position != now.position and (expected is not None or content is None):
                raise MemoryPreconditionError(memory=memory, content_sha256="another")
            to = write.key if path is None else path
            if to != write.key:
                self._require_free(history, to, caller, store)
            new = NewContent(to, content or stored.value, write.began_at)
            return [new] if to == write.key else [MemoryRemoval(write.key, moved=True), new]

        scope = await self._change(request, caller, store, plan)
        return await self._memory(
            scope, store, _live(scope, memory), full=wants_full(request, otherwise=False)
        )

    async def _delete(self, request: Request, caller: Caller, store: str, memory: str) -> Answer:
        expected = Parameters(request).text("expected_content_sha256")
        self._registry.get(caller.workspace, store)
        before = await self._stores.open(caller.workspace, store)
        now = _live(before, memory)
        if expected is not None:
            self._require_content(memory, await self._record(before, now), expected)

        def plan(history: ScopeHistory) -> Sequence[Change]:
            write = history.memory(before.began_at(memory), history.position)
            if write is None:
                raise RegisteredObjectNotFoundError(kind="memory", name=memory)
            if expected is not None and write.position != now.position:
                raise MemoryPreconditionError(memory=memory, content_sha256="another")
            return [MemoryRemoval(write.key)]

        await self._change(request, caller, store, plan, also_archived=True)
        return answer(MemoryDeleted(memory, "memory_deleted"))

    async def _list(self, request: Request, caller: Caller, store: str) -> Answer:
        parameters = Parameters(request)
        full = wants_full(request, otherwise=False)
        limit = page_size(parameters, full=full)
        prefix = parameters.text("path_prefix") or ""
        if prefix and not (prefix.startswith("/") and prefix.endswith("/")):
            raise InvalidRequestError(problem="path_prefix begins and ends with /, such as /notes/.")
        depth = parameters.whole(described.DEPTH)
        after = _after(parameters.text("page"))
        self._registry.get(caller.workspace, store)
        async with self._scans.admitted(caller.key_id):
            scope = await self._stores.open(caller.workspace, store)
            items = await self._items(scope, prefix, depth, after, limit)
            shown: list[bodies.MemoryObject | bodies.MemoryPrefix] = []
            for path in items[:limit]:
                write = scope.history.live(path, scope.history.position)
                if write is None:
                    shown.append(bodies.MemoryPrefix("memory_prefix", path))
                else:
                    shown.append(await self._shown(scope, store, write, full=full))
        following = _token(items[limit - 1]) if len(items) > limit else None
        return answer({"data": shown, "next_page": following})

    async def _items(self, scope: StoreScope, prefix: str, depth: int, after: str, limit: int) -> list[str]:
        """Return the next paths and folders in their order, one more than asked for if there are more."""
        history = scope.history
        found: list[str] = []
        turn = self._scans.turns.begin()
        for key in list(history.keys()):
            if turn.over:
                await turn.rest()
            item = memory_paths.item_at(key, prefix, depth)
            if item is None or item <= after or history.live(key, history.position) is None:
                continue
            place = bisect_left(found, item)
            if place <= limit and found[place : place + 1] != [item]:
                found.insert(place, item)
                del found[limit + 1 :]
        return found

    # What they share --------------------------------------------------------------------

    async def _change(
        self, request: Request, caller: Caller, store: str, plan: Any, *, also_archived: bool = False
    ) -> StoreScope:
        def require(state: State) -> None:
            head = self._registry.tip_head(state, caller.workspace, store)
            if head.archived_at is not None and not also_archived:
                raise ObjectArchivedError(kind="memory store", name=store)

        self._registry.get(caller.workspace, store)
        size = len(request.body) + self._limits.memory_path_bytes_max
        return await self._stores.change(caller.workspace, store, caller.principal, plan, require, size)

    def _content(self, content: str) -> msgspec.Raw:
        size = len(content.encode(errors="replace"))
        if size > self._limits.memory_content_bytes_max:
            raise InvalidMemoryError(
                problem=f"content has {size} bytes; send at most {self._limits.memory_content_bytes_max}."
            )
        return msgspec.Raw(msgspec.json.encode(content))

    def _require_free(self, history: ScopeHistory, path: str, caller: Caller, store: str) -> None:
        taken = history.live(path, history.position)
        if taken is not None:
            scope = StoreScope(self._stores.scopes.view(caller.workspace, scope_name(store)), history)
            raise MemoryPathConflictError(path=path, conflicting_memory_id=scope.memory_id(taken))

    def _require_content(self, memory: str, stored: WriteRecord, expected: str | None) -> None:
        digest = sha256(content_of(stored).encode()).hexdigest()
        if expected is not None and expected != digest:
            raise MemoryPreconditionError(memory=memory, content_sha256=digest)

    async def _record(self, scope: StoreScope, write: KnownWrite) -> WriteRecord:
        assert scope.view is not None
        found = await self._stores.scopes.record(scope.view, write.position)
        assert isinstance(found, WriteRecord)
        return found

    async def _memory(
        self, scope: StoreScope, store: str, write: KnownWrite | None, *, full: bool
    ) -> Response:
        if write is None:  # deleted between its change and this answer
            raise RegisteredObjectNotFoundError(kind="memory", name="that was just changed")
        return answer(await self._shown(scope, store, write, full=full))

    async def _shown(
        self, scope: StoreScope, store: str, write: KnownWrite, *, full: bool
    ) -> bodies.MemoryObject:
        assert scope.view is not None
        record = await self._record(scope, write)
        first = await self._stores.scopes.record(scope.view, write.began_at)
        text = content_of(record)
        return bodies.MemoryObject(
            id=scope.memory_id(write),
            type="memory",
            memory_store_id=store,
            memory_version_id=scope.version_id(write),
            path=write.key,
            content_sha256=sha256(text.encode()).hexdigest(),
            content_size_bytes=len(text.encode()),
            created_at=first.created_at,
            updated_at=record.created_at,
            content=text if full else None,
        )

    handlers: ClassVar[dict[str, Handler]] = {
        "createMemory": _create,
        "listMemories": _list,
        "getMemory": _get,
        "updateMemory": _update,
        "deleteMemory": _delete,
    }


def _live(scope: StoreScope, memory: str) -> KnownWrite:
    write = scope.history.memory(scope.began_at(memory), scope.history.position)
    if write is None:
        raise RegisteredObjectNotFoundError(kind="memory", name=memory)
    return write


def _token(path: str) -> str:
    return base64.urlsafe_b64encode(path.encode(errors="surrogatepass")).decode().rstrip("=")


def _after(page: str | None) -> str:
    if page is None:
        return ""
    try:
        return base64.b64decode(page + "=" * (-len(page) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise InvalidRequestError(problem=NO_PAGE) from None
