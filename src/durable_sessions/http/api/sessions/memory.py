"""Memory over HTTP: reads of scopes, and reads that a session records."""

import re
from typing import Any, ClassVar

import msgspec

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api import headers
from durable_sessions.http.api.json_body import Expected, decode
from durable_sessions.http.api.memory_owner import MemoryOwner
from durable_sessions.http.api.memory_reads import (
    READ,
    FoundElsewhere,
    FoundMemory,
    MemoryReads,
    MemoryWish,
    parsed,
)
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.bodies.memory import (
    MemoryEntries,
    MemoryHistory,
    MemoryScope,
    MemoryScopes,
    RecallBody,
    Recalled,
)
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi import memory as described
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids
from durable_sessions.sessions.batch import JSON as JSON_TYPE
from durable_sessions.sessions.batch import Batch, Stored
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.graph import schemas, strict
from durable_sessions.sessions.memory.records import READ as READ_EVENT
from durable_sessions.sessions.memory.records import NamedEvent
from durable_sessions.sessions.store import Sessions
from durable_sessions.streams.append import Append
from durable_sessions.streams.stream import Key

_JSON: Header = (b"Content-Type", b"application/json")
_NO_STORE: Header = (b"Cache-Control", b"no-store")
_SCOPE = re.compile(described.SCOPE_PATTERN.strip("^$"), re.ASCII)
_PAGE = re.compile(r"[0-9]{1,15}", re.ASCII)
_FOREIGN_PAGE = "page is not one that this list gave; send next_page as it came."
_RECALL = Expected("A recall", InvalidRequestError, 'Send {"scope":"project:…","q":"…"}.')


class MemoryFace:
    """Answers requests about memory."""

    def __init__(
        self, sessions: Sessions, owner: MemoryOwner, reads: MemoryReads, limits: Limits, parser: BodyParser
    ) -> None:
        self._sessions = sessions
        self._owner = owner
        self._reads = reads
        self._limits = limits
        self._parser = parser

    async def _read(self, request: Request, caller: Caller) -> Answer:
        parameters = Parameters(request)
        wish = MemoryWish(
            _scope(parameters),
            parameters.whole(described.LIMIT),
            _key(parameters, self._limits),
            parameters.text("q"),
            parameters.whole_if_given(described.AT),
            parameters.text("page"),
        )
        async with self._sessions.scans.admitted(caller.key_id):
            found = await self._reads.find(caller, wish)
        return _answer(MemoryEntries(wish.scope, found.at, found.entries, found.next_page))

    async def _log(self, request: Request, caller: Caller) -> Answer:
        parameters = Parameters(request)
        scopes = self._reads.scopes
        view = scopes.view(caller.workspace, _scope(parameters))
        tail = 0 if view is None else view.tail
        start, limit = _start(parameters, tail), parameters.whole(described.LIMIT)
        if view is None or start == tail:
            return _answer(MemoryHistory([], None))
        async with self._sessions.scans.admitted(caller.key_id):
            found = await scopes.log(view, start, limit)
        following = start + len(found)
        return _answer(MemoryHistory(found, str(following) if following < tail else None))

    async def _scopes(self, request: Request, caller: Caller) -> Answer:
        parameters = Parameters(request)
        page = parameters.text("page")
        if page is not None and not _PAGE.fullmatch(page):
            raise InvalidRequestError(problem=_FOREIGN_PAGE)
        limit = parameters.whole(described.LIMIT)
        async with self._sessions.scans.admitted(caller.key_id):
            found, following = await self._reads.scopes.summaries(
                caller.workspace, None if page is None else int(page), limit
            )
        shown = [MemoryScope(*one) for one in found]
        return _answer(MemoryScopes(shown, None if following is None else str(following)))

    # Reads that are recorded ------------------------------------------------------------

    async def _recall(self, request: Request, caller: Caller, key: Key) -> Answer:
        body = await self._parser.parsed(
            request.body, decode, request.body, RecallBody, _RECALL, self._limits
        )
        if body.key is not None and body.q is not None:
            raise InvalidRequestError(problem="key and q exclude each other; send one of them.")
        if body.q is not None:
            parsed(body.q)
        life = incarnations.asked(request)
        self._sessions.find_for_change(key, life)
        found = await self._found(caller, MemoryWish(body.scope, body.limit, body.key, body.q))
        batch = self._batch(request, caller, body, found, life)
        stored = await self._sessions.append_named(key, batch, len(request.body))
        event = await self._event(key, stored)
        entries = found.entries
        if stored.duplicate:
            entries = await self._as_before(caller, event)
        answer = Recalled(msgspec.Raw(event), entries)
        return _answer(answer, incarnations.header(stored.life))

    async def _found(self, caller: Caller, wish: MemoryWish) -> FoundMemory:
        if self._owner.is_home(caller.workspace):
            async with self._sessions.scans.admitted(caller.key_id):
                return await self._reads.find(caller, wish)
        # Whoever may append may read, also where the scope is.
        found: FoundElsewhere = await self._owner.ask(caller, READ, wish, FoundElsewhere)
        return found.opened()

    def _batch(
        self, request: Request, caller: Caller, body: RecallBody, found: FoundMemory, life: str | None
    ) -> Batch:
        said: dict[str, Any] = {"type": READ_EVENT, "scope": body.scope, "at": found.at}
        said["returned"] = [{"id": one.id, "session": one.session} for one in found.entries]
        given = {"query": body.q, "key": body.key, "workflow": body.workflow}
        said |= {name: value for name, value in given.items() if value is not None}
        said["influence"] = body.influence
        event = msgspec.json.encode(said)
        draft = Draft(READ_EVENT, event, event[1:], strict=strict.read(READ_EVENT, event))
        name = headers.idempotency_key(request, self._limits)
        return Batch(
            [draft],
            caller.principal,
            Append(b"", JSON_TYPE, incarnation=life),
            name,
            0 if name is None else event_ids.body_check(request.body),
            creates=False,
            may_judge=caller.role >= Role.EVALUATOR,
            epoch=headers.session_epoch(request),
        )

    async def _event(self, key: Key, stored: Stored) -> bytes:
        (event,) = await self._sessions.events.stored(
            self._sessions.find(key, stored.life), stored.events[:1]
        )
        return event

    async def _as_before(self, caller: Caller, event: bytes) -> Any:
        """Return the entries of a read that was recorded before, as they were then."""
        said = strict.read(READ_EVENT, event)
        assert isinstance(said, schemas.MemoryRead)
        events = [NamedEvent(one.id, one.session) for one in said.returned]
        wish = MemoryWish(said.scope, len(events) or 1, at=said.at, events=events)
        return (await self._found(caller, wish)).entries

    handlers: ClassVar[dict[str, Handler]] = {
        "readMemory": _read,
        "readMemoryLog": _log,
        "listMemoryScopes": _scopes,
        "recallMemory": _recall,
    }


def _scope(parameters: Parameters) -> str:
    scope = parameters.text("scope")
    if scope is None or not _SCOPE.fullmatch(scope):
        said = "scope is missing" if scope is None else f"scope={scope[:40]} is no scope"
        raise InvalidRequestError(
            problem=f"{said}; send user:, agent:, project:, workflow: or store: and a name of 1 to 200 of "
            "A-Z a-z 0-9 . _ @ / -."
        )
    return scope


def _start(parameters: Parameters, tail: int) -> int:
    """Return the position of the first record; one beyond the end is refused, as in a session."""
    page = parameters.text("page")
    if page is not None:
        if not _PAGE.fullmatch(page) or int(page) > tail:
            raise InvalidRequestError(problem=_FOREIGN_PAGE)
        return int(page)
    start = parameters.whole(described.FROM)
    if start > tail:
        raise InvalidRequestError(problem=f"from={start} is beyond the end of the scope; send 0 to {tail}.")
    return start


def _key(parameters: Parameters, limits: Limits) -> str | None:
    key = parameters.text("key")
    if key is not None and not 0 < len(key) <= limits.memory_key_max:
        raise InvalidRequestError(problem=f"Send a key of 1 to {limits.memory_key_max} characters.")
    return key


def _answer(value: object, *fields: Header) -> Response:
    return Response(200, [_JSON, _NO_STORE, *fields], msgspec.json.encode(value))
