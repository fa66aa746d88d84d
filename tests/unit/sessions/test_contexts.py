"""Contexts: pairs stay together, the durable tier is whole, budgets hold, whatever the log is like."""

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from durable_sessions.errors import ContextTooSmallError
from durable_sessions.limits import Limits
from durable_sessions.sessions.contexts import Contexts
from durable_sessions.sessions.graph.context import ContextWish
from tests.unit.sessions.world import SessionWorld

pytestmark = pytest.mark.anyio

Event = dict[str, Any]
CALLS = ("agent.tool_use", "agent.custom_tool_use")
RESULTS = ("agent.tool_result", "user.custom_tool_result")


def some_log(random: Random, count: int) -> list[Event]:
    """Return events of all kinds: pairs that overlap, results that repeat, lead nowhere or come too early."""
    events: list[Event] = []
    calls: list[str] = []
    checkpoints: list[str] = []
    for number in range(count):
        name = f"e{number}"
        said: Event
        kind = random.choice("mmmccrrrrrsfkzRTo")
        if kind == "c":
            calls.append(name)
            said = {"type": random.choice(CALLS), "name": "t", "input": {"x": "y" * random.randrange(60)}}
        elif kind == "r" and calls:
            said = {"type": random.choice(RESULTS), "tool_use_id": random.choice(calls[-4:])}
        elif kind == "o":
            said = {"type": "agent.tool_result", "tool_use_id": random.choice(["nowhere", f"e{number + 2}"])}
        elif kind == "s":
            said = {"type": random.choice(["span.model_request_end", "session.status_idle"])}
        elif kind == "f":
            said = {"type": "ds.fact", "key": random.choice("abc"), "value": number}
        elif kind == "k":
            checkpoints.append(name)
            said = {"type": "ds.checkpoint", "units": 1, "next": "n", "instructions": "i"}
        elif kind == "R" and checkpoints and random.random() < 0.3:
            said = {"type": "ds.context.reset", "checkpoint": random.choice(checkpoints)}
        elif kind == "T" and number > 3:
            start = random.randrange(number - 1)
            stop = random.randrange(start + 1, number + 1)
            said = {"type": "ds.context.compacted", "from": start, "to": stop, "summary": f"sum {number}"}
        else:
            said = {"type": "user.message", "content": "z" * random.randrange(80)}
        events.append({**said, "id": name})
    return events


def call_of(event: Event) -> str | None:
    return event.get("tool_use_id") if event["type"] in RESULTS else None


def pairs_of(events: list[Event], at: int) -> dict[str, set[str]]:
    """Return the results of each call that come behind it."""
    pairs: dict[str, set[str]] = {e["id"]: set() for e in events[:at] if e["type"] in CALLS}
    seen: set[str] = set()
    for event in events[:at]:
        seen.add(event["id"])
        if call_of(event) in pairs and call_of(event) in seen:
            pairs[str(call_of(event))].add(event["id"])
    return pairs


def require_whole(events: list[Event], at: int, shown: dict[str, Any]) -> None:
    """Fail if a context parts a call from its results, or shows what is covered by a summary."""
    ids = [item["event"]["id"] for item in shown["items"] if item["kind"] != "summary"]
    assert len(ids) == len(set(ids))
    for call, results in pairs_of(events, at).items():
        shown_results = results & set(ids)
        if call in ids:
            assert results, f"{call} has no result"
        assert (call in ids) == bool(shown_results), (call, results, ids)
        assert shown_results in (set(), results), (call, results, ids)
    calls = pairs_of(events, at)
    for event in events[:at]:
        if event["type"] in RESULTS and event["id"] in ids:
            assert call_of(event) in calls, "an orphan"


def positions(events: list[Event]) -> dict[str, int]:
    return {event["id"]: place for place, event in enumerate(events)}


@pytest.mark.parametrize("seed", range(60))
async def test_invariant_5_no_context_parts_a_call_from_its_result(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    world = await SessionWorld(tmp_path).open()
    try:
        events = some_log(random, random.randrange(5, 70))
        await world.send("s", *events)
        stored = await world.events("s")
        sessions = world.sessions
        contexts = Contexts(world.partition, sessions.events, sessions.folds, world.limits)
        durable = world.find("s")
        place = positions(stored)
        for _ in range(12):
            at = random.randrange(len(stored) + 1)
            hits = tuple((random.randrange(len(stored)), 1.5) for _ in range(random.choice([0, 0, 3])))
            types = random.choice([(), (), ("agent.*",), ("user.*",), ("*",), ("agent.tool_use",)])
            wish = ContextWish(random.choice([300, 500, 800, 1_500, 100_000]), types, hits=hits)
            try:
                found = await contexts.at(durable, at, wish)
            except ContextTooSmallError:
                continue
            shown = json.loads(msgspec.json.encode(found))
            assert shown["tokens"] <= wish.budget_tokens
            require_whole(stored, at, shown)
            fold = await sessions.folds.at(durable, at)
            start = fold.folded.context_from
            spans = [(item["from"], item["to"]) for item in shown["items"] if item["kind"] == "summary"]
            for item in shown["items"]:
                if item["kind"] == "summary":
                    continue
                position = place[item["event"]["id"]]
                assert start <= position < at
                is_covered = any(low <= position < high for low, high in spans)
                assert item["kind"] == "found" or not is_covered
            if wish.budget_tokens == 100_000 and not types and not hits:
                assert shown["omitted"] == 0
                plain = {
                    e["id"]
                    for p, e in enumerate(stored)
                    if start <= p < at
                    and e["type"] == "user.message"
                    and not any(low <= p < high for low, high in spans)
                }
                assert plain <= set(shown["event_ids"]), "what fits is in"
            again = await contexts.at(durable, at, wish)
            assert msgspec.json.encode(again) == msgspec.json.encode(found)
    finally:
        await world.close()


@pytest.mark.parametrize("seed", range(15))
async def test_invariant_4_compaction_and_reset_change_the_context_only(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    world = await SessionWorld(tmp_path).open()
    try:
        sessions = world.sessions
        await world.send(
            "s",
            {"type": "ds.fact", "key": "goal", "value": "Mend it", "kind": "goal"},
            {"type": "ds.fact", "key": "cause", "value": [1], "kind": "decision"},
            {"type": "ds.outcome.defined", "features": [{"id": "f1", "text": "adds"}]},
            {"type": "ds.approval.requested", "id": "ask", "question": "Deploy?", "blocking": False},
            {"type": "ds.checkpoint", "id": "point", "units": 1, "next": "n", "instructions": "go on"},
            *({"type": "user.message", "content": str(number)} for number in range(20)),
        )
        contexts = Contexts(world.partition, sessions.events, sessions.folds, world.limits)

        async def preamble() -> dict[str, Any]:
            durable = world.find("s")
            found = await contexts.at(durable, durable.tail, ContextWish(4_000))
            said: dict[str, Any] = json.loads(bytes(found.preamble))
            return said

        before = await preamble()
        assert before["goal"]["text"] == "Mend it"
        assert set(before["facts"]) == {"goal", "cause"}
        assert [one["id"] for one in before["approvals"]] == ["ask"]
        assert before["handoff"] is None
        for _ in range(5):
            tail = world.find("s").tail
            start = random.randrange(tail)
            compaction = {"from": start, "to": random.randrange(start + 1, tail + 1), "summary": "short"}
            reset = {"type": "ds.context.reset", "checkpoint": "point"}
            await world.send("s", random.choice([reset, {"type": "ds.context.compacted", **compaction}]))
            after = await preamble()
            handoff = after.pop("handoff")
            assert handoff is None or handoff["instructions"] == "go on"
            assert after == {name: value for name, value in before.items() if name != "handoff"}
    finally:
        await world.close()


async def test_a_compacted_range_is_widened_to_whole_pairs_and_says_so(tmp_path: Path) -> None:
    world = await SessionWorld(tmp_path).open()
    try:
        await world.send(
            "s",
            {"type": "agent.tool_use", "id": "c0", "name": "t"},
            {"type": "user.message", "id": "m1"},
            {"type": "agent.tool_result", "id": "r0", "tool_use_id": "c0"},
            {"type": "agent.tool_use", "id": "c1", "name": "t"},
            {"type": "user.message", "id": "m2"},
            {"type": "agent.tool_result", "id": "r1", "tool_use_id": "c1"},
            {"type": "user.message", "id": "m3"},
            {"type": "ds.context.compacted", "id": "short", "from": 2, "to": 5, "summary": "what happened"},
        )
        contexts = Contexts(world.partition, world.sessions.events, world.sessions.folds, world.limits)
        found = await contexts.at(world.find("s"), 8, ContextWish(1_000))
        summary, event = [json.loads(bytes(item)) for item in found.items]
        assert summary == {
            "kind": "summary",
            "id": "short",
            "from": 0,
            "to": 6,
            "text": "what happened",
        }
        assert (event["event"]["id"], found.event_ids) == ("m3", ["short", "m3"])
    finally:
        await world.close()


async def test_a_context_is_bounded_by_context_bytes_max(tmp_path: Path) -> None:
    world = await SessionWorld(tmp_path).open()
    try:
        await world.send("s", *({"type": "user.message", "content": "x" * 100} for _ in range(50)))
        limits = Limits(context_bytes_max=3_000)
        contexts = Contexts(world.partition, world.sessions.events, world.sessions.folds, limits)
        found = await contexts.at(world.find("s"), 50, ContextWish(1_000_000))
        size = len(bytes(found.preamble)) + sum(len(bytes(item)) + 1 for item in found.items)
        assert 2_000 < size <= limits.context_bytes_max
        assert found.omitted == 50 - len(found.items) > 0
    finally:
        await world.close()
