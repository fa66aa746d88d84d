"""The requests of sessions and their events."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict
from urllib.parse import quote

import httpx2
import msgspec

from durable_sessions.client import encoding, offsets
from durable_sessions.client.call import ApiCall
from durable_sessions.client.event import Event
from durable_sessions.client.incarnation import HEADER
from durable_sessions.client.info import SessionInfo, session_info

EventLike = Mapping[str, Any]
Time = datetime | str
Unset = msgspec.UnsetType
UNSET = msgspec.UNSET

_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Appended:
    """An append that is durable. ``next_offset`` is where the session ended when the server answered.

    ``replayed`` says that an earlier attempt, whose answer was lost, had stored it. ``repeated`` are the
    indexes of events whose ids existed already; ``differ`` are those of them with other content, which were
    not stored. The server shortens long scattered lists. ``incarnation`` is that of the session.
    """

    next_offset: str
    replayed: bool = False
    repeated: tuple[int, ...] = ()
    differ: tuple[int, ...] = ()
    incarnation: str | None = None


def session_path(session: str, *rest: str) -> str:
    """Return the path of a session or of something below it."""
    # HTTP libraries and proxies resolve "." and ".." in a path, so that the request would go elsewhere.
    if not _text(session) or session.startswith("."):
        raise ValueError("A session's id has 1 to 200 characters and does not begin with a dot.")
    return "/".join(("/v1/sessions", quote(session, safe=""), *(_segment(part) for part in rest)))


def _segment(part: str) -> str:
    if _text(part) in ("", ".", ".."):
        raise ValueError(f"{part!r} is no id.")
    return quote(part, safe="")


def _text(id: str) -> str:  # noqa: A002 - the name on the wire
    """Refuse what is no text, such as the position of an event: it would fail far from the mistake."""
    if not isinstance(id, str):
        raise TypeError(f"An id is a text such as 'sevt_1', not {id!r} ({type(id).__name__}).")
    return id


def json_of(answer: httpx2.Response) -> dict[str, Any]:
    """Return the JSON object in the body of an answer."""
    found = encoding.decode(answer.content)
    if not isinstance(found, dict):
        raise TypeError("The answer is no JSON object.")
    return found


def info_of(answer: httpx2.Response) -> SessionInfo:
    """Return the session described by the body of an answer."""
    return session_info(json_of(answer))


def nothing(answer: httpx2.Response) -> None:
    """Ignore the body of an answer."""


# Sessions -------------------------------------------------------------------------------


class SessionFields(TypedDict, total=False):
    """The properties of a new session."""

    title: str | None
    metadata: Mapping[str, Any] | None
    agent: str | Mapping[str, Any] | None
    environment_id: str | None
    initial_events: Iterable[EventLike] | None
    resources: Iterable[Mapping[str, Any]] | None
    budget: Mapping[str, Any] | None
    goal: str | None
    outcome: Iterable[Mapping[str, Any]] | None
    ttl_seconds: int | None
    expires_at: Time | None


def create(
    id: str | None,  # noqa: A002 - the name on the wire
    *,
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    agent: str | Mapping[str, Any] | None = None,
    environment_id: str | None = None,
    initial_events: Iterable[EventLike] | None = None,
    resources: Iterable[Mapping[str, Any]] | None = None,
    budget: Mapping[str, Any] | None = None,
    goal: str | None = None,
    outcome: Iterable[Mapping[str, Any]] | None = None,
    ttl_seconds: int | None = None,
    expires_at: Time | None = None,
) -> ApiCall[SessionInfo]:
    """Create a session; an ``outcome`` is the list of features that must pass before it is done."""
    headers = {}
    if ttl_seconds is not None:
        headers["Stream-TTL"] = str(ttl_seconds)
    if expires_at is not None:
        headers["Stream-Expires-At"] = time_text(expires_at)
    body = {
        "title": title,
        "metadata": metadata,
        "agent": agent,
        "environment_id": environment_id,
        "budget": budget,
        "goal": goal,
        "outcome": None if outcome is None else {"features": list(outcome)},
        "initial_events": None if initial_events is None else list(initial_events),
        "resources": None if resources is None else list(resources),
    }
    return _put(id, headers, body)


def fork(
    id: str | None,  # noqa: A002
    source: str,
    *,
    source_incarnation: str | None = None,
    at: str | int | None = None,
    title: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> ApiCall[SessionInfo]:
    """Create a session that begins with the events of another."""
    headers = {"Stream-Forked-From": session_path(source)}
    if source_incarnation is not None:
        headers["Stream-Forked-From"] += f"?incarnation={source_incarnation}"
    if at is not None:
        headers["Stream-Fork-Offset"] = offset_text(at)
    return _put(id, headers, {"title": title, "metadata": metadata})


def _put(id: str | None, headers: dict[str, str], body: Mapping[str, object]) -> ApiCall[SessionInfo]:  # noqa: A002
    """Create a session under an id that the client chooses, so that a retry cannot create a second one."""
    path = session_path(id or "sesn_" + secrets.token_hex(16))
    content = encoding.encode({name: value for name, value in body.items() if value is not None})
    return ApiCall("PUT", path, info_of, headers={**_JSON, **headers}, content=content)


def info(session: str) -> ApiCall[SessionInfo]:
    """Ask for a session."""
    return ApiCall("GET", session_path(session), info_of)


def update(session: str, **changes: object) -> ApiCall[SessionInfo]:
    """Change properties of a session; those that are UNSET stay as they are."""
    given = {name: value for name, value in changes.items() if value is not UNSET}
    return ApiCall("POST", session_path(session), info_of, headers=_JSON, content=encoding.encode(given))


def archive(session: str) -> ApiCall[SessionInfo]:
    """End a session for good."""
    return ApiCall("POST", session_path(session, "archive"), info_of)


def close(session: str) -> ApiCall[SessionInfo]:
    """Make a session refuse further events."""
    return ApiCall("POST", session_path(session, "close"), info_of)


def delete(session: str, if_match: str | None = None) -> ApiCall[None]:
    """Remove a session, or only if it still ends at an offset."""
    headers = {} if if_match is None else {"If-Match": f'"{if_match}"'}
    return ApiCall("DELETE", session_path(session), nothing, headers=headers, gone_is_done=True)


# Events ---------------------------------------------------------------------------------


def encode_events(events: EventLike | Iterable[EventLike]) -> bytes:
    """Return the body of an append of one event or of several."""
    return join_append(_encoded(events))


def encode_append(
    events: EventLike | Iterable[EventLike],
    conditions: Mapping[str, Any] | None,
    session: Mapping[str, Any] | None,
) -> bytes:
    """Return the body of an append, perhaps with conditions and with what a new session is to be."""
    return join_append(_encoded(events), conditions, session)


def join_append(
    encoded: Sequence[bytes],
    conditions: Mapping[str, Any] | None = None,
    session: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the body of an append of events that are encoded already."""
    if not encoded:
        raise ValueError("Give at least one event, a mapping with a type.")
    events = b"[" + b",".join(encoded) + b"]"
    if conditions is None and session is None:
        return events
    members = [b'"events":' + events]
    if conditions is not None:
        members.append(b'"if":' + encoding.encode(conditions))
    if session is not None:
        members.append(b'"session":' + encoding.encode(session))
    # Put together from bytes: each event was encoded once, and is sent and compared as exactly these bytes.
    return b"{%b}" % b",".join(members)


def _encoded(events: EventLike | Iterable[EventLike]) -> list[bytes]:
    try:
        listed = [events] if isinstance(events, Mapping) else list(events)
    except TypeError:
        raise TypeError(_no_event(events)) from None
    return [encode_event(event) for event in listed]


def encode_event(event: EventLike) -> bytes:
    """Return an event as JSON."""
    if not isinstance(event, Mapping):
        raise TypeError(_no_event(event))
    return encoding.encode(event)


def _no_event(given: object) -> str:
    return f'An event is a mapping such as {{"type": "note"}}, not {type(given).__name__}.'


def redact(
    session: str, events: Iterable[str | Event], reason: str, artifacts: Iterable[str], *, digest: bool
) -> ApiCall[Event | None]:
    """Erase events and artifacts."""
    body: dict[str, Any] = {
        "events": [one if isinstance(one, str) else one.id for one in events],
        "reason": reason,
        "digest": digest,
    }
    if chosen := list(artifacts):
        body["artifacts"] = chosen
    path = session_path(session, "redact")
    return ApiCall("POST", path, _recorded, headers=_JSON, content=encoding.encode(body))


def _recorded(answer: httpx2.Response) -> Event | None:
    found = json_of(answer)["event"]
    return None if found is None else Event(found)


def append(
    session: str,
    body: bytes,
    producer: Mapping[str, str],
    if_match: str | None = None,
    source: str | None = None,
    epoch: int | None = None,
) -> ApiCall[Appended]:
    """Append events, with the headers of a producer.

    ``source`` is where imported ones come from, ``epoch`` that of a worker's lease.
    """
    headers = {**_JSON, **producer}
    if source is not None:
        headers["Session-Import"] = source
    if epoch is not None:
        headers["Session-Epoch"] = str(epoch)
    if if_match is not None:
        headers["If-Match"] = f'"{if_match}"'
    return ApiCall("POST", session_path(session, "events"), _appended, headers=headers, content=body)


def test_conditions(session: str, conditions: Mapping[str, Any]) -> ApiCall[None]:
    """Ask whether conditions hold; 412 if they do not. Nothing is written."""
    content = encoding.encode({"events": [], "if": conditions})
    return ApiCall("POST", session_path(session, "events"), nothing, headers=_JSON, content=content)


def _appended(answer: httpx2.Response) -> Appended:
    headers = answer.headers
    return Appended(
        headers["stream-next-offset"],
        "idempotent-replayed" in headers,
        _indexes(headers.get("events-repeated", "")),
        _indexes(headers.get("events-differ", "")),
        headers.get(HEADER),
    )


def _indexes(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as ``0,2,5-9``; a list that the server shortened ends in dots."""
    found: list[int] = []
    for part in text.replace("...", "").split(","):
        first, _, last = part.strip().partition("-")
        if first:
            found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)


def event(session: str, event_id: str) -> ApiCall[Event]:
    """Ask for one event."""
    return ApiCall("GET", session_path(session, "events", event_id), lambda answer: Event(json_of(answer)))


# Values ---------------------------------------------------------------------------------


def offset_text(offset: str | int) -> str:
    """Return an offset in the format of the wire; a number is a position."""
    return offsets.of(offset) if isinstance(offset, int) else offset


def time_text(time: Time) -> str:
    """Return a time in the format of the wire; one without a time zone is refused."""
    if isinstance(time, str):
        return time
    if time.tzinfo is None:
        raise ValueError("Give a time with a zone, such as datetime.now(UTC).")
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
