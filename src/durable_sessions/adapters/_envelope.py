"""The envelope of a framework's object: an event with our members beside it, and the object whole as ``raw``.

It is wrapped because its own members would collide with those of events (``id``, ``offset``, ``created_at``).
What is too large or too deep for an event is an artifact, put before the append that names it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from durable_sessions.adapters._plans import Plan
from durable_sessions.adapters._requests import get_artifact, put_artifact
from durable_sessions.client import Event
from durable_sessions.client.encoding import decode, encode

EVENT_BYTES_MAX = 1_000_000
BATCH_BYTES_MAX = 7_000_000
BATCH_EVENTS_MAX = 900
DEPTH_MAX = 120


def wrapped(kind: str, raw: Any, version: int = 1, **members: Any) -> dict[str, Any]:
    """Return an event of a framework's type around its object; members that are None are left out."""
    given = {name: value for name, value in members.items() if value is not None}
    return {"type": kind, **given, "raw_format": f"{kind}/{version}", "raw": raw}


def encoded(events: Iterable[dict[str, Any]]) -> Plan[list[bytes]]:
    """Return events as JSON that fits into one request, after their large objects were stored beside them."""
    listed = list(events)
    made: list[bytes] = []
    for event in listed:
        text = encode(event)
        if len(text) > EVENT_BYTES_MAX or _is_deep(text, event.get("raw")):
            text = yield from _with_artifact(event)
        made.append(text)
    while sum(map(len, made)) > BATCH_BYTES_MAX:
        largest = max(range(len(made)), key=lambda index: len(made[index]))
        made[largest] = yield from _with_artifact(listed[largest])
    return made


def unwrapped(event: Event) -> Plan[Any]:
    """Return the object in an event; None if it was erased."""
    if "raw" in event:
        return event["raw"]
    if "raw_artifact" not in event:
        return None
    return decode((yield from get_artifact(event["raw_artifact"]["sha256"])))


def all_unwrapped(events: Iterable[Event]) -> Plan[list[Any]]:
    """Return the objects in events, without those that were erased by a redaction or a drop."""
    found = []
    for event in events:
        if "raw" in event or "raw_artifact" in event:
            found.append((yield from unwrapped(event)))  # noqa: PERF401 - a comprehension cannot do that
    return found


def batches(events: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    """Yield encoded events in groups that each fit into a request, for calls that need not be atomic."""
    some: list[bytes] = []
    size = 0
    for event in events:
        if some and (len(some) >= BATCH_EVENTS_MAX or size + len(event) > BATCH_BYTES_MAX):
            yield some
            some, size = [], 0
        some.append(event)
        size += len(event)
    if some:
        yield some


def _with_artifact(event: dict[str, Any]) -> Plan[bytes]:
    stored = yield from put_artifact(encode(event["raw"]))
    rest = {name: value for name, value in event.items() if name != "raw"}
    return encode({**rest, "raw_artifact": {"sha256": stored.sha256, "bytes": stored.size}})


def _is_deep(text: bytes, value: Any) -> bool:
    """Say whether a value nests too deeply for an event; short texts without many brackets cannot."""
    if text.count(b"[") + text.count(b"{") <= DEPTH_MAX:
        return False
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list | tuple)
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list | tuple)
        ]
        if not level:
            return False
    return True
