"""Live capture over HTTP: ``/v1/ingest/claude-code`` accepts the payloads of Claude Code hooks."""

import re
from hashlib import blake2b, sha256
from typing import Any, ClassVar

import msgspec

from durable_sessions import lenient
from durable_sessions.access.caller import Caller
from durable_sessions.errors import (
    InvalidHookError,
    SessionExistsError,
    SessionNotFoundError,
)
from durable_sessions.http.api.artifact_owner import ArtifactOwner
from durable_sessions.http.api.json_body import Expected, decode
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import ROUTES, Handler, Match
from durable_sessions.http.bodies.ingest import SESSION_ID_PATTERN
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.limits import Limits
from durable_sessions.managed_agents.claude_code_hooks import SESSION_PREFIX, TOOL, Event, Hook
from durable_sessions.sessions import drafts
from durable_sessions.sessions.batch import JSON as JSON_TYPE
from durable_sessions.sessions.batch import Batch
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.storage.door import StreamView
from durable_sessions.streams.append import Append
from durable_sessions.streams.stream import Key

ROOT = b"/v1/ingest/"
ALLOW = ROUTES.at("/v1/ingest/claude-code").allow or ""
_SESSION_ID = re.compile(SESSION_ID_PATTERN, re.ASCII)
_HEADERS: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_SLIM = ("id", "type", "name", "session_thread_id", "tool_use_id", "mcp_tool_use_id", "is_error", "source")

_HOOK = Expected("A hook", InvalidHookError, "Send what Claude Code gives its hooks: one JSON object.")


class _Source(msgspec.Struct):
    digest: msgspec.Raw = lenient.NULL


class _Last(msgspec.Struct):
    source: _Source | None = None


_LAST = msgspec.json.Decoder(_Last)


class IngestFace:
    """Stores a delivery durably, then answers ``{}``, which tells Claude Code to continue."""

    def __init__(
        self, sessions: Sessions, artifacts: ArtifactOwner, limits: Limits, parser: BodyParser
    ) -> None:
        self._parser = parser
        self._sessions = sessions
        self._artifacts = artifacts
        self._limits = limits

    async def handle(self, request: Request, caller: Caller, found: Match) -> Answer:
        """Answer a request of a tool that is captured."""
        route = found.resource.route(request)
        if route.role is not None:
            caller.require(route.role)
        answer = self._handlers[route.id](self, request, caller)
        return answer if isinstance(answer, Answer) else await answer

    async def _claude_code(self, request: Request, caller: Caller) -> Response:
        """Take one delivery."""
        hook = await self._parser.parsed(request.body, _hook, request.body, self._limits)
        key = session_key(caller.workspace, SESSION_PREFIX + str(hook.payload["session_id"]))
        durable = self._found(key)
        # A delivery with a name of its own has the same ids when it comes twice. One without is told only by
        # following right behind itself, as the tool sends it again.
        if durable is None or hook.natural_name is not None or not await self._is_repeated(durable, hook):
            await self._store(key, hook, durable, caller, len(request.body))
        return Response(200, _HEADERS, b"{}")

    def _found(self, key: Key) -> StreamView | None:
        try:
            return self._sessions.find(key)
        except SessionNotFoundError:
            return None

    async def _create(self, key: Key, hook: Hook, caller: Caller) -> None:
        """Create the session from the payload, unless it exists."""
        said = {"tool": TOOL, "same_run": f"{TOOL}:{hook.payload['session_id']}"}
        if isinstance(directory := hook.payload.get("cwd"), str) and directory:
            said["cwd"] = directory[:500]
            said["project"] = directory.replace("\\", "/").rstrip("/").rpartition("/")[2][:500]
        metadata = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in said.items()}
        try:
            await self._sessions.create(key, NewSession(Record(metadata=metadata), caller.principal), 0)
        except SessionExistsError:
            pass  # a concurrent delivery created it

    async def _is_repeated(self, durable: StreamView, hook: Hook) -> bool:
        """Say whether the last event of the session comes from this very delivery."""
        if durable.tail == 0:
            return False
        stored = await self._sessions.events.one(durable, durable.tail - 1)
        try:
            last = lenient.decode(_LAST, stored)
        except msgspec.MsgspecError:
            return False
        return last.source is not None and lenient.text(last.source.digest) == hook.digest

    async def _store(
        self, key: Key, hook: Hook, durable: StreamView | None, caller: Caller, size: int
    ) -> None:
        # Artifacts first: if their owner is away, the delivery is refused and has changed nothing.
        tail = 0 if durable is None else durable.tail
        made = [await self._fitting(event, caller) for event in hook.events(tail)]
        body = b"[%b]" % b",".join(made)
        events = await self._parser.parsed(body, drafts.parse, body, self._limits)
        if durable is None:
            await self._create(key, hook, caller)
        batch = Batch(events, caller.principal, Append(b"", JSON_TYPE))
        await self._sessions.append_named(key, batch, size)

    async def _fitting(self, event: Event, caller: Caller) -> bytes:
        """Return an event as JSON; one that is too large is stored as an artifact and refers to it."""
        data = msgspec.json.encode(event)
        if len(data) <= self._limits.event_bytes_max:
            return data
        digest = sha256(data).hexdigest()
        await self._artifacts.store(caller, digest, data, "application/json")
        # What readers find and pair events by stays in the event.
        slim = {name: event[name] for name in _SLIM if name in event}
        slim["artifact"] = {"sha256": digest, "size": len(data), "url": f"/v1/artifacts/{digest}"}
        return msgspec.json.encode(slim)

    _handlers: ClassVar[dict[str, Handler]] = ROUTES.complete({"ingestClaudeCode": _claude_code}, "Ingest")


def _payload(body: bytes, limits: Limits) -> dict[str, Any]:
    try:
        return decode(body, dict[str, Any], _HOOK, limits)
    except InvalidHookError:
        if not isinstance(payload := lenient.loads(body), dict):
            raise
        return payload  # with a number out of range, which is kept as it came


def _hook(body: bytes, limits: Limits) -> Hook:
    payload = _payload(body, limits)
    if not isinstance(name := payload.get("hook_event_name"), str) or not name:
        raise _HOOK.refusal("The payload of a hook has a hook_event_name, a text.")
    session = payload.get("session_id")
    if not isinstance(session, str) or not _SESSION_ID.fullmatch(session):
        raise _HOOK.refusal("The payload of a hook has a session_id: 1 to 150 of a-z, A-Z, 0-9 and ._:@-.")
    return Hook(payload, blake2b(body, digest_size=16).hexdigest())
