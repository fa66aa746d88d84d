"""Artifacts that nothing names are removed, in no partition and by no crash one that something names."""

import hashlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.errors import DurableSessionsError, LinkDownError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.node.engine import Engine
from durable_sessions.settings import load
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

LIMITS = replace(DEFAULT_LIMITS, artifact_sweep_seconds=10**6)
GRACE = LIMITS.artifact_grace_seconds


class World:
    """A server whose clock the test moves, and a client."""

    def __init__(self, server: LocalServer, api: httpx2.AsyncClient, clock: ManualClock) -> None:
        self.server = server
        self.api = api
        self.clock = clock

    @property
    def engines(self) -> list[Engine]:
        return [keeper.engine for node in self.server.nodes for keeper in node.keepers.values()]

    async def put(self, text: str, **headers: str) -> str:
        digest = hashlib.sha256(text.encode()).hexdigest()
        answer = await self.api.put(f"/artifacts/{digest}", content=text.encode(), headers=headers)
        assert answer.status_code in (200, 201), answer.text
        return digest

    async def append(self, session: str, *events: dict[str, Any], **headers: str) -> list[dict[str, Any]]:
        wanted = {"Prefer": "return=representation", **headers}
        answer = await self.api.post(f"/sessions/{session}/events", json={"events": events}, headers=wanted)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["data"])

    async def sweep(self, times: int = 2) -> int:
        removed = 0
        for _ in range(times):
            for engine in self.engines:
                removed += await engine.artifact_sweep.sweep()
        return removed

    async def has(self, digest: str) -> bool:
        return (await self.api.head(f"/artifacts/{digest}")).status_code == 200

    def files(self) -> list[str]:
        folder = self.server.data / "bucket" / "artifacts"
        return sorted(path.name for path in folder.rglob("*") if path.is_file())


@asynccontextmanager
async def opened(data: Path, **settings: Any) -> AsyncIterator[World]:
    clock = ManualClock(time.time_ns() // 10**6)
    async with (
        local_server(data, limits=LIMITS, clock=clock, **settings) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        yield World(server, api, clock)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path / "data") as one:
        yield one


@pytest.fixture
async def divided(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path / "data", partitions=4, workers=2) as one:
        yield one


async def test_what_nothing_names_goes_when_it_is_old_enough_and_two_looks_agree(world: World) -> None:
    digest = await world.put("nobody names it")
    assert await world.sweep() == 0
    world.clock.advance(GRACE - 600)
    assert await world.sweep() == 0
    world.clock.advance(1200)
    assert await world.sweep(1) == 0
    assert await world.has(digest)
    assert await world.sweep(1) == 1
    assert not await world.has(digest)
    assert world.files() == []
    assert await world.put("nobody names it") == digest
    assert await world.has(digest)
    metrics = (await world.api.get(f"{world.server.url}/metrics")).text
    assert "durable_sessions_artifacts_removed_total 1.0" in metrics


async def test_storing_it_once_more_makes_it_young_again(world: World) -> None:
    digest = await world.put("wanted")
    world.clock.advance(GRACE + 600)
    assert await world.sweep(1) == 0
    await world.put("wanted")
    assert await world.sweep(1) == 0
    world.clock.advance(GRACE - 600)
    assert await world.sweep(1) == 0
    assert await world.has(digest)


async def test_every_way_to_name_it_keeps_it(world: World) -> None:
    digests = {text: await world.put(text) for text in "abcdefghij"}
    event = {"type": "app.note"}
    await world.append("s1", {**event, "raw_artifact": {"sha256": digests["a"], "bytes": 1}})
    await world.append("s2", {**event, "deep": [{"text": f"see /v1/artifacts/{digests['b']}."}]})
    await world.append("s3", {"type": "ds.artifact", "sha256": digests["c"], "name": "n", "role": "diff"})
    refs = [{"rel": "uses", "id": f"sha256:{digests['d']}"}]
    await world.append("s4", {"type": "ds.fact", "key": "k", "value": 1, "refs": refs})
    await world.append("s5", {**event, "text": digests["e"].upper()})
    escaped = "".join(f"\\u{ord(digit):04x}" for digit in digests["f"])
    body = f'{{"events":[{{"type":"app.one"}},{{"type":"app.note","text":"{escaped}"}}]}}'
    answer = await world.api.post(
        "/sessions/s6/events", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 204
    await world.api.put("/sessions/s7", json={"metadata": {"snapshot": digests["g"]}})
    stream = "/stream/plain"
    await world.api.put(stream, headers={"Content-Type": "application/json"})
    await world.api.post(stream, json=[{"it": digests["h"]}], headers={"Content-Type": "application/json"})
    agent = {"name": "n", "model": "m", "system": f"use {digests['i']}"}
    assert (await world.api.post("/agents", json=agent)).status_code == 200
    await world.append("s8", {"type": "user.message", "content": [{"type": "text", "text": "j"}]})
    world.clock.advance(GRACE + 600)
    assert await world.sweep(3) == 1
    assert [text for text in digests if not await world.has(digests[text])] == ["j"]


async def test_its_bytes_go_within_the_promised_time_of_an_erasure(world: World) -> None:
    """Also if it was stored just before, and one look in between found a partition silent."""
    digest = await world.put("a secret")
    (event,) = await world.append("s", {"type": "app.note", "it": digest})
    redaction = {"events": [event["id"]], "reason": "asked for"}
    assert (await world.api.post("/sessions/s/redact", json=redaction)).status_code == 200
    promised = world.clock.now_ms() + LIMITS.delete_within_seconds * 1000
    looks = 0
    while world.clock.now_ms() + DEFAULT_LIMITS.artifact_sweep_seconds * 1000 <= promised:
        world.clock.advance(DEFAULT_LIMITS.artifact_sweep_seconds)
        looks += 1
        if looks != 4:
            await world.sweep(1)
    assert world.files() == []


async def test_it_goes_with_the_last_event_that_names_it(world: World) -> None:
    digests = {name: await world.put(name) for name in ("redacted", "dropped", "deleted", "forked")}
    note = {"type": "app.note"}
    (first,) = await world.append("r", {**note, "it": digests["redacted"]})
    await world.append("d", {**note, "slot": "row", "it": digests["dropped"]})
    await world.append("gone", {**note, "it": digests["deleted"]})
    await world.append("source", {**note, "it": digests["forked"]})
    await world.api.put("/sessions/fork", headers={"Stream-Forked-From": "/v1/sessions/source"})
    world.clock.advance(GRACE + 600)
    assert await world.sweep() == 0
    body = {"events": [first["id"]], "reason": "asked for"}
    assert (await world.api.post("/sessions/r/redact", json=body)).status_code == 200
    await world.append("d", {**note, "slot": "row", "slot_empty": "drop"})
    for session in ("gone", "source"):
        assert (await world.api.delete(f"/sessions/{session}")).status_code in (200, 204)
    assert await world.sweep() == 3
    assert [name for name in digests if await world.has(digests[name])] == ["forked"]
    assert (await world.api.delete("/sessions/fork")).status_code in (200, 204)
    assert await world.sweep() == 1


async def test_a_redacted_artifact_stays_redacted(world: World) -> None:
    digest = await world.put("secret")
    (first,) = await world.append("s", {"type": "app.note"})
    body = {"events": [first["id"]], "artifacts": [digest], "reason": "asked for"}
    await world.api.post("/sessions/s/redact", json=body)
    world.clock.advance(2 * GRACE)
    await world.api.delete("/sessions/s")
    assert await world.sweep() == 0
    assert (await world.api.get(f"/artifacts/{digest}")).status_code == 410


async def test_names_are_read_once_and_found_after_a_restart_and_without_the_file(world: World) -> None:
    digest = await world.put("kept")
    await world.append("s", {"type": "app.note", "it": digest})
    world.clock.advance(GRACE + 600)
    assert await world.sweep() == 0
    names = world.engines[0].artifact_names
    assert names.segments_read == 1
    await world.server.restart()
    assert await world.sweep() == 0
    assert world.engines[0].artifact_names.segments_read == 0
    for content in (None, b"no database " * 500):
        await world.server.stop()
        file = world.server.data / "artifact-names.sqlite"
        for path in world.server.data.glob(file.name + "*"):
            path.unlink()
        if content is not None:
            file.write_bytes(content)
        await world.server.start()
        assert await world.sweep() == 0
    assert await world.has(digest)


async def test_it_is_named_in_its_workspace_only(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", api_key=BOOTSTRAP) as world:
        world.api.headers.update(bearer(BOOTSTRAP))
        asked = {"role": "admin", "workspace": "other", "principal": "k"}
        made = await world.api.post("/keys", json=asked)
        assert made.status_code in (200, 201), made.text
        other = bearer(made.json()["secret"])
        digest = await world.put("in one workspace")
        await world.append("s", {"type": "app.note", "it": digest}, **other)
        world.clock.advance(GRACE + 600)
        assert await world.sweep() == 1


async def test_a_hold_on_all_sessions_keeps_everything(tmp_path: Path) -> None:
    file = tmp_path / "ds.toml"
    file.write_text('port = 0\n[[retention]]\nprefix = ""\nhold = true\n')
    clock = ManualClock(time.time_ns() // 10**6)
    server = LocalServer(load({"data": tmp_path / "data"}, {}, file), LIMITS, clock, REAL_DISK)
    await server.start()
    try:
        async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api:
            world = World(server, api, clock)
            digest = await world.put("evidence")
            clock.advance(2 * GRACE)
            assert await world.sweep() == 0
            assert await world.has(digest)
    finally:
        await server.stop()


async def test_all_partitions_are_asked_and_one_that_does_not_answer_keeps_everything(
    divided: World,
) -> None:
    digests = [await divided.put(f"number {number}") for number in range(12)]
    for number, digest in enumerate(digests):
        await divided.append(f"session-{number}", {"type": "app.note", "it": digest})
    unnamed = await divided.put("nobody names it")
    divided.clock.advance(GRACE + 600)
    owners = [engine for engine in divided.engines if engine.partition_id.number < 4]
    homes = {engine.partition_id.number for engine in owners}
    assert homes == {0, 1, 2, 3}

    async def silent(workspace: str, digests: object) -> set[str]:
        raise LinkDownError(reason="it does not answer")

    for mute in owners:
        sweep = mute.artifact_sweep
        answers, sweep.named_here = sweep.named_here, silent
        for engine in owners:
            try:
                await engine.artifact_sweep.sweep()
            except DurableSessionsError:
                pass
        sweep.named_here = answers
    assert await divided.has(unnamed)
    assert await divided.sweep() == 1
    assert [digest for digest in digests if not await divided.has(digest)] == []
    assert json.dumps(divided.files()).count(unnamed) == 0


async def test_what_is_about_to_be_named_by_another_partition_is_kept(divided: World) -> None:
    """An event that must find its artifact marks it as wanted, wherever its owner is."""
    digest = await divided.put("named at last")
    divided.clock.advance(GRACE + 600)
    assert await divided.sweep(1) == 0
    for number in range(8):
        event = {"type": "ds.artifact", "sha256": digest, "name": "n", "role": "diff"}
        await divided.append(f"session-{number}", event)
        await divided.api.delete(f"/sessions/session-{number}")
    assert await divided.sweep(3) == 0
    divided.clock.advance(GRACE + 600)
    assert await divided.sweep() == 1
