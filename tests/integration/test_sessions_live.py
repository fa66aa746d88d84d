"""Following a session: long-poll, the protocol's event stream, and Anthropic's."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS, KIB
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.sessions import Frame, append, at, frames, notes, numbers, read

pytestmark = pytest.mark.anyio

EVENTS = "/sessions/s/events"
STREAM = "/sessions/s/events/stream"
TIMEOUT = 120.0


async def take(stream: AsyncIterator[Frame], count: int) -> list[Frame]:
    async with asyncio.timeout(TIMEOUT):
        return [await anext(stream) for _ in range(count)]


# Long-poll ---------------------------------------------------------------------------------


async def test_a_long_poll_waits_for_the_next_event(api: httpx2.AsyncClient) -> None:
    tail = await append(api, "s", {"type": "a", "n": 0})
    waiting = asyncio.create_task(api.get(EVENTS, params={"offset": at(tail), "live": "long-poll"}))
    await asyncio.sleep(0.05)
    await append(api, "s", {"type": "b", "n": 1})
    answer = await waiting
    assert (answer.status_code, numbers(answer.json()["data"])) == (200, [1])
    assert answer.headers["stream-next-offset"] == at(2)
    assert answer.headers["stream-up-to-date"] == "true"
    behind = await api.get(EVENTS, params={"offset": "-1", "live": "long-poll"})
    assert numbers(behind.json()["data"]) == [0, 1]


async def test_a_long_poll_ends_without_news(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a"})
    nothing = await api.get(EVENTS, params={"offset": "now", "live": "long-poll"})
    assert (nothing.status_code, nothing.headers["stream-next-offset"]) == (204, at(1))
    assert nothing.headers["stream-up-to-date"] == "true"
    await api.post("/sessions/s/close")
    closed = await api.get(EVENTS, params={"offset": at(1), "live": "long-poll"})
    assert (closed.status_code, closed.headers["stream-closed"]) == (204, "true")


async def test_a_long_poll_on_a_deleted_session_is_404(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a"})
    waiting = asyncio.create_task(api.get(EVENTS, params={"offset": "now", "live": "long-poll"}))
    await asyncio.sleep(0.05)
    await api.delete("/sessions/s")
    answer = await waiting
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


async def test_live_reads_need_an_offset_and_take_no_filter(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a"})
    for live in ("long-poll", "sse"):
        for parameters in ({}, {"from": "1"}, {"offset": "-1", "type": "a"}, {"offset": at(2)}):
            answer = await api.get(EVENTS, params={**parameters, "live": live})
            assert answer.status_code == 400, parameters


# The protocol's event stream ------------------------------------------------------------------


async def test_the_native_stream_sends_data_and_then_control(api: httpx2.AsyncClient) -> None:
    await append(api, "s", *notes(range(2)))
    async with api.stream("GET", EVENTS, params={"offset": "-1", "live": "sse"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = frames(answer)
        data, control = await take(stream, 2)
        assert (data.event, control.event) == ("data", "control")
        assert numbers(data.json()) == [0, 1]
        assert control.json()["streamNextOffset"] == at(2)
        assert control.json()["upToDate"] is True
        assert control.json()["streamCursor"]
        await append(api, "s", {"type": "note", "n": 2})
        data, control = await take(stream, 2)
        assert (numbers(data.json()), control.json()["streamNextOffset"]) == ([2], at(3))
        await api.post(EVENTS, json={"type": "note", "n": 3}, headers={"Stream-Closed": "true"})
        data, control = await take(stream, 2)
        assert (numbers(data.json()), control.json()["streamClosed"]) == ([3], True)
        assert [frame async for frame in stream] == []
    stored = await read(api, "s")
    assert data.json() == stored[3:]


# Anthropic's event stream -----------------------------------------------------------------------


async def test_the_stream_sends_a_frame_for_each_event_from_now_on(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "before"})
    for path in (STREAM, "/sessions/s/stream"):
        async with api.stream("GET", path) as answer:
            assert answer.status_code == 200, "headers come at once"
            assert answer.headers["content-type"].startswith("text/event-stream")
            await append(api, "s", {"type": "user.message", "text": "a\nb"}, {"type": "my own"})
            await api.post(EVENTS, content=b'{\n"type":"odd",\r\n"text":"\\ud800"\n}')
            got = await take(frames(answer), 3)
            stored = await read(api, "s", tail=3)
            assert [frame.event for frame in got] == ["user.message", "my own", "odd"]
            assert [frame.id for frame in got] == [event["id"] for event in stored]
            assert [frame.json() for frame in got] == stored


REPLAYS: list[tuple[dict[str, str], int | None, list[int]]] = [
    ({"offset": "-1"}, None, [0, 1, 2, 3, 4, 5]),
    ({"offset": at(3)}, None, [3, 4, 5]),
    ({"offset": "now"}, None, []),
    ({}, 1, [2, 3, 4, 5]),
    ({}, 5, []),
    ({"offset": "-1"}, 3, [4, 5]),
    ({"offset": "now"}, 3, [4, 5]),
]
"""What a client asks for, the last event that it has seen, and what it is sent before what is new."""


async def test_the_stream_replays_from_where_a_client_says(api: httpx2.AsyncClient) -> None:
    for number, (parameters, last, expected) in enumerate(REPLAYS):
        session = f"s{number}"
        await append(api, session, *notes(range(5)), {"type": "note", "n": 5, "id": "mine é"})
        seen = None if last is None else (await read(api, session))[last]["id"].encode()
        headers = {} if seen is None else {b"Last-Event-ID": seen}
        path = f"/sessions/{session}/events/stream"
        async with api.stream("GET", path, params=parameters, headers=headers) as answer:
            assert answer.status_code == 200, (parameters, last)
            await append(api, session, {"type": "new", "n": 6})
            got = [frame.json()["n"] for frame in await take(frames(answer), len(expected) + 1)]
        assert got == [*expected, 6], (parameters, last)
    first = (await read(api, "s0"))[0]["id"]
    for name in ("nothing", first[:-1] + "f"):
        assert (await api.get("/sessions/s0/stream", headers={"Last-Event-ID": name})).status_code == 404
    assert (await api.get("/sessions/s0/stream", params={"offset": at(99)})).status_code == 400


async def test_the_stream_can_be_filtered(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "agent.a", "n": 0}, {"type": "b", "n": 1}, {"type": "agent.c", "n": 2})
    async with api.stream("GET", STREAM + "?offset=-1&types[]=agent.*") as answer:
        stream = frames(answer)
        assert [frame.json()["n"] for frame in await take(stream, 2)] == [0, 2]
        await append(api, "s", {"type": "b", "n": 3}, {"type": "agent.d", "n": 4})
        assert (await take(stream, 1))[0].json()["n"] == 4


async def test_a_deleted_session_ends_its_streams(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "a"})
    async with api.stream("GET", STREAM) as answer:
        await append(api, "s", {"type": "b"})
        await api.delete("/sessions/s")
        async with asyncio.timeout(TIMEOUT):
            got = [frame async for frame in frames(answer)]
    assert got[-1].event == "session.deleted"
    assert got[-1].json()["type"] == "session.deleted"
    assert got[-1].json()["id"] == got[-1].id


async def test_a_closed_session_is_replayed_to_its_end(api: httpx2.AsyncClient) -> None:
    await append(api, "s", *notes(range(3)))
    async with api.stream("GET", STREAM) as answer:
        await api.post("/sessions/s/close")
        async with asyncio.timeout(TIMEOUT):
            assert [frame async for frame in frames(answer)] == []
    async with api.stream("GET", STREAM + "?offset=-1") as answer, asyncio.timeout(TIMEOUT):
        assert numbers([frame.json() async for frame in frames(answer)]) == [0, 1, 2]


async def test_silence_is_filled_with_comments(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, sse_heartbeat_seconds_max=0.05)
    async with (
        local_server(tmp_path / "data", limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=TIMEOUT) as api,
    ):
        await append(api, "s", {"type": "a"})
        async with api.stream("GET", STREAM) as answer:
            comments = 0
            async for line in answer.aiter_lines():
                assert not line or line.startswith(":")
                comments += line.startswith(":")
                if comments == 4:
                    break
    assert DEFAULT_LIMITS.sse_heartbeat_seconds_max == 15


async def test_events_that_are_not_selected_do_not_hold_comments_back(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, sse_heartbeat_seconds_max=1.0)
    async with (
        local_server(tmp_path / "data", limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=TIMEOUT) as api,
    ):
        await append(api, "s", {"type": "a"})

        async def write() -> None:
            while True:
                await append(api, "s", {"type": "b"})
                await asyncio.sleep(0.05)

        async with api.stream("GET", STREAM, params={"types[]": "a"}) as answer:
            writing = asyncio.create_task(write())
            comments = 0
            async with asyncio.timeout(TIMEOUT):
                async for line in answer.aiter_lines():
                    assert not line or line.startswith(":")
                    comments += line.startswith(":")
                    if comments == 3:
                        break
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)


# No race, no loss -----------------------------------------------------------------------------


async def test_whoever_connects_while_others_write_misses_nothing(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "note", "n": 0})
    count = 300

    async def write() -> None:
        for n in range(1, count):
            await append(api, "s", {"type": "note", "n": n})

    async def follow(path: str, parameters: dict[str, str], first: int) -> None:
        async with api.stream("GET", path, params=parameters) as answer:
            got: list[int] = []
            async for frame in frames(answer):
                if frame.event == "control":
                    continue
                got += numbers(frame.json()) if path == EVENTS else [frame.json()["n"]]
                if got[-1] == count - 1:
                    break
        assert got == list(range(first, count))

    writing = asyncio.create_task(write())
    async with asyncio.timeout(2 * TIMEOUT), asyncio.TaskGroup() as group:
        for number in range(12):
            page = (await api.get(EVENTS)).json()
            first = len(page["data"])
            parameters = {"offset": page["next_offset"]}
            if number % 3 == 2:
                group.create_task(follow(EVENTS, {**parameters, "live": "sse"}, first))
            else:
                group.create_task(follow(STREAM, parameters, first))
    await writing


async def test_a_client_that_comes_back_goes_on_where_it_was(
    server: LocalServer, api: httpx2.AsyncClient
) -> None:
    await append(api, "s", *notes(range(3)))
    async with api.stream("GET", STREAM + "?offset=-1") as answer, asyncio.timeout(TIMEOUT):
        stream = frames(answer)
        (*_, last) = await take(stream, 3)
        restarting = asyncio.create_task(server.restart())
        assert [frame async for frame in stream] == [], "a server that stops ends the stream in order"
        await restarting
    await append(api, "s", {"type": "note", "n": 3})
    headers = {"Last-Event-ID": last.id or ""}
    async with api.stream("GET", STREAM + "?offset=-1", headers=headers) as answer:
        assert (await take(frames(answer), 1))[0].json()["n"] == 3


async def test_a_slow_subscriber_is_neither_dropped_nor_does_it_slow_the_writer(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, memory_bytes_max=64 * KIB, sse_shared_frames_max=2)
    async with (
        local_server(tmp_path / "data", limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=TIMEOUT) as api,
    ):
        await append(api, "s", {"type": "begin", "n": -1})
        async with (
            api.stream("GET", STREAM + "?offset=-1") as slow,
            api.stream("GET", EVENTS + "?offset=-1&live=sse") as slow_too,
        ):
            text = "x" * 100_000
            for n in range(150):
                await append(api, "s", {"type": "large", "n": n, "text": text})
            while await server.node.engine.partition.flush():
                pass
            got = [frame.json()["n"] for frame in await take(frames(slow), 151)]
            assert got == [-1, *range(150)]
            native: list[int] = []
            async for frame in frames(slow_too):
                if frame.event == "data":
                    native += numbers(frame.json())
                if len(native) == 151:
                    break
            assert native == [-1, *range(150)]
