"""Tool calls and their results stay together."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.sessions import tool_pairs
from tests.unit.sessions.world import Event, SessionWorld, decoded

Kind = tuple[str, int]
kinds = st.lists(
    st.tuples(st.sampled_from(["call", "result", "note", "confirmation"]), st.integers(0, 3)), max_size=14
)


def event(kind: Kind, number: int) -> Event:
    name, call = kind
    if name == "call":
        return {"type": "agent.tool_use", "id": f"c{call}", "n": number}
    if name == "result":
        return {"type": "user.tool_result", "tool_use_id": f"c{call}", "n": number}
    if name == "confirmation":
        return {"type": "user.tool_confirmation", "tool_use_id": f"c{call}", "n": number}
    return {"type": "note", "n": number}


@settings(max_examples=25, deadline=None)
@given(kinds, st.integers(0, 14), st.integers(0, 14), st.booleans())
def test_a_slice_is_completed_and_nothing_else_is_added(
    made: list[Kind], start: int, stop: int, flush: bool
) -> None:
    asyncio.run(compare(made, start, stop, flush))


async def compare(made: list[Kind], start: int, stop: int, flush: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = await SessionWorld(Path(folder)).open()
        await world.send("s", {"type": "begin"})
        for number, kind in enumerate(made):
            await world.send("s", event(kind, number))
        if flush:
            await world.flush()
        stored = await world.events("s")
        durable = world.find("s")
        start, stop = sorted((min(start, len(stored)), min(stop, len(stored))))
        page = await world.sessions.events.page(durable, start, stop, 100)
        sliced = list(enumerate(page.events(), start))
        found = await tool_pairs.complete(world.sessions.events, durable, sliced)
        positions = [position for position, _ in found]
        assert positions == sorted(set(positions))
        assert set(positions) == expected(stored, range(start, stop))
        for position, raw in found:
            (shown,) = decoded(raw)
            assert shown.pop("added_for_pair", False) == (position not in range(start, stop))
            assert shown == stored[position]
        await world.close()


def expected(stored: list[Event], inside: range) -> set[int]:
    """Return the slice, the calls of its results, and for each call without a result the first one."""
    calls = {event["id"]: at for at, event in enumerate(stored) if event["type"] == "agent.tool_use"}
    results: dict[str, list[int]] = {}
    for at, event in enumerate(stored):
        if event["type"] == "user.tool_result":
            results.setdefault(event["tool_use_id"], []).append(at)
    wanted = set(inside)
    for call, places in results.items():
        if call in calls and any(at in inside for at in places):
            wanted.add(calls[call])
    open_calls = [
        call
        for call, at in calls.items()
        if at in inside and not any(place in inside for place in results.get(call, []))
    ]
    first = min((calls[call] for call in open_calls), default=0)
    for call in open_calls:
        later = [at for at in results.get(call, []) if at > first]
        wanted |= set(later[:1])
    return wanted
