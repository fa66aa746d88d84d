"""Small things that tests of sessions have in common."""

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import httpx2

START = "0000000000000000_0000000000000000"


def at(position: int) -> str:
    """Return the offset of a position."""
    return f"0000000000000000_{position:016d}"


def position(offset: str) -> int:
    """Return the position of an offset."""
    return int(offset[17:])


def notes(numbers: Iterable[int], kind: str = "note") -> list[dict[str, Any]]:
    """Return events that carry a number each."""
    return [{"type": kind, "n": number} for number in numbers]


async def append(api: httpx2.AsyncClient, session: str, *events: dict[str, Any]) -> int:
    """Append events and return the position after them."""
    answer = await api.post(f"/sessions/{session}/events", json={"events": list(events)})
    assert answer.status_code == 204, answer.text
    return position(answer.headers["stream-next-offset"])


async def read(api: httpx2.AsyncClient, session: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return one page of events."""
    answer = await api.get(f"/sessions/{session}/events", params=parameters)
    assert answer.status_code == 200, answer.text
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


async def read_all(api: httpx2.AsyncClient, session: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return all events that are asked for, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        answer = await api.get(f"/sessions/{session}/events", params=parameters)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["data"]
        if page["next_page"] is None:
            return found
        parameters["page"] = page["next_page"]


def code(answer: httpx2.Response) -> str:
    """Return the stable code of a refusal on the sessions face."""
    found: str = answer.json()["error"]["details"]["error_code"]
    return found


def numbers(events: Iterable[dict[str, Any]]) -> list[int]:
    """Return the numbers that events carry."""
    return [event["n"] for event in events]


@dataclass
class Frame:
    """One frame of an event stream."""

    event: str
    data: str
    id: str | None

    def json(self) -> Any:
        """Return what the frame carries."""
        return json.loads(self.data)


async def frames(answer: httpx2.Response) -> AsyncIterator[Frame]:
    """Yield the frames of an event stream; comments are left out."""
    fields: dict[str, list[str]] = {}
    async for line in answer.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        elif fields:
            names = fields.get("id")
            yield Frame(
                fields.get("event", [""])[0], "\n".join(fields.get("data", [])), names[0] if names else None
            )
            fields = {}
