"""Keeps tool calls together with their results when part of a session is read."""

from collections.abc import Iterable

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import EventNotFoundError
from durable_sessions.sessions.reading import EventReader
from durable_sessions.storage.door import StreamView
from durable_sessions.storage.turns import Turn

MARK = b'{"added_for_pair":true,'
"""The beginning of an event that was added although the read did not select it."""
_CALLS = frozenset({"agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"})


class _Event(msgspec.Struct):
    """The members that link a result to its call: results name the id of the call's event."""

    id: str = ""
    type: str = ""
    tool_use_id: msgspec.Raw = lenient.NULL
    mcp_tool_use_id: msgspec.Raw = lenient.NULL
    custom_tool_use_id: msgspec.Raw = lenient.NULL

    @property
    def call(self) -> str | None:
        """The id of the call that this is the result of."""
        if self.type == "user.tool_confirmation":
            return None
        for raw in (self.tool_use_id, self.mcp_tool_use_id, self.custom_tool_use_id):
            if (call := lenient.text(raw)) is not None:
                return call
        return None


_EVENT = msgspec.json.Decoder(_Event)


async def complete(
    reader: EventReader, durable: StreamView, events: Iterable[tuple[int, bytes]]
) -> list[tuple[int, bytes]]:
    """Return events in order of position, with the missing halves of pairs added and marked."""
    found = dict(events)
    turn = reader.turns.begin()
    calls, results = await _ends(found, turn)
    added: dict[int, bytes] = {}
    for call in results.keys() - calls.keys():
        if turn.over:
            await turn.rest()
        try:
            position, event = await reader.by_id(durable, call)
        except EventNotFoundError:
            continue  # a result whose call was never there
        if position not in found:
            added[position] = event
    open_calls = {call: position for call, position in calls.items() if call not in results}
    if open_calls:
        added.update(await _results(reader, durable, open_calls, found))
    marked = {position: MARK + event[1:] for position, event in added.items()}
    return sorted({**found, **marked}.items())


async def _results(
    reader: EventReader, durable: StreamView, calls: dict[str, int], found: dict[int, bytes]
) -> dict[int, bytes]:
    """Return the results of calls by position; the search ends where a filtered read would."""
    wanted = set(calls)
    results: dict[int, bytes] = {}
    async for position, event in reader.walk(durable, min(calls.values()) + 1):
        call = None if position in found else _parsed(event).call
        if call in wanted:
            results[position] = event
            wanted.discard(call)
            if not wanted:
                break
    return results


async def _ends(events: dict[int, bytes], turn: Turn) -> tuple[dict[str, int], dict[str, int]]:
    """Return where the calls are, by id, and where the results are, by the id of their call."""
    calls: dict[str, int] = {}
    results: dict[str, int] = {}
    for position, event in events.items():
        parsed = _parsed(event)
        if parsed.type in _CALLS:
            calls[parsed.id] = position
        elif parsed.call is not None:
            results[parsed.call] = position
        if turn.over:
            await turn.rest()
    return calls, results


def _parsed(event: bytes) -> _Event:
    try:
        return lenient.decode(_EVENT, event)
    except msgspec.MsgspecError:
        return _Event()
