"""Followers whose stream leaves memory between its look-up and their wait: they miss nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.stream import Key
from durable_sessions.testing.server import LocalServer, local_server

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
LIMITS = replace(DEFAULT_LIMITS, active_streams_max=0, era_seconds=1e6)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path, limits=LIMITS, long_poll_seconds=60.0, flush_seconds=1e6) as server:
        yield server


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        yield client


class Eviction:
    """Lets a stream leave memory at the moment in which it was looked up."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_armed = False
        self.done = asyncio.Event()
        find = Partition.find

        def find_and_evict(partition: Partition, key: Key) -> DurableStream:
            durable = find(partition, key)
            if self.is_armed:
                self.is_armed = False
                assert durable.changed_at <= partition._archive.flushed_through
                partition._state.evict(durable.stream)
                partition._published.evict(durable)
                self.done.set()
            return durable

        patch.setattr(Partition, "find", find_and_evict)


async def session(client: httpx2.AsyncClient) -> tuple[str, str, str]:
    """Return the path of a new session with one event, that event's id, and the offset after it."""
    made = (await client.post("/v1/sessions", json={})).json()
    path = f"/v1/sessions/{made['id']}/events"
    answer = await client.post(path, json={"events": [{"type": "note", "n": 1}]})
    events = (await client.get(path)).json()["data"]
    return path, events[-1]["id"], answer.headers["stream-next-offset"]


async def lines_until(client: httpx2.AsyncClient, url: str, wanted: str, **headers: str) -> str:
    text = ""
    async with client.stream("GET", url, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for piece in answer.aiter_text():
            text += piece
            if wanted in text:
                return text
    raise AssertionError(text)


async def polled(client: httpx2.AsyncClient, url: str) -> str:
    answer = await client.get(url)
    assert answer.status_code == 200, (answer.status_code, answer.text)
    return answer.text


async def followed(
    client: httpx2.AsyncClient,
    patch: pytest.MonkeyPatch,
    following: Callable[[], Awaitable[str]],
    append: Callable[[], Awaitable[httpx2.Response]],
) -> str:
    assert (await client.post("/v1/admin/flush")).status_code == 200
    eviction = Eviction(patch)
    eviction.is_armed = True
    follower = asyncio.ensure_future(following())
    async with asyncio.timeout(60):
        await eviction.done.wait()
    assert (await append()).is_success
    async with asyncio.timeout(60):
        return await follower


@pytest.mark.parametrize("live", ["sse", "long-poll"])
async def test_of_a_stream(client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, live: str) -> None:
    made = await client.put("/v1/stream/s", headers=JSON, content=b'["first"]')
    offset = made.headers["stream-next-offset"]
    url = f"/v1/stream/s?offset={offset}&live={live}"

    async def follow() -> str:
        return await (polled(client, url) if live == "long-poll" else lines_until(client, url, "second"))

    async def append() -> httpx2.Response:
        return await client.post("/v1/stream/s", headers=JSON, content=b'["second"]')

    assert "second" in await followed(client, monkeypatch, follow, append)


@pytest.mark.parametrize("live", ["sse", "long-poll", "stream"])
async def test_of_a_session(client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, live: str) -> None:
    path, last, offset = await session(client)

    async def follow() -> str:
        if live == "long-poll":
            return await polled(client, f"{path}?live=long-poll&offset={offset}")
        if live == "sse":
            return await lines_until(client, f"{path}?live=sse&offset={offset}", "second")
        return await lines_until(client, f"{path}/stream", "second", **{"Last-Event-ID": last})

    async def append() -> httpx2.Response:
        return await client.post(path, json={"events": [{"type": "second"}]})

    text = await followed(client, monkeypatch, follow, append)
    assert "second" in text
    assert last not in text, "it goes on behind what it has seen"
