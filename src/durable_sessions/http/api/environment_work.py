"""The work queues of environments, as the workers of Managed Agents' SDKs ask for them.

Nothing is kept for them. A work is a session whose route names the environment; to claim it is to wake it. So
each operation is a few requests to sessions, wherever they are, in the name of the caller.
"""

import asyncio
import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    InvalidEnvironmentError,
    InvalidRequestError,
    RegisteredObjectNotFoundError,
    WorkLostError,
    WorkStoppedError,
)
from durable_sessions.http.api.auth import secret_of
from durable_sessions.http.api.json_body import Expected, decode
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import ROUTES, Match
from durable_sessions.http.api.sessions.json_pages import json_page
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.bodies.environment_work import (
    SessionWork,
    WorkHeartbeat,
    WorkItem,
    WorkQueueStats,
    WorkState,
    WorkStopBody,
    WorkUpdateBody,
)
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.http.openapi.environment_work import (
    BLOCK_MS,
    EXPECTED_HEARTBEAT,
    LIMIT,
    RECLAIM_MS,
    WORKER_ID,
)
from durable_sessions.http.openapi.request_headers import IF_MATCH, SESSION_EPOCH
from durable_sessions.limits import Limits
from durable_sessions.times import parse_rfc3339, rfc3339

Dispatch = Callable[[Request], Awaitable[Answer]]
"""Answers a request about sessions, wherever they are."""
_PAGE = 100
_PAGES_MAX = 10
_PAUSE_SECONDS = 0.2
"""How long a poll that waits rests between two looks."""
_TRIES = 3
"""How often a poll tries to wake a session to which something happens meanwhile; the next poll goes on."""
_AT_ONCE = 8
_PREFIX = "work_"
_HEADERS = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_BODIES: dict[str, tuple[Any, Expected]] = {
    "updateWork": (WorkUpdateBody, Expected("A change", InvalidRequestError, 'Send {"metadata":{}}.')),
    "stopWork": (WorkStopBody, Expected("A stop of work", InvalidRequestError, "Send {} or nothing.")),
}
_EVERYBODY = "*"
_NO_HEARTBEAT = "NO_HEARTBEAT"


class _RefusedError(Exception):
    """A request that this one is made of was refused; the refusal is the answer."""

    def __init__(self, answer: Response) -> None:
        super().__init__(answer.status)
        self.answer = answer


class _WorkId(msgspec.Struct, array_like=True):
    """What the id of a work says: the session, the event that routed it, and the epoch of the claim or 0."""

    session: str
    route: str
    epoch: int

    def __str__(self) -> str:
        return _PREFIX + urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


class _Route(msgspec.Struct):
    id: str
    to: str
    open: bool


class _Lease(msgspec.Struct):
    epoch: int
    principal: str
    seconds: int
    expires_at: str


class _Session(msgspec.Struct):
    """What a queue looks at of a session: the rest, which may be large, is not decoded."""

    id: str
    created_at: str
    next_offset: str
    metadata: dict[str, Any]
    lease: _Lease | None
    route: _Route | None


class _SessionPage(msgspec.Struct):
    data: list[_Session]
    next_page: str | None


class _Asker(NamedTuple):
    """Asks sessions in the name of whoever sent a request about a queue."""

    request: Request
    caller: Caller
    dispatch: Dispatch
    environment: str
    body: Any

    async def ask(
        self,
        method: bytes,
        path: str,
        body: object = None,
        *,
        query: str = "",
        headers: dict[bytes, bytes] | None = None,
        shape: Any = Any,
    ) -> Any:
        """Return what a request is answered with, or raise the refusal."""
        content = b"" if body is None else msgspec.json.encode(body)
        made = Request(method, path.encode(), query.encode(), headers or {}, content)
        made.id, made.caller = self.request.id, self.caller
        answer = await self.dispatch(made)
        assert isinstance(answer, Response), "none of these answers is streamed"
        if answer.status >= 300:
            raise _RefusedError(answer)
        return msgspec.json.decode(answer.body, type=shape) if answer.body else None

    async def session(self, name: str) -> _Session | None:
        """Return a session, None if there is none."""
        found: _Session | None = await self._found(_path(name), _Session)
        return found

    async def time_of(self, session: str, event: str) -> str | None:
        """Return when an event was stored."""
        found = await self._found(f"{_path(session)}/events/{quote(event, safe='')}", Any)
        return None if found is None else found["created_at"]

    async def last_time_of(self, session: str, kind: str) -> str | None:
        """Return when the last event of a type was stored."""
        query = f"types={kind}&order=desc&limit=1"
        found = await self.ask(b"GET", f"{_path(session)}/events", query=query)
        return found["data"][0]["created_at"] if found["data"] else None

    async def routed(self, limit: int, page: str | None = None) -> _SessionPage:
        """Return a page of the sessions that are routed to the environment, the oldest first."""
        query = f"routed_to={quote(self.environment, safe='')}&order=asc&limit={limit}"
        if page is not None:
            query += f"&page={quote(page, safe='')}"
        found: _SessionPage = await self.ask(b"GET", "/v1/sessions", query=query, shape=_SessionPage)
        return found

    async def _found(self, path: str, shape: Any) -> Any:
        try:
            return await self.ask(b"GET", path, shape=shape)
        except _RefusedError as refused:
            if refused.answer.status == 404:
                return None
            raise


class EnvironmentWork:
    """Answers requests about the queues of environments."""

    def __init__(self, clock: Clock, limits: Limits, parser: BodyParser) -> None:
        self._clock = clock
        self._limits = limits
        self._parser = parser

    async def handle(self, request: Request, caller: Caller, found: Match, dispatch: Dispatch) -> Answer:
        """Answer a request."""
        route = found.resource.route(request)
        if route.role is not None:
            caller.require(route.role)
        environment, *rest = found.values
        if caller.key_id is None:  # without keys, a name is believed: here the one that is worked for
            caller = caller._replace(principal=environment)
        body = None
        if (shape := _BODIES.get(route.id)) is not None:
            kind, expected = shape
            sent = request.body or b"{}"
            body = await self._parser.parsed(sent, decode, sent, kind, expected, self._limits)
        asker = _Asker(request, caller, dispatch, environment, body)
        try:
            await self._require_queue(asker)
            said = await self._acts[route.id](self, asker, *map(_read, rest))
        except _RefusedError as refused:
            return refused.answer
        answer = said if isinstance(said, bytes) else msgspec.json.encode(said)
        return Response(200, _HEADERS, answer)

    async def _require_queue(self, asker: _Asker) -> None:
        name = quote(asker.environment, safe="")
        kind = (await asker.ask(b"GET", f"/v1/environments/{name}"))["config"]["type"]
        if kind != "self_hosted":
            raise InvalidEnvironmentError(
                problem=f"The environment {asker.environment} is of the type {kind}; only one of the type "
                "self_hosted has a queue of work."
            )

    # What there is ----------------------------------------------------------------------

    async def _list(self, asker: _Asker) -> bytes:
        parameters = Parameters(asker.request)
        page = await asker.routed(parameters.whole(LIMIT), parameters.text("page"))
        shown = await self._all(asker, page.data)
        return json_page([msgspec.json.encode(one) for one in shown], next_page=page.next_page)

    async def _stats(self, asker: _Asker) -> WorkQueueStats:
        waiting: list[_Session] = []
        pending = 0
        page: str | None = None
        for _ in range(_PAGES_MAX):
            found = await asker.routed(_PAGE, page)
            free = [one for one in found.data if self._is_free(one)]
            waiting += free
            pending += len(found.data) - len(free)
            page = found.next_page
            if page is None:
                break
        first = await self._all(asker, waiting[:_PAGE])
        return WorkQueueStats(len(waiting), pending, min((one.created_at for one in first), default=None))

    async def _get(self, asker: _Asker, work: _WorkId) -> WorkItem:
        return await self._shown(asker, work, await self._session(asker, work))

    async def _update(self, asker: _Asker, work: _WorkId) -> WorkItem:
        await self._session(asker, work)
        changed = {"metadata": asker.body.metadata}
        session = await asker.ask(b"POST", _path(work.session), changed, shape=_Session)
        return await self._shown(asker, work, session)

    # Claims -----------------------------------------------------------------------------

    async def _poll(self, asker: _Asker) -> WorkItem | None:
        parameters = Parameters(asker.request)
        left = parameters.whole(BLOCK_MS) / 1_000
        reclaim_ms = parameters.whole_if_given(RECLAIM_MS)
        while True:
            found = await self._claim(asker, reclaim_ms)
            if found is not None or left <= 0:
                return found
            await asyncio.sleep(min(_PAUSE_SECONDS, left))
            # Counted, not measured: a poll may wait a little longer than asked, by what its looks took.
            left -= _PAUSE_SECONDS

    async def _claim(self, asker: _Asker, reclaim_ms: int | None) -> WorkItem | None:
        wish: dict[str, Any] = {"seconds": self._limits.environment_lease_seconds, "exclusive": False}
        if worker := asker.request.headers.get(WORKER_ID.key, b"").decode("latin-1"):
            wish["worker"] = worker[: self._limits.graph_name_max]
        page: str | None = None
        for _ in range(_PAGES_MAX):
            found = await asker.routed(_PAGE, page)
            for session in found.data:
                item = await self._claim_one(asker, session, reclaim_ms, wish)
                if item is not None:
                    return item
            page = found.next_page
            if page is None:
                break
        return None

    async def _claim_one(
        self, asker: _Asker, session: _Session, reclaim_ms: int | None, wish: dict[str, Any]
    ) -> WorkItem | None:
        """Wake a session as it was seen, None if it is not to be had.

        All who poll have the same principal, which may always take over from itself: that nothing has
        happened to the session since it was seen free is what keeps two polls from getting it.
        """
        found: _Session | None = session
        for _ in range(_TRIES):
            route = None if found is None else found.route
            if found is None or route is None or route.to != asker.environment or not route.open:
                return None
            if not self._is_free(found, reclaim_ms):
                return None
            as_seen = {IF_MATCH.key: b'"%b"' % found.next_offset.encode()}
            try:
                woken = await asker.ask(b"POST", _path(found.id) + "/wake", wish, headers=as_seen)
            except _RefusedError as refused:
                if refused.answer.status == 412:
                    found = await asker.session(found.id)
                    continue
                if refused.answer.status in (404, 409):
                    return None  # it has ended, or was stopped
                raise
            work = _WorkId(found.id, route.id, woken["epoch"])
            item = await self._shown(asker, work, found)
            item.state, item.secret = "starting", _secret(asker.request)
            return item
        return None

    async def _acknowledge(self, asker: _Asker, work: _WorkId) -> WorkItem:
        session = await self._session(asker, work)
        if not _is_routed(session, work):
            raise WorkStoppedError(work=str(work))
        self._require_claim(session, work)
        return await self._shown(asker, work, session)

    async def _beat(self, asker: _Asker, work: _WorkId) -> WorkHeartbeat:
        session = await self._session(asker, work)
        now, seconds = rfc3339(self._clock.now_ms()), self._limits.environment_lease_seconds
        if not _is_routed(session, work):
            return WorkHeartbeat(now, False, "stopped", seconds)
        self._require_claim(session, work)
        beat: dict[str, Any] = {"epoch": work.epoch}
        if (expected := Parameters(asker.request).text(EXPECTED_HEARTBEAT.name)) is not None:
            beat["last"] = None if expected == _NO_HEARTBEAT else expected
        try:
            renewed = await asker.ask(b"POST", _path(work.session) + "/renew", beat)
        except _RefusedError as refused:
            if refused.answer.status == 403:
                raise WorkLostError(work=str(work)) from refused
            raise
        return WorkHeartbeat(renewed["renewed_at"], True, "active", seconds)

    async def _stop(self, asker: _Asker, work: _WorkId) -> WorkItem:
        """End the route, and then the lease: between the two the session is in nobody's queue."""
        session = await self._session(asker, work)
        if not _is_routed(session, work):
            raise WorkStoppedError(work=str(work))
        lease = session.lease
        if work.epoch and lease is not None:
            self._require_claim(session, work)
        is_holder = lease is not None and lease.principal == asker.caller.principal
        # Whoever holds the lease is let in only under its epoch; an operator who stops the work of others has
        # none.
        headers = {SESSION_EPOCH.key: b"%d" % lease.epoch} if lease is not None and is_holder else {}
        routed = {"type": "ds.routed", "to": _EVERYBODY, "reason": "the work was stopped"}
        try:
            await asker.ask(b"POST", f"{_path(work.session)}/events", {"events": [routed]}, headers=headers)
            if lease is not None and is_holder:
                await asker.ask(b"POST", _path(work.session) + "/release", {"epoch": lease.epoch})
        except _RefusedError as refused:
            if refused.answer.status == 403:
                raise WorkLostError(work=str(work)) from refused
            raise
        return await self._get(asker, work)

    def _require_claim(self, session: _Session, work: _WorkId) -> None:
        lease = session.lease
        if lease is None or lease.epoch != work.epoch:
            raise WorkLostError(work=str(work))

    def _is_free(self, session: _Session, reclaim_ms: int | None = None) -> bool:
        """Say whether nobody works on a session, or nobody who has given a sign of life since."""
        lease = session.lease
        if lease is None:
            return True
        expires_ms = parse_rfc3339(lease.expires_at) or 0
        route = session.route
        # An expiry less the seconds of the lease is the last sign of life. Only claims of this queue are
        # judged by it: who woke the session otherwise has the whole lease.
        if reclaim_ms is not None and route is not None and lease.principal == route.to:
            expires_ms += reclaim_ms - lease.seconds * 1_000
        return expires_ms <= self._clock.now_ms()

    # How it is shown --------------------------------------------------------------------

    async def _session(self, asker: _Asker, work: _WorkId) -> _Session:
        session = await asker.session(work.session)
        if session is None:
            raise RegisteredObjectNotFoundError(kind="work", name=str(work))
        return session

    async def _all(self, asker: _Asker, sessions: list[_Session]) -> list[WorkItem]:
        few = asyncio.Semaphore(_AT_ONCE)

        async def shown(session: _Session) -> WorkItem:
            assert session.route is not None, "it was listed by its route"
            # Work that waits has no epoch yet: its id is another one when it is claimed.
            epoch = 0 if session.lease is None or self._is_free(session) else session.lease.epoch
            async with few:
                return await self._shown(asker, _WorkId(session.id, session.route.id, epoch), session)

        return list(await asyncio.gather(*map(shown, sessions)))

    async def _shown(self, asker: _Asker, work: _WorkId, session: _Session) -> WorkItem:
        state: WorkState = "active"
        if not _is_routed(session, work):
            state = "stopped"
        elif self._is_free(session):
            state = "queued"
        item = WorkItem(
            str(work),
            asker.environment,
            SessionWork(work.session),
            state,
            {name: value for name, value in session.metadata.items() if isinstance(value, str)},
            await asker.time_of(work.session, work.route) or session.created_at,
        )
        if state != "queued":
            claimed = await asker.last_time_of(work.session, "ds.lease.claimed")
            item.acknowledged_at = item.started_at = claimed
        lease = session.lease
        if state == "active" and lease is not None:
            renewed_ms = (parse_rfc3339(lease.expires_at) or 0) - lease.seconds * 1_000
            item.latest_heartbeat_at = rfc3339(renewed_ms)
        if state == "stopped":
            item.stop_requested_at = item.stopped_at = await asker.last_time_of(work.session, "ds.routed")
        return item

    _acts: ClassVar[dict[str, Callable[..., Awaitable[object]]]] = {
        "listWork": _list,
        "pollWork": _poll,
        "getWorkStats": _stats,
        "getWork": _get,
        "updateWork": _update,
        "acknowledgeWork": _acknowledge,
        "heartbeatWork": _beat,
        "stopWork": _stop,
    }
    ROUTES.complete(dict.fromkeys(_acts, handle), "Environment work")


def _secret(request: Request) -> str | None:
    """Return the caller's own key, as the worker of the SDKs wants it for the work; None without one."""
    key = secret_of(request.headers)
    if not key:
        return None
    return urlsafe_b64encode(msgspec.json.encode({"sessions_token": key.decode("latin-1")})).decode()


def _read(text: str) -> _WorkId:
    """Return what the id of a work says."""
    encoded = text.removeprefix(_PREFIX)
    try:
        if encoded == text:
            raise ValueError
        decoded = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        return msgspec.json.decode(decoded, type=_WorkId)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise RegisteredObjectNotFoundError(kind="work", name=text[:80]) from None


def _is_routed(session: _Session, work: _WorkId) -> bool:
    """Say whether the route that made a work is still the session's."""
    route = session.route
    return route is not None and route.id == work.route


def _path(session: str) -> str:
    return f"/v1/sessions/{quote(session, safe='')}"
