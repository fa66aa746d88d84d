"""Reading the slots of a session over HTTP."""

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api.sessions import incarnations
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.work import position_of
from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.http.openapi.answer_headers import STREAM_NEXT_OFFSET
from durable_sessions.http.openapi.slots import LIMIT, ORDER
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids
from durable_sessions.sessions import slots as slot_names
from durable_sessions.sessions.slot_reading import AskedSlots, SlotHolder
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView
from durable_sessions.streams import offsets
from durable_sessions.streams.stream import Key

_FIELDS = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]


class _Envelope(msgspec.Struct):
    id: str
    type: str


_ENVELOPE = msgspec.json.Decoder(_Envelope)


class SlotReads:
    """Answers requests for slots."""

    def __init__(self, sessions: Sessions, limits: Limits) -> None:
        self._sessions = sessions
        self._limits = limits

    async def read(self, request: Request, caller: Caller, key: Key) -> Response:
        """Answer with a page of slots, all as of one moment."""
        parameters = Parameters(request)
        durable = self._sessions.find(key, incarnations.asked(request))
        self._sessions.streams.touch(durable)
        names = slot_names_of(parameters, "slot", self._limits.slots_asked_max)
        prefix = _prefix(parameters)
        asked = AskedSlots(
            _end(parameters, durable),
            parameters.whole(LIMIT) if "limit" in parameters else max(int(LIMIT.default), len(names)),
            names,
            "" if prefix is None and not names else prefix,
            parameters.text("after"),
            parameters.word(ORDER) == "desc",
        )
        found = await self._sessions.slots.page(durable, asked)
        shows_values = parameters.choice("values", "true", ("true", "false", "1", "0")) in ("true", "1")
        show = _with_event if shows_values else _without_event
        offset = offsets.encode(asked.end).encode()
        body = b'{"data":[%b],"next_after":%b,"next_offset":"%b","incarnation":"%b"}' % (
            b",".join(map(show, found.slots)),
            msgspec.json.encode(found.next_after),
            offset,
            event_ids.tag(durable.stream).encode(),
        )
        return Response(200, [*_FIELDS, (STREAM_NEXT_OFFSET, offset), incarnations.of(durable)], body)


def slot_names_of(parameters: Parameters, parameter: str, most: int) -> list[str]:
    """Return the slots that a parameter names, each once."""
    names = list(dict.fromkeys(parameters.values(parameter)))
    if len(names) > most:
        raise InvalidRequestError(problem=f"{len(names)} slots are too many; send {parameter}= {most} times.")
    for name in names:
        if not slot_names.is_name(name):
            raise InvalidRequestError(
                problem=f"{parameter}= is the name of a slot: 1 to {slot_names.NAME_BYTES_MAX} bytes without "
                "control characters."
            )
    return names


def _prefix(parameters: Parameters) -> str | None:
    prefix = parameters.text("prefix")
    if prefix is not None and not slot_names.is_prefix(prefix):
        raise InvalidRequestError(
            problem=f"prefix= has at most {slot_names.NAME_BYTES_MAX} bytes, and no control characters."
        )
    return prefix


def _end(parameters: Parameters, durable: StreamView) -> int:
    """Return the end that a read is as of: a position, an offset, or now."""
    return position_of(parameters.text("at"), durable)


def _with_event(held: SlotHolder) -> bytes:
    return b'{"slot":%b,"event":%b}' % (msgspec.json.encode(held.name), held.event)


def _without_event(held: SlotHolder) -> bytes:
    said = _ENVELOPE.decode(held.event)
    return msgspec.json.encode(
        {
            "slot": held.name,
            "id": said.id,
            "offset": offsets.encode(held.position),
            "type": said.type,
            "bytes": len(held.event),
        }
    )
