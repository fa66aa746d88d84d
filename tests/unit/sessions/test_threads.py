"""Threads are known from the events that name them."""

import json
from dataclasses import replace
from typing import Any

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions import threads
from durable_sessions.sessions.drafts import parse
from durable_sessions.sessions.threads import Thread

LIMITS = replace(DEFAULT_LIMITS, session_threads_max=2)


def fold(attributes: dict[str, bytes], *events: dict[str, Any] | str, now_ms: int = 7) -> dict[str, Thread]:
    """Change the attributes as the events say, and return the threads."""
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    drafts = [draft for text in texts for draft in parse(text.encode(), LIMITS)]
    changed = threads.fold(attributes, drafts, now_ms, LIMITS)
    attributes.update({name: value for name, value in changed.items() if value is not None})
    return threads.of(attributes)


def event(kind: str, thread: str | None, **more: Any) -> dict[str, Any]:
    return {"type": kind, "session_thread_id": thread, **more}


def test_a_thread_is_known_from_its_first_event() -> None:
    attributes: dict[str, bytes] = {}
    assert fold(attributes, event("a", None), {"type": "a"}, event("a", "")) == {}
    assert fold(attributes, event("a", "t")) == {"t": Thread(7, 7)}
    assert threads.fold(attributes, parse(b'{"type":"a","session_thread_id":"t"}', LIMITS), 9, LIMITS) == {}


def test_a_thread_follows_its_own_events() -> None:
    attributes: dict[str, bytes] = {}
    created = event("session.thread_created", "t", agent_name="helper", parent_thread_id="p")
    running = event("session.thread_status_running", "t")
    (thread,) = fold(attributes, created, running).values()
    assert (thread.agent_name, thread.parent, thread.status) == ("helper", "p", "running")
    (thread,) = fold(attributes, event("session.thread_status_idle", "t"), now_ms=9).values()
    assert (thread.agent_name, thread.status, thread.created_at_ms, thread.updated_at_ms) == (
        "helper",
        "idle",
        7,
        9,
    )
    odd = '{"type":"session.thread_x","session_thread_id":"t","agent_name":"n","x":"\\ud800"}'
    (thread,) = fold(attributes, odd).values()
    assert thread.agent_name == "n"
    (thread,) = fold(attributes, event("session.thread_x", "t", agent_name=5)).values()
    assert thread.agent_name == "n"


def test_no_more_threads_are_known_than_the_limit_says() -> None:
    attributes: dict[str, bytes] = {}
    found = fold(attributes, *[event("a", f"t{n}") for n in range(4)], event("a", "x" * 201))
    assert list(found) == ["t0", "t1"]
    assert list(fold(attributes, event("a", "t3"))) == ["t0", "t1"]
    assert fold(attributes, event("session.thread_status_running", "t1"))["t1"].status == "running"


def test_an_archived_thread_takes_part_no_more() -> None:
    archived = threads.archive(Thread(1, 2), 9)
    assert (archived.archived_at_ms, archived.updated_at_ms, archived.status) == (9, 9, "terminated")


def test_the_primary_thread_follows_from_the_session() -> None:
    assert threads.primary("s") == threads.primary("s") != threads.primary("t")
    assert threads.primary("s").startswith("sthr_")
