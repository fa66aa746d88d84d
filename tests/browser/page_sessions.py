"""Sessions for tests of the page."""

from typing import Any

import httpx2

Event = dict[str, Any]


def talk(count: int) -> list[Event]:
    """Return so many events of an agent at work: messages of many lengths, calls, results and failures."""
    events: list[Event] = []
    number = 0
    while len(events) < count:
        number += 1
        if number % 9 == 1:
            events.append(
                {"type": "user.message", "id": f"u{number}", "content": f"Do step {number}. " * (number % 40)}
            )
        elif number % 3 == 0:
            events.append(
                {
                    "type": "agent.message",
                    "id": f"m{number}",
                    "content": f"Step {number}:\n\n- one\n- two\n" * (number % 7),
                }
            )
        else:
            events.append(call(f"c{number}", f"make step-{number}"))
            events.append(result(f"c{number}", f"done {number}\n" * (number % 50), failed=number % 11 == 0))
    return events[:count]


def call(name: str, command: str) -> Event:
    """Return a tool call."""
    return {"type": "agent.tool_use", "id": name, "name": "bash", "input": {"command": command}}


def result(of: str, text: str, *, failed: bool = False) -> Event:
    """Return the result of a call."""
    more = {"is_error": True} if failed else {}
    return {
        "type": "agent.tool_result",
        "id": f"r-{of}",
        "tool_use_id": of,
        "content": [{"type": "text", "text": text}],
        **more,
    }


def store(client: httpx2.Client, session: str, events: list[Event], **about: Any) -> None:
    """Store a session."""
    assert client.put(f"/v1/sessions/{session}", json=about).status_code in (200, 201)
    for start in range(0, len(events), 1000):
        append(client, session, events[start : start + 1000])


def append(client: httpx2.Client, session: str, events: list[Event]) -> None:
    """Append events to a session."""
    answer = client.post(f"/v1/sessions/{session}/events", json=events)
    assert answer.status_code == 204, answer.text
