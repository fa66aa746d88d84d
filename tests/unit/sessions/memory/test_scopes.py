"""Scopes over log and bucket: what is kept in memory is bounded, and derived from the log."""

import random
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.bucket.manifest import SCOPES_VERSION
from durable_sessions.limits import Limits
from durable_sessions.sessions.memory.scopes import Scopes
from durable_sessions.storage import batch
from durable_sessions.streams.effects import ScopeCreated, StreamCreated
from tests.unit.sessions.world import SessionWorld

pytestmark = pytest.mark.anyio

SCOPE = "project:p"


def written(key: str, value: Any, scope: str = SCOPE) -> dict[str, Any]:
    because = [{"rel": "because", "id": "n"}]
    said = {"type": "ds.memory.written", "scope": scope, "key": key, "value": value, "why": "state"}
    return {**said, "refs": because}


async def entries(scopes: Scopes, at: int, scope: str = SCOPE) -> dict[str, bytes]:
    view = scopes.view("default", scope)
    assert view is not None
    page = await scopes.live(view, at, at, 1_000)
    return {entry.key: bytes(entry.value) for entry in page.entries}


async def test_histories_are_bounded_by_memory_histories_bytes_max(tmp_path: Path) -> None:
    world = await SessionWorld(tmp_path).open()
    try:
        limits = Limits(memory_histories_bytes_max=5_000)
        scopes = Scopes(world.partition, limits)
        await world.send("s", {"type": "note", "id": "n"})
        for number in range(8):
            events = (written(f"k{key}", key, f"project:{number}") for key in range(3))
            await world.send("s", *events)
            assert len(await entries(scopes, 3, f"project:{number}")) == 3
            assert scopes.histories_bytes <= limits.memory_histories_bytes_max
        # A scope that is larger than the bound is read again each time.
        await world.send("s", *(written(f"k{key}", key, "project:0") for key in range(50)))
        assert len(await entries(scopes, 53, "project:0")) == 50
        assert scopes.histories_bytes <= limits.memory_histories_bytes_max
        assert len(await entries(scopes, 3, "project:0")) == 3
    finally:
        await world.close()


@pytest.mark.parametrize("seed", range(5))
async def test_every_position_shows_what_a_dictionary_had_there(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    world = await SessionWorld(tmp_path).open()
    try:
        await world.send("s", {"type": "note", "id": "n"})
        known: dict[str, list[tuple[str, bytes]]] = {}
        pictures: list[dict[str, bytes]] = [{}]
        writes: list[str] = []
        for number in range(60):
            if writes and chance.random() < 0.3:
                undone = chance.choice(writes)
                await world.send("s", {"type": "ds.memory.rolled_back", "write": undone, "reason": "r"})
                for key, stack in known.items():
                    known[key] = [one for one in stack if one[0] != undone]
            else:
                key = chance.choice("abcd")
                await world.send("s", {**written(key, number), "id": f"w{number}"})
                known.setdefault(key, []).append((f"w{number}", str(number).encode()))
                writes.append(f"w{number}")
            pictures.append({key: stack[-1][1] for key, stack in known.items() if stack})
            if chance.random() < 0.1:
                await world.flush()
            if chance.random() < 0.05:
                await world.reopen(forget_catalog=chance.random() < 0.5)
        scopes = Scopes(world.partition, world.limits)
        for at, expected in enumerate(pictures):
            assert await entries(scopes, at) == expected, at
    finally:
        await world.close()


async def test_programs_that_know_no_memory_refuse_log_and_bucket(tmp_path: Path) -> None:
    world = await SessionWorld(tmp_path).open()
    try:
        await world.send("s", {"type": "note", "id": "n"})
        await world.flush()
        assert world.archive.manifest.version == 1
        await world.send("s", written("k", 1))
        made = [one for payload in world.log.batches for one in batch.effects_of(payload)]
        assert [type(one) for one in made if isinstance(one, StreamCreated)] == [StreamCreated, ScopeCreated]
        await world.flush()
        assert world.archive.manifest.version == SCOPES_VERSION
    finally:
        await world.close()
