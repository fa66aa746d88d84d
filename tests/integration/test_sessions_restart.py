"""What was answered stays true: after a restart, a flush, ``kill -9`` and without the catalog."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.testing.server import LocalServer, local_server
from tests.support.process import ServerProcess
from tests.support.sessions import append, at, notes, read
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

SESSIONS = ["plain", "full", "fork", "closed", "archived"]
PATHS = [
    *[f"/sessions/{name}" for name in SESSIONS],
    *[f"/sessions/{name}/events" for name in SESSIONS],
    *[f"/sessions/{name}/events?order=desc&type=note" for name in SESSIONS],
    "/sessions?include_archived=true",
    "/sessions/full/threads",
    "/sessions/full/resources",
    "/sessions/fork/events/given",
    "/stream/sessions/fork",
    "/agents",
    "/environments",
]


async def fill(api: httpx2.AsyncClient) -> None:
    agent = (await api.post("/agents", json={"name": "a", "model": "m"})).json()
    await api.post("/environments", json={"name": "e"})
    await append(api, "plain", *notes(range(3)), {"type": "note", "n": 3, "id": "given"})
    said = {
        "agent": agent["id"],
        "title": "Title",
        "metadata": {"a": {"b": 1.50}},
        "budget": {"tokens": 1},
        "resources": [{"type": "file", "file_id": "f"}],
        "initial_events": [{"type": "user.define_outcome", "description": "d"}],
    }
    await api.put("/sessions/full", json=said, headers={"Stream-TTL": "86400"})
    await append(
        api,
        "full",
        {"type": "session.status_running"},
        {"type": "session.thread_created", "session_thread_id": "t", "agent_name": "helper"},
        {"type": "span.model_request_end", "model_usage": {"input_tokens": 3}},
        {"type": "session.status_idle", "stop_reason": {"type": "end_turn"}},
    )
    await api.put("/sessions/fork", headers={"Stream-Forked-From": "/v1/sessions/plain"})
    await append(api, "fork", {"type": "note", "n": 4})
    await append(api, "closed", {"type": "note", "n": 0})
    await api.post("/sessions/closed/close")
    await append(api, "archived", {"type": "note", "n": 0})
    await api.post("/sessions/archived/archive")
    await append(api, "gone", {"type": "note", "n": 0})
    await api.delete("/sessions/gone")


async def everything(api: httpx2.AsyncClient) -> dict[str, Any]:
    """Return every answer; only how long a session has lasted depends on when one asks."""
    answers: dict[str, Any] = {}
    for path in PATHS:
        answer = await api.get(path)
        assert answer.status_code == 200, (path, answer.text)
        answers[path] = without_duration(answer.json())
    assert (await api.get("/sessions/gone")).status_code == 404
    return answers


def without_duration(value: Any) -> Any:
    if isinstance(value, list):
        return [without_duration(one) for one in value]
    if isinstance(value, dict):
        return {name: without_duration(one) for name, one in value.items() if name != "duration_seconds"}
    return value


async def test_every_answer_is_the_same_after_a_restart(server: LocalServer, api: httpx2.AsyncClient) -> None:
    await fill(api)
    before = await everything(api)
    await server.restart()
    assert await everything(api) == before
    while await server.node.engine.partition.flush():
        pass
    assert await everything(api) == before
    await server.restart()
    assert await everything(api) == before
    await server.stop()
    (server.data / "catalog.sqlite").unlink()
    await server.start()
    assert await everything(api) == before, "the catalog is derived"


async def test_every_answer_is_the_same_after_kill_9(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api:
            await fill(api)
            before = await everything(api)
            for _ in range(2):
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                assert await everything(api) == before


async def test_retries_after_kill_9_change_nothing(tmp_path: Path) -> None:
    producer = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
    retries: list[tuple[dict[str, str], Any]] = [
        ({}, {"type": "a", "id": "mine"}),
        ({"Idempotency-Key": "key"}, [{"type": "b"}, {"type": "c"}]),
        (producer, {"type": "d"}),
        ({"Stream-Closed": "true", "Idempotency-Key": "last"}, {"type": "e"}),
    ]
    with ServerProcess(tmp_path / "data") as server:
        async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api:
            for _ in range(2):
                for headers, body in retries:
                    answer = await api.post("/sessions/s/events", headers=headers, json=body)
                    refused = "Stream-Closed" not in headers and answer.status_code == 409
                    assert refused or answer.status_code == 204, answer.text
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            assert [event["type"] for event in await read(api, "s")] == ["a", "b", "c", "d", "e"]


async def test_reading_the_end_of_a_large_session_touches_only_the_end(tmp_path: Path) -> None:
    """A session of 10 MB in the bucket; what is fetched for its last fifty events is counted."""
    async with (
        local_server(tmp_path / "data") as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        for start in range(0, 10_000, 500):
            events = [{"type": "note", "n": n, "text": f"{n:>1000}"} for n in range(start, start + 500)]
            await append(api, "s", *events)
        while await server.node.engine.partition.flush():
            pass
        await server.restart()
        fetched = count_fetched(server)
        for parameters in (
            {"tail": "50"},
            {"order": "desc", "limit": "50"},
            {"from": "9950"},
            {"offset": at(9_950)},
            {"around": "9960", "window": "20"},
        ):
            assert len(await read(api, "s", **parameters)) >= 41
        assert (await api.get("/sessions/s")).json()["event_count"] == 10_000
        assert 0 < sum(fetched) < 4 << 20, "a few parts of 10 MB"


def count_fetched(server: LocalServer) -> list[int]:
    """Note the size of all that is read from the bucket from now on."""
    bucket = server.node.engine.archive.bucket
    plain = bucket.get_range
    sizes: list[int] = []

    async def counted(path: str, start: int, length: int) -> bytes:
        data = await plain(path, start, length)
        sizes.append(len(data))
        return data

    bucket.get_range = counted  # type: ignore[method-assign]
    return sizes
