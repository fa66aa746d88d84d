"""What a session asks a person now: open requests, and calls that may not run before somebody allows it.

Nothing is folded: the requests are in the session's attributes, and the calls are named by the event with
which it became idle. So a long session costs as little as a short one.
"""

from typing import NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import EventNotFoundError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions import summary
from durable_sessions.sessions.graph.approvals import PendingApproval
from durable_sessions.sessions.graph.control import APPROVALS, Control
from durable_sessions.sessions.graph.happened import CALLS, EFFECTS, RESULTS, Happened
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.sessions.reading import EventReader
from durable_sessions.sessions.selection import Selection
from durable_sessions.storage.door import StreamView

_IDLE = Selection(types=("session.status_idle",))
_ANSWERS = Selection(types=(*sorted(RESULTS), "user.tool_confirmation"))
_LOOKED_BACK = 4_096
"""How many of the last events are searched for the one with which a session became idle."""


class AskedCall(NamedTuple):
    """The call that a request is about; its input is null if it is large."""

    id: str
    name: str
    input: msgspec.Raw
    effect: str
    position: int


class WaitingApproval(NamedTuple):
    """A request or a call that waits, where it is, since when, and the call that it is about."""

    request: PendingApproval
    position: int
    at_ms: int
    call: AskedCall | None


class _Reason(msgspec.Struct):
    event_ids: list[msgspec.Raw] = []


_REASON = msgspec.json.Decoder(_Reason)


async def waiting(reader: EventReader, durable: StreamView) -> list[WaitingApproval]:
    """Return what a session asks a person, the oldest first."""
    requests = (
        Control(durable.attributes, DEFAULT_LIMITS).approvals if APPROVALS in durable.attributes else []
    )
    found: list[WaitingApproval] = []
    for request in requests:
        asked = await _event(reader, durable, request.id)
        about = None if request.about is None else await _event(reader, durable, request.about)
        if asked is not None:
            found.append(WaitingApproval(request, asked.position, asked.at_ms, _call(about)))
    covered = {request.id for request in requests} | {request.about for request in requests}
    for event in await _calls(reader, durable):
        if event.id not in covered:
            question = f"May {event.members.text('name') or 'this tool'} be called?"
            request = PendingApproval(event.id, question, ["approve", "reject"], False, event.actor, event.id)
            found.append(WaitingApproval(request, event.position, event.at_ms, _call(event)))
    return sorted(found, key=lambda one: one.position)


async def _calls(reader: EventReader, durable: StreamView) -> list[Happened]:
    """Return the calls that an idle session names, that ask to be allowed, and that nobody has answered."""
    folded = summary.of(durable.attributes)
    if folded.status != "idle" or folded.stop_reason != "requires_action":
        return []
    tail = durable.tail
    idle = await reader.page(durable, max(0, tail - _LOOKED_BACK), tail, 1, _IDLE, backwards=True)
    if not idle.count:
        return []
    position = idle.next
    named = _named(happened(idle.events()[0], position, None))
    if not named:
        return []
    answers = await reader.page(durable, position, tail, DEFAULT_LIMITS.approvals_pending_max, _ANSWERS)
    answered = {happened(event, 0, None).members.call for event in answers.events()}
    calls = [await _event(reader, durable, one) for one in named if one not in answered]
    return [one for one in calls if one is not None and _asks(one)]


def _named(idle: Happened) -> list[str]:
    """Return the events that a session names as what it waits for."""
    try:
        reason = lenient.decode(_REASON, bytes(idle.members.stop_reason))
    except (msgspec.MsgspecError, RecursionError):
        return []
    texts = (lenient.text(one) for one in reason.event_ids[: DEFAULT_LIMITS.approvals_pending_max])
    return list(dict.fromkeys(text for text in texts if text is not None))


def _asks(event: Happened) -> bool:
    return event.type in CALLS and event.members.text("evaluated_permission") == "ask"


async def _event(reader: EventReader, durable: StreamView, event: str) -> Happened | None:
    """Return an event of a session, None if it has none with this id."""
    try:
        position, stored = await reader.by_id(durable, event)
    except EventNotFoundError:
        return None  # a client names what it likes, and a dropped event keeps no id
    return happened(stored, position, None)


def _call(event: Happened | None) -> AskedCall | None:
    """Return the call that an event is, None if it is none."""
    if event is None or event.type not in CALLS:
        return None
    members, effect = event.members, event.members.text("effect")
    is_large = len(bytes(members.input)) > DEFAULT_LIMITS.open_call_input_bytes_max
    return AskedCall(
        event.id,
        (members.text("name") or "")[: DEFAULT_LIMITS.graph_name_max],
        lenient.NULL if is_large else msgspec.Raw(bytes(members.input)),
        effect if effect in EFFECTS else "unknown",
        event.position,
    )
