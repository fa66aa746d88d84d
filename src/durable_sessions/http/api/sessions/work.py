"""The work on a session over HTTP: its state, leases, and what is handed over."""

from typing import ClassVar, TypeVar

import msgspec

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import InvalidOffsetError, InvalidRequestError
from durable_sessions.http.api import headers
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.json_body import Expected, decode
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.event_ranges import require_within
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.bodies.work import (
    CloseBody,
    HandoffFiles,
    ReleaseBody,
    ReleasedLease,
    RenewBody,
    RenewedLease,
    UnfinishedCall,
    WakeBody,
    WokenSession,
)
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi.work import FILE
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids
from durable_sessions.sessions.batch import Stored
from durable_sessions.sessions.change import By
from durable_sessions.sessions.graph import handoff
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.graph.state import SessionState, ShownCall
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.wake import Once, WakeRequest
from durable_sessions.sessions.work import Works
from durable_sessions.storage.artifacts import Artifacts
from durable_sessions.storage.door import StreamView
from durable_sessions.streams import offsets
from durable_sessions.streams.stream import Key
from durable_sessions.times import rfc3339

T = TypeVar("T")

_JSON: Header = (b"Content-Type", b"application/json")
_TEXT: Header = (b"Content-Type", b"text/plain; charset=utf-8")
_NO_STORE: Header = (b"Cache-Control", b"no-store")
_WAKE = Expected("A wake", InvalidRequestError)
_RENEW = Expected("A renewal", InvalidRequestError, 'Send {"epoch":1}.')
_RELEASE = Expected("A release", InvalidRequestError, 'Send {"epoch":1}.')
_CLOSE = Expected("An end", InvalidRequestError, 'Send {"outcome":"completed"}, or no body.')
_INIT_ROLE = "init"


def asked_once(request: Request, limits: Limits) -> Once | None:
    """Return the key that makes a request harmless to repeat, None if it has none."""
    key = headers.idempotency_key(request, limits)
    return None if key is None else Once(key, event_ids.body_check(request.body))


def appender(caller: Caller) -> Appender:
    """Return a caller as the rules of a session see it."""
    return Appender(caller.principal, caller.role >= Role.EVALUATOR)


class WorkFace:
    """Answers requests about the work on a session."""

    def __init__(
        self,
        sessions: Sessions,
        works: Works,
        artifacts: Artifacts,
        auth: Authenticator,
        limits: Limits,
        parser: BodyParser,
    ) -> None:
        self._parser = parser
        self._sessions = sessions
        self._works = works
        self._artifacts = artifacts
        self._auth = auth
        self._limits = limits

    async def close(self, request: Request, caller: Caller, key: Key, by: By) -> Stored:
        """End a session with the outcome in the body."""
        body = await self._decoded(request.body, CloseBody, _CLOSE)
        once = asked_once(request, self._limits)
        return await self._works.end(key, body.outcome, body.reason, appender(caller), by, once)

    async def _decoded(self, body: bytes, shape: type[T], expected: Expected) -> T:
        return await self._parser.parsed(body, decode, body, shape, expected, self._limits)

    async def _state(self, request: Request, caller: Caller, key: Key) -> Answer:
        durable = self._sessions.find(key, incarnations.asked(request))
        at = position_of(Parameters(request).text("at"), durable)
        async with self._sessions.scans.admitted(caller.key_id):
            state = await self._shown(durable, at)
        return _answer(state, durable)

    async def _wake(self, request: Request, caller: Caller, key: Key) -> Answer:
        body = await self._decoded(request.body or b"{}", WakeBody, _WAKE)
        by, terms = appender(caller), incarnations.by(request, caller)
        wanted = WakeRequest(
            by,
            body.worker or by.principal,
            body.seconds,
            body.exclusive,
            body.force,
            terms.incarnation,
            terms.if_tail,
        )
        # The state is read behind the claim: what the worker is told includes all that its predecessor could
        # write.
        woken = await self._works.wake(key, wanted)
        durable = self._sessions.find(key, woken.life)
        state = await self._shown(durable, woken.tail)
        lease = woken.lease
        answer = WokenSession(
            session_of(key),
            lease.epoch,
            lease.worker,
            lease.principal,
            lease.seconds,
            lease.exclusive,
            rfc3339(self._works.times.expires_ms(durable.stream.id, lease)),
            offsets.encode(woken.tail),
            state,
            [_unfinished(call) for call in state.calls.open],
            msgspec.Raw(msgspec.json.encode(state.checkpoint)),
        )
        return _answer(answer, durable)

    async def _renew(self, request: Request, caller: Caller, key: Key) -> Answer:
        body = await self._decoded(request.body, RenewBody, _RENEW)
        durable = self._sessions.find_for_change(key, incarnations.asked(request))
        renewed_ms, expires_ms = self._works.renew(durable, body.epoch, caller.principal, body.last)
        return _answer(RenewedLease(body.epoch, rfc3339(expires_ms), rfc3339(renewed_ms)), durable)

    async def _release(self, request: Request, caller: Caller, key: Key) -> Answer:
        body = await self._decoded(request.body, ReleaseBody, _RELEASE)
        once = asked_once(request, self._limits)
        stored = await self._works.release(
            key,
            body.epoch,
            body.reason,
            appender(caller),
            once,
            headers.session_epoch(request),
            incarnations.asked(request),
        )
        answer = ReleasedLease(body.epoch, offsets.encode(stored.tail))
        return Response(
            200, [_JSON, _NO_STORE, incarnations.header(stored.life)], msgspec.json.encode(answer)
        )

    async def _handoff(self, request: Request, caller: Caller, key: Key) -> Answer:
        durable = self._sessions.find(key, incarnations.asked(request))
        parameters = Parameters(request)
        at = position_of(parameters.text("at"), durable)
        wanted = parameters.word(FILE)
        async with self._sessions.scans.admitted(caller.key_id):
            state = await self._shown(durable, at)
            checkpoints = await self._works.checkpoints(durable, at)
        init = await self._init_script(key, state)
        files = handoff.files(state, checkpoints, init)
        if wanted:
            body = files[handoff.ALIASES.get(wanted, wanted)].encode()
            return Response(200, [_TEXT, _NO_STORE, incarnations.of(durable)], body)
        return _answer(HandoffFiles(session_of(key), offsets.encode(at), files), durable)

    async def _shown(self, durable: StreamView, at: int) -> SessionState:
        return await self._works.state(durable, at, is_declared=not self._auth.keys_required)

    async def _init_script(self, key: Key, state: SessionState) -> str | None:
        """Return the newest init script of a session, None if it has none."""
        digest = next((one.sha256 for one in reversed(state.artifacts) if one.role == _INIT_ROLE), None)
        if digest is None:
            return None
        info = await self._artifacts.find(key.workspace, digest)
        if info.bytes > self._limits.init_script_bytes_max:
            return f"#!/bin/sh\necho 'The init script is too large to be shown: get the artifact {digest}.'\n"
        return (await self._artifacts.read(key.workspace, digest, info)).decode(errors="replace")

    handlers: ClassVar[dict[str, Handler]] = {
        "getState": _state,
        "getHandoff": _handoff,
        "wakeSession": _wake,
        "renewLease": _renew,
        "releaseLease": _release,
    }


def _unfinished(call: ShownCall) -> UnfinishedCall:
    return UnfinishedCall(
        call.id,
        call.name,
        call.input,
        call.effect,
        call.idempotency_key,
        call.offset,
        handoff.advice(call),
    )


def position_of(at: str | None, durable: StreamView) -> int:
    """Return how many events a view is of."""
    if at is None:
        return durable.tail
    try:
        position = int(at) if at.isascii() and at.isdigit() and len(at) <= 15 else offsets.decode(at)
    except InvalidOffsetError:
        raise InvalidOffsetError(at[:40], "a position, such as 5, or an offset as it came") from None
    require_within("at", at, position, durable)
    return position


def _answer(value: object, durable: StreamView) -> Response:
    life = incarnations.header(event_ids.tag(durable.stream))
    return Response(200, [_JSON, _NO_STORE, life], msgspec.json.encode(value))
