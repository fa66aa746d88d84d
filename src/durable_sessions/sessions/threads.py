"""The threads of a session, derived from the events that name them; each is stored in its own attribute."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import msgspec

from durable_sessions import lenient
from durable_sessions.limits import Limits
from durable_sessions.sessions.drafts import Draft

PREFIX = "thread:"

_STATUS_BY_TYPE = {
    "session.thread_status_running": "running",
    "session.thread_status_idle": "idle",
    "session.thread_status_rescheduled": "rescheduling",
    "session.thread_status_terminated": "terminated",
}


class Thread(msgspec.Struct, omit_defaults=True):
    """One thread; times in milliseconds."""

    created_at_ms: int
    updated_at_ms: int
    agent_name: str | None = None
    parent: str | None = None
    status: str = "idle"
    archived_at_ms: int | None = None

    def encode(self) -> bytes:
        """Return the value of the attribute."""
        return msgspec.json.encode(self)


class _Event(msgspec.Struct):
    """The members of an event that say something of its thread."""

    agent_name: msgspec.Raw = lenient.NULL
    parent_thread_id: msgspec.Raw = lenient.NULL


_decode = msgspec.json.Decoder(Thread).decode
_EVENT = msgspec.json.Decoder(_Event)


def primary(session: str) -> str:
    """Return the id of the primary thread, which every session has; events without a thread belong to it."""
    return "sthr_" + blake2b(session.encode(), digest_size=12).hexdigest()


def of(attributes: Mapping[str, bytes]) -> dict[str, Thread]:
    """Return the threads that events have named, oldest first."""
    found = {
        name.removeprefix(PREFIX): _decode(value)
        for name, value in attributes.items()
        if name.startswith(PREFIX)
    }
    return dict(sorted(found.items(), key=lambda pair: (pair[1].created_at_ms, pair[0])))


def fold(
    attributes: Mapping[str, bytes], drafts: Iterable[Draft], now_ms: int, limits: Limits
) -> dict[str, bytes | None]:
    """Return the attributes of the threads that events name for the first time or change."""
    changed: dict[str, Thread] = {}
    known = sum(name.startswith(PREFIX) for name in attributes)
    for draft in drafts:
        if draft.thread is None or len(draft.thread) > limits.event_id_max:
            continue
        name = PREFIX + draft.thread
        thread = changed.get(name)
        if thread is None and name in attributes:
            thread = _decode(attributes[name])
        if thread is None:
            # Beyond the limit, events are stored as ever; only the thread has no object of its own.
            if known + len(changed) >= limits.session_threads_max:
                continue
            thread = changed[name] = Thread(now_ms, now_ms)
        if draft.type.startswith("session.thread_"):
            changed[name] = thread
            _follow(thread, draft, now_ms)
    return {name: thread.encode() for name, thread in changed.items()}


def closed(attributes: dict[str, bytes | None], now_ms: int) -> dict[str, bytes | None]:
    """Return the attributes of the threads that still run when the session ends: they end with it."""
    ended: dict[str, bytes | None] = {}
    for name, value in attributes.items():
        if name.startswith(PREFIX) and value is not None:
            thread = _decode(value)
            if thread.status in ("running", "rescheduling"):
                thread.status, thread.updated_at_ms = "terminated", now_ms
                ended[name] = thread.encode()
    return ended


def archive(thread: Thread, now_ms: int) -> Thread:
    """Return the archived form of a thread."""
    return msgspec.structs.replace(thread, archived_at_ms=now_ms, updated_at_ms=now_ms, status="terminated")


def _follow(thread: Thread, draft: Draft, now_ms: int) -> None:
    try:
        event = lenient.decode(_EVENT, draft.body)
    except msgspec.MsgspecError:
        event = _Event()
    if (name := lenient.text(event.agent_name)) is not None:
        thread.agent_name = name[:200]
    if (parent := lenient.text(event.parent_thread_id)) is not None:
        thread.parent = parent[:200]
    thread.status = _STATUS_BY_TYPE.get(draft.type, thread.status)
    thread.updated_at_ms = now_ms
