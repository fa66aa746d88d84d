"""The outline of a session: what its events are, without their bodies."""

from array import array
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

import httpx2

from durable_sessions.client import encoding
from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import json_of, session_path
from durable_sessions.client.pages import given

ROLES = ("user", "agent", "thinking", "tool", "result", "system", "error", "status", "other")
_HEAD = Struct("<4sIIId")
_COLUMNS = {
    "bytes": "I",
    "pair": "i",
    "at": "I",
    "key": "I",
    "name": "H",
    "characters": "H",
    "thread": "H",
    "role": "B",
    "flags": "B",
}


@dataclass(frozen=True, slots=True)
class Outline:
    """The summary of a session's outline; ``blocks`` has None where a block is not made yet.

    ``through`` events are outlined; ask again until it is ``complete``. ``raw`` is the whole answer.
    """

    events: int
    block: int
    through: int
    complete: bool
    blocks: list[dict[str, Any] | None]
    points: list[list[int]]
    names: list[str]
    threads: list[dict[str, Any]]
    raw: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class OutlinedEvents:
    """One block: ``columns`` have an entry for each event from ``first`` on, as the reference describes.

    ``t0`` is in milliseconds since 1970; ``requests`` are the model requests in the block.
    """

    first: int
    count: int
    t0: float
    columns: dict[str, "array[int]"]
    requests: list[list[Any]]


def outline(session: str, *, points: int | None = None) -> ApiCall[Outline]:
    """Ask for an outline in short."""
    return ApiCall("GET", session_path(session, "outline"), _outline, tuple(given(("points", points))))


def outline_block(session: str, position: int) -> ApiCall[OutlinedEvents]:
    """Ask for the block that holds a position."""
    accept = {"Accept": "application/octet-stream"}
    return ApiCall("GET", session_path(session, "outline"), _block, (("from", str(position)),), accept)


def _outline(answer: httpx2.Response) -> Outline:
    body = json_of(answer)
    return Outline(
        int(body["events"]),
        int(body["block"]),
        int(body["through"]),
        bool(body["complete"]),
        body["blocks"],
        body["points"],
        body["names"],
        body["threads"],
        body,
    )


def _block(answer: httpx2.Response) -> OutlinedEvents:
    data = answer.content
    if len(data) < _HEAD.size or data[:4] != b"DSO1":
        raise ValueError("this is no block of an outline")
    _, first, count, tail, t0 = _HEAD.unpack_from(data)
    columns: dict[str, array[int]] = {}
    place = _HEAD.size
    for name, kind in _COLUMNS.items():
        column: array[int] = array(kind)
        size = count * column.itemsize
        column.frombytes(data[place : place + size])
        columns[name] = column
        place += size
    return OutlinedEvents(first, count, t0, columns, encoding.decode(data[place : place + tail]))
