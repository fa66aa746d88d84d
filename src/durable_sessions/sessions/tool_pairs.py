"""Keeps tool calls together with their results when part of a session is read."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import EventNotFoundError
from durable_sessions.sessions.graph import lensed
from durable_sessions.sessions.reading import EventReader
from durable_sessions.storage.door import StreamView

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


class PairLinks(NamedTuple):
    """The calls that an event makes and those that it answers; an adapter's event may have several of both.

    Adapters' calls have the framework's ids, by which no event can be looked up.
    """

    calls: Collection[str] = ()
    answered: Collection[str] = ()
    of_adapter: bool = False


async def complete(
    reader: EventReader, durable: StreamView, events: Iterable[tuple[int, bytes]]
) -> list[tuple[int, bytes]]:
    """Return events in order of position, with the missing halves of pairs added and marked."""
    found = dict(events)
    turn = reader.turns.begin()
    calls: dict[str, int] = {}
    results: dict[str, int] = {}
    by_adapters: dict[str, int] = {}
    for position, event in found.items():
        links = links_of(event)
        calls.update(dict.fromkeys(links.calls, position))
        results.update(dict.fromkeys(links.answered, position))
        if links.of_adapter:
            by_adapters.update(dict.fromkeys(links.answered, position))
        if turn.over:
            await turn.rest()
    added: dict[int, bytes] = {}
    for call in results.keys() - calls.keys() - by_adapters.keys():
        if turn.over:
            await turn.rest()
        try:
            position, event = await reader.by_id(durable, call)
        except EventNotFoundError:
            continue  # a result whose call was never there
        if position not in found:
            added[position] = event
    if parted := {call: position for call, position in by_adapters.items() if call not in calls}:
        made = await _calls(reader, durable, parted, found)
        added.update(made)
        for position, event in made.items():  # which may have made other calls as well
            calls.update(dict.fromkeys(links_of(event).calls, position))
    open_calls = {call: position for call, position in calls.items() if call not in results}
    if open_calls:
        added.update(await _results(reader, durable, open_calls, {**found, **added}))
    marked = {position: MARK + event[1:] for position, event in added.items()}
    return sorted({**found, **marked}.items())


async def _calls(
    reader: EventReader, durable: StreamView, results: dict[str, int], found: dict[int, bytes]
) -> dict[int, bytes]:
    """Return the calls of adapters' results by position, as far back as a filtered read goes."""
    wanted = set(results)
    calls: dict[int, bytes] = {}
    stop = max(results.values())
    turn = reader.turns.begin()
    async for chunk in reader.descending(durable, max(0, stop - reader.scanned_events_max), stop):
        for position, event in reversed(chunk):
            if turn.over:
                await turn.rest()
            made = wanted.intersection(links_of(event).calls)
            if made and position not in found:
                calls[position] = event
            wanted -= made
        if not wanted:
            break
    return calls


async def _results(
    reader: EventReader, durable: StreamView, calls: dict[str, int], found: dict[int, bytes]
) -> dict[int, bytes]:
    """Return the results of calls by position; the search ends where a filtered read would."""
    wanted = set(calls)
    results: dict[int, bytes] = {}
    async for position, event in reader.walk(durable, min(calls.values()) + 1):
        answered = () if position in found else wanted.intersection(links_of(event).answered)
        if answered:
            results[position] = event
            wanted.difference_update(answered)
            if not wanted:
                break
    return results


def links_of(event: bytes) -> PairLinks:
    """Return the calls that a stored event makes and answers."""
    parsed = _parsed(event)
    if parsed.type in _CALLS:
        return PairLinks(calls=(parsed.id,))
    if parsed.call is not None:
        return PairLinks(answered=(parsed.call,))
    return PairLinks(*lensed.links(event), of_adapter=True) if lensed.is_of_adapter(event) else PairLinks()


def _parsed(event: bytes) -> _Event:
    try:
        return lenient.decode(_EVENT, event)
    except msgspec.MsgspecError:
        return _Event()
