"""``/v1/memory_stores/{id}/memory_versions``: every change of a store, read from the log of its scope."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, ClassVar

from durable_sessions.access.audit import Act, Audit
from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions.foreign_redactions import ForeignRedactions
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.stored_memories import (
    answer,
    content_of,
    page_size,
    wants_full,
)
from durable_sessions.http.bodies import memory_stores as bodies
from durable_sessions.http.carrier.message import Answer, Request
from durable_sessions.http.openapi import memory_stores as described
from durable_sessions.http.openapi.common import CREATED_AT
from durable_sessions.limits import Limits
from durable_sessions.managed_agents.registry import Registry
from durable_sessions.sessions.memory import erasing
from durable_sessions.sessions.memory.history import KnownWrite
from durable_sessions.sessions.memory.records import DeleteRecord, NamedEvent, WriteRecord, redactor
from durable_sessions.sessions.memory.stores import Stores, StoreScope, scope_name
from durable_sessions.sessions.tombstones import Mark
from durable_sessions.storage.companions import accompanied
from durable_sessions.storage.scans import Scans
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State
from durable_sessions.times import parse_rfc3339, rfc3339


class MemoryVersions:
    """Answers requests about the versions of memories, in the partition that has them."""

    def __init__(
        self,
        stores: Stores,
        registry: Registry,
        redactions: ForeignRedactions,
        audit: Audit,
        scans: Scans,
        limits: Limits,
    ) -> None:
        self._stores = stores
        self._redactions = redactions
        self._audit = audit
        self._registry = registry
        self._scans = scans
        self._limits = limits

    async def _get(self, request: Request, caller: Caller, store: str, version: str) -> Answer:
        self._registry.get(caller.workspace, store)
        scope = await self._stores.open(caller.workspace, store)
        full = wants_full(request, otherwise=True)
        return answer(await self._version(scope, store, scope.version(version), full=full))

    async def _list(self, request: Request, caller: Caller, store: str) -> Answer:
        parameters = Parameters(request)
        full = wants_full(request, otherwise=False)
        limit = page_size(parameters, full=full)
        page = parameters.text("page")
        if page is not None and not (page.isascii() and page.isdigit() and len(page) < 14):
            raise InvalidRequestError(
                problem="page is not one that this list gave; send next_page as it came."
            )
        self._registry.get(caller.workspace, store)
        async with self._scans.admitted(caller.key_id):
            scope = await self._stores.open(caller.workspace, store)
            memory = parameters.text("memory_id")
            began_at = None if memory is None else scope.began_at(memory)
            start = scope.history.position if page is None else int(page)
            wanted = _Filter(parameters)
            found: list[bodies.MemoryVersionObject] = []
            last = 0
            turn = self._scans.turns.begin()
            for write in scope.history.versions(start, began_at):
                if turn.over:
                    await turn.rest()
                if write is None or not wanted.fits(write):
                    continue
                version = await self._version(scope, store, write, full=full)
                if not wanted.fits_shown(version):
                    continue
                # One more than the page has was found: only then a next page is known to have something.
                if len(found) == limit:
                    return answer({"data": found, "next_page": str(last)})
                found.append(version)
                last = write.position
        return answer({"data": found, "next_page": None})

    async def _redact(self, request: Request, caller: Caller, store: str, version: str) -> Answer:
        self._registry.get(caller.workspace, store)
        scope = await self._stores.open(caller.workspace, store)
        event = scope.version(version).event
        reason = f"The memory version {version} was redacted."
        # What a session wrote is erased there, too, by the same step. Memory outlives its session, though.
        if not event.session or not await self._redactions.redact(caller, event, reason, request.id):
            await self._erase(caller, store, version, event, reason, request.id)
        scope = await self._stores.open(caller.workspace, store)
        return answer(await self._version(scope, store, scope.version(version), full=True))

    async def _erase(
        self, caller: Caller, store: str, version: str, event: NamedEvent, reason: str, request_id: bytes
    ) -> None:
        """Erase a version that the scope alone has, and record the act in the same batch."""
        scopes = self._stores.scopes
        target = await erasing.found(
            scopes, caller.workspace, scope_name(store), event.incarnation or "", event.id
        )
        if target is None or not isinstance(target.record, WriteRecord):
            return
        content = bytes(target.record.value)
        digest = sha256(content).hexdigest()
        said: dict[str, object] = {"memory_store": store, "memory_version": version}
        act = Act("memory.redacted", caller, caller.workspace, request_id.decode(), said)
        beside = self._audit.beside(act)

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], None]:
            mark = Mark(None, rfc3339(now_ms), reason, digest, len(content))
            effects = erasing.effects(state, target, mark, caller.principal, now_ms, self._limits)
            return accompanied(effects, beside, state, now_ms), None

        await scopes.streams.commit(decide)
        beside.log()

    async def _version(
        self, scope: StoreScope, store: str, write: KnownWrite, *, full: bool
    ) -> bodies.MemoryVersionObject:
        assert scope.view is not None
        record = await self._stores.scopes.record(scope.view, write.position)
        assert isinstance(record, WriteRecord | DeleteRecord)
        mark = None if isinstance(record, DeleteRecord) else record.redacted
        text = None if isinstance(record, DeleteRecord) or mark is not None else content_of(record)
        return bodies.MemoryVersionObject(
            id=scope.version_id(write),
            type="memory_version",
            memory_id=scope.memory_id(write),
            memory_store_id=store,
            operation=_operation(write),
            created_at=record.created_at,
            path=None if mark is not None else record.key,
            content=text if full else None,
            content_sha256=None if text is None else sha256(text.encode()).hexdigest(),
            content_size_bytes=None if text is None else len(text.encode()),
            created_by=_actor(record),
            redacted_at=None if mark is None else mark.at,
            redacted_by=_redactor(record),
        )

    handlers: ClassVar[dict[str, Handler]] = {
        "listMemoryVersions": _list,
        "getMemoryVersion": _get,
        "redactMemoryVersion": _redact,
    }


class _Filter:
    """Which versions a list is for."""

    def __init__(self, parameters: Parameters) -> None:
        self._operation = parameters.choice("operation", "", ("", *described.OPERATIONS))
        self._session = parameters.text("session_id")
        self._key = parameters.text("api_key_id")
        # There are no service accounts here, so that nothing can be of one.
        self._nobody = parameters.text("service_account_id") is not None
        self._from, self._through = (parameters.time_ms(CREATED_AT[end]) for end in ("gte", "lte"))

    def fits(self, write: KnownWrite) -> bool:
        """Say whether a write may fit, from what is known without reading it."""
        if self._nobody or (self._operation and _operation(write) != self._operation):
            return False
        return self._session is None or write.event.session == self._session

    def fits_shown(self, version: bodies.MemoryVersionObject) -> bool:
        """Say whether a version fits."""
        at_ms = parse_rfc3339(version.created_at) or 0
        return (
            (self._key is None or version.created_by.api_key_id == self._key)
            and (self._from is None or at_ms >= self._from)
            and (self._through is None or at_ms <= self._through)
        )


def _operation(write: KnownWrite) -> Any:
    if write.is_deletion:
        return "deleted"
    return "created" if write.began_at == write.position else "modified"


def _actor(record: WriteRecord | DeleteRecord) -> bodies.MemoryActor:
    if record.session:
        return bodies.MemoryActor("session_actor", session_id=record.session)
    return bodies.MemoryActor("api_actor", api_key_id=record.actor)


def _redactor(record: WriteRecord | DeleteRecord) -> bodies.MemoryActor | None:
    who = None if isinstance(record, DeleteRecord) else redactor(record)
    return None if who is None else bodies.MemoryActor("api_actor", api_key_id=who)
