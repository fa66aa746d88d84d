"""OpenTelemetry over HTTP: what exporters send to ``/v1/traces``, ``/v1/logs`` and ``/v1/metrics``."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidTelemetryError
from durable_sessions.http.api import otlp_wire
from durable_sessions.http.api.parse_threads import BodyParser, is_large
from durable_sessions.http.api.route_table import ROUTES, Match
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.bodies.otlp import PartialSuccess
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.limits import Limits
from durable_sessions.redaction import Redactor
from durable_sessions.sessions.otlp import mapping, telemetry
from durable_sessions.sessions.otlp.mapping import SessionPart
from durable_sessions.sessions.otlp.telemetry import BadTelemetryError, Export
from durable_sessions.sessions.store import session_key

Dispatch = Callable[[Request], Awaitable[Answer]]
"""Answers an append to a session, wherever that is."""
ALLOW = ROUTES.at("/v1/traces").allow or ""
_SIGNALS = {"exportTraces": "trace", "exportLogs": "logs", "exportMetrics": "metrics"}
_BATCH_EVENTS, _BATCH_BYTES = 900, 4 * 1024 * 1024
_AT_ONCE = 8
"""So many sessions are written to at a time."""
_UNPACKED_AT_ONCE = 2


class SessionAppends(NamedTuple):
    """What an export has for one session: how many items, and the bodies of the appends, in order."""

    session: str
    items: int
    bodies: list[bytes]


class OtlpFace:
    """Splits an export by session, and answers when all of it is durable.

    Events have ids of what they tell: if some sessions have their part and others do not, the exporter's
    next attempt completes it.
    """

    def __init__(self, limits: Limits, parser: BodyParser, *, keep_unknown: bool, redacts: bool) -> None:
        self._limits = limits
        self._parser = parser
        self._keep_unknown = keep_unknown
        self._redacts = redacts
        self._unpacking = asyncio.Semaphore(_UNPACKED_AT_ONCE)

    async def handle(self, request: Request, caller: Caller, found: Match, dispatch: Dispatch) -> Answer:
        """Answer an export."""
        route = found.resource.route(request)
        if route.role is not None:
            caller.require(route.role)
        signal, kind = _SIGNALS[route.id], otlp_wire.media_type(request)
        chosen = Parameters(request).text("session")
        if chosen is not None:
            session_key(caller.workspace, chosen)  # refuses what no session can be called
        body = request.body
        if otlp_wire.is_packed(request):
            # In a thread whatever its size: a small body may unpack to a large one.
            async with self._unpacking:
                body = await asyncio.to_thread(otlp_wire.unpacked, body, self._limits)
        reading = (body, kind, signal, chosen)
        if self._redacts and not is_large(body):  # looking for secrets takes too long for the event loop
            export, parts = await asyncio.to_thread(self._read, *reading)
        else:
            export, parts = await self._parser.parsed(body, self._read, *reading)
        refusals = await self._store(request, caller, parts, dispatch)
        rejected, reason = export.broken, "It has no ids or no time." if export.broken else ""
        for count, answer in refusals:
            if answer.status in (429, 500, 503):
                return answer  # the exporter tries again, and what is stored already stays once
            rejected += count
            reason = reason or _reason(answer)
        return _answered(kind, signal, rejected, reason)

    def _read(
        self, body: bytes, kind: bytes, signal: str, chosen: str | None
    ) -> tuple[Export, list[SessionAppends]]:
        document = otlp_wire.document(body, kind, signal, self._limits) if body else {}
        try:
            if signal == "metrics":
                telemetry.count(document)
                return Export(), []
            export = telemetry.traces(document) if signal == "trace" else telemetry.logs(document)
        except BadTelemetryError as error:
            raise InvalidTelemetryError(problem=str(error)) from error
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise InvalidTelemetryError(problem="A resource has attributes that are none.") from error
        parts = mapping.parts(export, chosen, unknown=self._keep_unknown)
        redactor = Redactor() if self._redacts else None
        # Encoded here, too, which may be a thread: large exports are many events.
        bodies = {name: [*_bodies(one, redactor)] for name, one in parts.items()}
        return export, [SessionAppends(name, one.items, bodies[name]) for name, one in parts.items()]

    async def _store(
        self, request: Request, caller: Caller, parts: Sequence[SessionAppends], dispatch: Dispatch
    ) -> list[tuple[int, Response]]:
        """Append each part to its session; return the refusals, with how many items each concerns."""
        few = asyncio.Semaphore(_AT_ONCE)

        async def store(part: SessionAppends) -> tuple[int, Response] | None:
            path = f"/v1/sessions/{quote(part.session, safe='')}/events"
            async with few:
                for body in part.bodies:
                    append = Request(b"POST", path.encode(), b"", {}, body)
                    append.id, append.caller = request.id, caller
                    answer = await dispatch(append)
                    if answer.status >= 300 and isinstance(answer, Response):
                        return part.items, answer
            return None

        done = await asyncio.gather(*map(store, parts))
        return [one for one in done if one is not None]

    handlers: ClassVar[dict[str, Any]] = ROUTES.complete(dict.fromkeys(_SIGNALS, handle), "OpenTelemetry")


def _bodies(part: SessionPart, redactor: Redactor | None) -> Iterator[bytes]:
    """Yield the bodies of the appends of a part, in order."""
    metadata = part.metadata if redactor is None else redactor.metadata(part.metadata)
    session = msgspec.json.encode({"metadata": metadata})
    batch: list[bytes] = []
    size = 0
    for event in part.events():
        encoded = msgspec.json.encode(event if redactor is None else redactor.event(event))
        if batch and (len(batch) == _BATCH_EVENTS or size + len(encoded) > _BATCH_BYTES):
            yield _body(batch, session)
            batch, size = [], 0
        batch.append(encoded)
        size += len(encoded)
    if batch:
        yield _body(batch, session)


def _body(events: list[bytes], session: bytes) -> bytes:
    return b'{"events":[%b],"session":%b}' % (b",".join(events), session)


def _reason(answer: Response) -> str:
    try:
        return str(msgspec.json.decode(answer.body)["error"]["message"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return f"The session answered {answer.status}."


def _answered(kind: bytes, signal: str, rejected: int, reason: str) -> Response:
    said = None
    if rejected:
        said = PartialSuccess(error_message=reason)
        if signal == "trace":
            said.rejected_spans = str(rejected)
        else:
            said.rejected_log_records = str(rejected)
    fields = [(b"Content-Type", kind), (b"Cache-Control", b"no-store")]
    return Response(200, fields, otlp_wire.answer(said, kind, signal))
