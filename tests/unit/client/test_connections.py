"""What happens on the socket, in both clients: time-outs, cuts, and connections left behind."""

import asyncio
import hashlib
import json
from typing import Any

import httpx2
import pytest

from durable_sessions.client import errors, offsets
from tests.support.waiting import until
from tests.unit.client.raw_server import RawServer, answer, event_stream, silence
from tests.unit.client.shells import Shell

pytestmark = pytest.mark.anyio

SESSION = json.dumps(
    {"id": "s", "created_at": "2026-11-15T12:00:00.123Z", "updated_at": "2026-11-15T12:00:00.123Z"}
).encode()
INFO = answer(SESSION)
SHORT_SECONDS = 0.5
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{"


def frame(position: int) -> bytes:
    event = {"id": f"e{position}", "offset": offsets.of(position), "type": "note"}
    return f"data: {json.dumps(event)}\n\n".encode()


def page(*, closed_after: int) -> bytes:
    """Return an answer that says that the session has so many events, and is closed."""
    body = json.dumps(
        {"data": [], "next_page": None, "next_offset": offsets.of(closed_after), "up_to_date": True}
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nStream-Closed: true\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def raw(content: bytes) -> Any:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()

    return script


def ended_stream(*frames: bytes) -> Any:
    return answer(b"".join(frames), kind="text/event-stream")


# Time-outs ------------------------------------------------------------------------------


async def test_a_server_that_never_answers_is_given_up_and_the_outcome_is_unknown(shell: Shell) -> None:
    async with RawServer(silence) as server:
        client = shell.make(server.url, timeout=SHORT_SECONDS, retries=1)
        with pytest.raises(errors.ConnectionFailedError) as caught:
            await shell.run(lambda: client.session("s").append({"type": "a"}))
        assert caught.value.attempts == 2
        assert caught.value.outcome_unknown
        assert caught.value.url == server.url
        assert isinstance(caught.value.__cause__, httpx2.ReadTimeout)
        await until(lambda: server.open == 0)
        await shell.run(client.close)


async def test_an_attempt_that_timed_out_is_followed_by_one_that_is_answered(shell: Shell) -> None:
    async with RawServer(silence, INFO) as server:
        client = shell.make(server.url, timeout=SHORT_SECONDS, retries=3)
        assert (await shell.run(lambda: client.session("s").info())).id == "s"
        assert len(server.requests) == 2
        await until(lambda: server.open == 1)  # the silent one is not kept
        await shell.run(client.close)
        await until(lambda: server.open == 0)


async def test_an_answer_that_is_cut_short_is_asked_for_again(shell: Shell) -> None:
    async with RawServer(answer(SESSION[:20], declared=len(SESSION)), INFO) as server:
        client = shell.make(server.url, retries=1)
        assert (await shell.run(lambda: client.session("s").info())).id == "s"
        assert len(server.requests) == 2
        await shell.run(client.close)


# Following ------------------------------------------------------------------------------


async def test_a_tail_that_is_cut_goes_on_behind_the_last_whole_event(shell: Shell) -> None:
    cut = event_stream(b": hello\n\n", frame(0), frame(1), cut=True)
    async with RawServer(cut, ended_stream(b": hello\n\n", frame(2)), raw(page(closed_after=3))) as server:
        client = shell.make(server.url, retries=2)
        events = await shell.all(lambda: client.session("s").tail())
        assert [event.position for event in events] == [0, 1, 2]
        asked = [request.split(" ")[1] for request in server.requests]
        assert asked[0].endswith("/stream?offset=-1")
        assert asked[1].endswith(f"/stream?offset={offsets.of(2)}")
        assert f"offset={offsets.of(3)}" in asked[2]
        await shell.run(client.close)


async def test_a_tail_on_which_nothing_moves_any_more_connects_again(shell: Shell) -> None:
    dead = event_stream(b": hello\n\n", frame(0))
    async with RawServer(dead, ended_stream(b": hello\n\n", frame(1)), raw(page(closed_after=2))) as server:
        client = shell.make(server.url, retries=2)
        events = await shell.all(lambda: client.session("s").tail(silence_seconds_max=SHORT_SECONDS))
        assert [event.position for event in events] == [0, 1]
        await shell.run(client.close)


async def test_a_tail_that_is_left_leaves_no_connection(shell: Shell) -> None:
    async with RawServer(event_stream(frame(0))) as server:
        client = shell.make(server.url)
        tail = client.session("s").tail()
        assert (await shell.first(tail)).position == 0
        assert server.open == 1
        await shell.leave(tail)
        await until(lambda: server.open == 0)
        await shell.run(client.close)


# Artifacts ------------------------------------------------------------------------------


async def test_an_artifact_that_is_cut_is_fetched_from_where_it_was_cut(shell: Shell) -> None:
    data = bytes(range(256)) * 40
    digest = hashlib.sha256(data).hexdigest()
    rest = answer(data[5_000:], status="206 Partial Content")
    async with RawServer(answer(data[:5_000], declared=len(data)), rest) as server:
        client = shell.make(server.url, retries=1)
        assert await shell.run(lambda: client.artifacts.get(digest)) == data
        first, second = server.requests
        assert "Range:" not in first
        assert "Range: bytes=5000-\r\n" in second
        await shell.run(client.close)


async def test_an_artifact_is_whole_though_a_proxy_ignores_ranges(shell: Shell) -> None:
    data = bytes(range(256)) * 40
    digest = hashlib.sha256(data).hexdigest()
    cut = answer(data[:5_000], declared=len(data))
    cut_earlier = answer(data[:3_000], declared=len(data))
    async with RawServer(cut, cut_earlier, answer(data)) as server:
        client = shell.make(server.url, retries=2)
        assert await shell.run(lambda: client.artifacts.get(digest)) == data
        assert [request.count("Range: bytes=5000-") for request in server.requests] == [0, 1, 1]
        await shell.run(client.close)


# Ends -----------------------------------------------------------------------------------


async def test_a_client_can_be_closed_twice_and_then_takes_no_calls(shell: Shell) -> None:
    async with RawServer(INFO) as server:
        client = shell.make(server.url)
        await shell.run(lambda: client.session("s").info())
        await shell.run(client.close)
        await shell.run(client.close)
        await until(lambda: server.open == 0)
        with pytest.raises(RuntimeError, match="closed"):
            await shell.run(lambda: client.session("s").info())


@pytest.mark.parametrize("script", [silence, raw(HALF)], ids=["silent", "half-way"])
async def test_a_cancelled_call_leaves_no_connection_and_the_client_goes_on(script: Any) -> None:
    shell = Shell("async")
    async with RawServer(script, INFO) as server, shell.make(server.url, retries=0) as client:
        call = asyncio.ensure_future(client.session("s").info())
        await until(lambda: server.requests)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.open == 0)
        assert (await client.session("s").info()).id == "s"


async def test_a_cancelled_tail_leaves_no_connection() -> None:
    async with RawServer(event_stream(frame(0))) as server, Shell("async").make(server.url) as client:
        seen: list[int] = []

        async def follow() -> None:
            async for event in client.session("s").tail():
                seen.append(event.position)  # noqa: PERF401 - they are looked at while they come

        task = asyncio.ensure_future(follow())
        await until(lambda: seen == [0])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.open == 0)
