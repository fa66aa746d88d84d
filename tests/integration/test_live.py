"""Live reads: long-poll and server-sent events."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
BRISK = replace(DEFAULT_LIMITS, sse_heartbeat_seconds_max=0.15, sse_seconds_max=0.5)


class Event:
    def __init__(self, block: str) -> None:
        fields = [line.partition(":") for line in block.split("\n")]
        self.name = next(value.strip() for name, _, value in fields if name == "event")
        self.data = "\n".join(value.removeprefix(" ") for name, _, value in fields if name == "data")

    @property
    def control(self) -> dict[str, object]:
        assert self.name == "control"
        return dict(json.loads(self.data))


@asynccontextmanager
async def following(client: httpx2.AsyncClient, url: str) -> AsyncIterator[AsyncIterator[Event]]:
    async with client.stream("GET", url) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        assert "no-cache" in answer.headers["cache-control"]

        async def events() -> AsyncIterator[Event]:
            buffer = b""
            async for piece in answer.aiter_bytes():
                buffer += piece
                while b"\n\n" in buffer:
                    block, _, buffer = buffer.partition(b"\n\n")
                    yield Event(block.decode())
            assert not buffer

        yield events()


async def collect(client: httpx2.AsyncClient, url: str) -> list[Event]:
    async with following(client, url) as events:
        return [event async for event in events]


async def test_each_data_event_has_its_own_control_event(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=JSON, content="[1,2]")
    async with following(client, "/s?offset=-1&live=sse") as events:
        assert json.loads((await anext(events)).data) == [1, 2]
        control = (await anext(events)).control
        assert control["streamNextOffset"] == "0000000000000000_0000000000000002"
        assert control["upToDate"] is True
        assert str(control["streamCursor"]).isdigit()
        await client.post("/s", headers=JSON, content="3")
        assert json.loads((await anext(events)).data) == [3]
        assert "streamClosed" not in (await anext(events)).control
        await client.post("/s", headers={**JSON, "Stream-Closed": "true"}, content="4")
        assert json.loads((await anext(events)).data) == [4]
        end = (await anext(events)).control
        assert end["streamClosed"] is True
        assert "streamCursor" not in end
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_a_close_without_data_ends_the_connection(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT)
    async with following(client, "/s?offset=now&live=sse") as events:
        assert (await anext(events)).control["upToDate"] is True
        await client.post("/s", headers={"Stream-Closed": "true"})
        assert (await anext(events)).control["streamClosed"] is True
        with pytest.raises(StopAsyncIteration):
            await anext(events)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("plain", "plain"),
        ("a\nb", "a\nb"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("ends\n", "ends\n"),
        (" leading\n  two", " leading\n  two"),
        ("x\n\nevent: control\ndata: {}", "x\n\nevent: control\ndata: {}"),
        ("x\r\revent: control\rdata:{}", "x\n\nevent: control\ndata:{}"),
        ("\u2028 \x85 stays", "\u2028 \x85 stays"),
    ],
)
async def test_text_cannot_forge_events(client: httpx2.AsyncClient, sent: str, read: str) -> None:
    await client.put("/s", headers={**TEXT, "Stream-Closed": "true"}, content=sent.encode())
    data, control = await collect(client, "/s?offset=-1&live=sse")
    assert (data.name, data.data) == ("data", read)
    assert control.control["streamClosed"] is True


async def test_json_with_line_breaks_stays_one_array(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers={**JSON, "Stream-Closed": "true"}, content=b'[{"a":\n1},\r\n[2]]')
    data, _ = await collect(client, "/s?offset=-1&live=sse")
    assert json.loads(data.data) == [{"a": 1}, [2]]


async def test_other_types_travel_as_base64(client: httpx2.AsyncClient) -> None:
    body = bytes(range(256))
    await client.put("/s", headers={"Content-Type": "image/png", "Stream-Closed": "true"}, content=body)
    async with client.stream("GET", "/s?offset=-1&live=sse") as answer:
        assert answer.headers["stream-sse-data-encoding"] == "base64"
    data, control = await collect(client, "/s?offset=-1&live=sse")
    assert base64.b64decode(data.data, validate=True) == body
    assert control.control["streamClosed"] is True


async def test_a_character_split_over_two_appends_arrives_whole(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT)
    whole = "aé😀".encode()
    async with following(client, "/s?offset=-1&live=sse") as events:
        await anext(events)
        for at in range(len(whole)):
            await client.post("/s", headers=TEXT, content=whole[at : at + 1])
        text = ""
        while text != "aé😀":
            data = await anext(events)
            if data.name == "data":
                assert "\ufffd" not in data.data
                text += data.data
                control = (await anext(events)).control
                assert int(str(control["streamNextOffset"])[17:]) == len(text.encode())


async def test_a_cut_character_at_the_end_of_a_closed_stream_is_not_withheld(
    client: httpx2.AsyncClient,
) -> None:
    await client.put("/s", headers={**TEXT, "Stream-Closed": "true"}, content=b"a\xc3")
    async with client.stream("GET", "/s?offset=-1&live=sse") as answer:
        body = b"".join([piece async for piece in answer.aiter_bytes()])
    assert b"data:a\xc3\n" in body
    assert b"streamClosed" in body


async def test_heartbeats_come(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path, limits=replace(BRISK, sse_seconds_max=3600.0)) as server,
        httpx2.AsyncClient(base_url=server.url) as client,
    ):
        await client.put("/v1/stream/s", headers=TEXT)
        async with following(client, "/v1/stream/s?offset=-1&live=sse") as events:
            seen = [await anext(events) for _ in range(4)]
        assert all(event.control["upToDate"] is True for event in seen)


async def test_a_connection_ends_in_time(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path, limits=replace(BRISK, sse_seconds_max=0.2)) as server,
        httpx2.AsyncClient(base_url=server.url) as client,
    ):
        await client.put("/v1/stream/s", headers=TEXT)
        assert await collect(client, "/v1/stream/s?offset=-1&live=sse")


async def test_many_subscribers_get_the_same_frames(server: LocalServer, client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=JSON)

    async def subscriber() -> list[object]:
        async with httpx2.AsyncClient(base_url=client.base_url, timeout=PATIENCE_SECONDS) as own:
            got: list[object] = []
            async with following(own, "/s?offset=-1&live=sse") as events:
                ready.release()
                async for event in events:
                    if event.name == "data":
                        got += json.loads(event.data)
            return got

    ready = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(subscriber()) for _ in range(30)]
    for _ in tasks:
        await ready.acquire()
    for number in range(50):
        await client.post("/s", headers=JSON, content=str(number))
    await client.post("/s", headers={"Stream-Closed": "true"})
    assert [await task for task in tasks] == [list(range(50))] * 30


async def test_a_subscriber_that_does_not_read_slows_nobody_and_misses_nothing(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    await client.put("/s", headers=TEXT)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(server.url.rpartition(":")[2]), limit=1 << 16
    )
    writer.write(b"GET /v1/stream/s?offset=-1&live=sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readuntil(b"event: control")
    chunk = b"y" * (1 << 18)
    for _ in range(48):
        assert (await client.post("/s", headers=TEXT, content=chunk)).status_code == 204
    await client.post("/s", headers={"Stream-Closed": "true"})
    received = 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (piece := await reader.read(1 << 16)).endswith(b"0\r\n\r\n"):
            assert piece, "the stream was cut short"
            received += piece.count(b"y")
    received += piece.count(b"y")
    writer.close()
    assert received == 48 * len(chunk)


async def test_a_long_poll_is_woken_by_an_append(client: httpx2.AsyncClient) -> None:
    made = await client.put("/s", headers=JSON, content="[1]")
    tail = made.headers["stream-next-offset"]  # not "now": the append may be there before the poll is
    poll = asyncio.create_task(client.get(f"/s?offset={tail}&live=long-poll"))
    await asyncio.sleep(0.1)
    await client.post("/s", headers=JSON, content="2")
    answer = await poll
    assert (answer.status_code, answer.json()) == (200, [2])
    assert answer.headers["stream-cursor"].isdigit()


async def test_a_long_poll_runs_out_and_its_cursor_moves_on(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=JSON)
    first = await client.get("/s?offset=-1&live=long-poll")
    assert (first.status_code, first.headers["stream-up-to-date"]) == (204, "true")
    cursor = int(first.headers["stream-cursor"])
    ahead = await client.get(f"/s?offset=-1&live=long-poll&cursor={cursor + 1000}")
    assert cursor + 1000 < int(ahead.headers["stream-cursor"]) <= cursor + 1000 + 180


async def test_a_long_poll_ends_when_the_stream_is_closed_or_deleted(client: httpx2.AsyncClient) -> None:
    for path, end in (("/closed", "close"), ("/deleted", "delete")):
        await client.put(path, headers=JSON)
        poll = asyncio.create_task(client.get(f"{path}?offset=-1&live=long-poll"))
        await asyncio.sleep(0.1)
        if end == "close":
            await client.post(path, headers={"Stream-Closed": "true"})
            answer = await poll
            assert (answer.status_code, answer.headers["stream-closed"]) == (204, "true")
        else:
            await client.delete(path)
            assert (await poll).status_code == 404


async def test_source_appends_never_wake_a_fork(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers=TEXT, content="abc")
    await client.put("/f", headers={"Stream-Forked-From": "/v1/stream/s"})
    poll = asyncio.create_task(client.get("/f?offset=now&live=long-poll"))
    await asyncio.sleep(0.1)
    await client.post("/s", headers=TEXT, content="d")
    assert (await poll).status_code == 204


async def test_reading_live_renews_a_ttl(client: httpx2.AsyncClient) -> None:
    await client.put("/s", headers={**TEXT, "Stream-TTL": "5"})
    for _ in range(2):
        await asyncio.sleep(3)
        assert (await client.get("/s?offset=now")).status_code == 200
    await asyncio.sleep(5.1)
    assert (await client.get("/s")).status_code == 404


async def test_a_shutdown_ends_waiting_readers_at_once(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    await client.put("/s", headers=TEXT)
    poll = asyncio.create_task(client.get("/s?offset=-1&live=long-poll"))
    stream = asyncio.create_task(collect(client, "/s?offset=-1&live=sse"))
    await asyncio.sleep(0.1)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await server.restart()
        assert (await poll).status_code == 204
        assert (await stream)[-1].control["upToDate"] is True
