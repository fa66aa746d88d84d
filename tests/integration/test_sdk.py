"""The client against a real server."""

import asyncio
import hashlib
import threading
import time
from contextlib import aclosing, closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client import Session, errors
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing import BackgroundServer, LocalServer
from durable_sessions.testing import server as background_server
from tests.support.lossy import Lossy
from tests.support.sessions import at, notes

KEY = "sk-test-0123456789abcdef0123456789abcdef"


def numbers(events: Any) -> list[int]:
    return [event["n"] for event in events]


# Sessions -------------------------------------------------------------------------------


def test_a_session_from_its_creation_to_its_end(sdk: Client) -> None:
    session = sdk.sessions.create(
        "s", title="Title", metadata={"team": "a", "n": 3}, agent="agent_1", initial_events=[{"type": "x"}]
    )
    info = session.info()
    assert (info.id, info.title, info.metadata) == ("s", "Title", {"team": "a", "n": 3})
    assert (info.event_count, info.lifecycle, info.next_offset) == (1, "active", at(1))
    assert info.agent is not None
    assert info.agent["id"] == "agent_1"
    assert sdk.sessions.get("s").created_at == info.created_at
    sdk.sessions.create("s", title="Title")
    with pytest.raises(errors.ConflictError, match="title"):
        sdk.sessions.create("s", title="Other")
    assert session.update(title=None).title is None
    assert session.update(metadata={"team": None, "new": [1]}).metadata == {"n": 3, "new": [1]}
    assert session.close().lifecycle == "closed"
    assert session.close().lifecycle == "closed"
    with pytest.raises(errors.ConflictError):
        session.append({"type": "x"})
    assert session.archive().lifecycle == "archived"
    session.delete()
    with pytest.raises(errors.NotFoundError) as caught:
        session.info()
    assert caught.value.code == "session_not_found"


def test_redacting_events_and_artifacts(sdk: Client) -> None:
    session = sdk.session("r")
    stored = sdk.artifacts.put(b"bytes", "text/plain")
    session.append([{"type": "note", "id": name, "text": "secret"} for name in ("a", "b", "c")])
    record = session.redact("a", reason="why", artifacts=[stored.sha256])
    assert record is not None
    assert (record.type, record["artifacts"]) == ("ds.redacted", [stored.sha256])
    assert session.redact([session.event("b"), "c"], reason="why", digest=False) is not None
    assert ["text" in event for event in session.events()] == [False] * 5
    with pytest.raises(errors.ApiError) as caught:
        sdk.artifacts.get(stored.sha256)
    assert (caught.value.status, caught.value.code) == (410, "artifact_redacted")
    with pytest.raises(errors.NotFoundError):
        session.redact("nothing", reason="why")


def test_redacting_with_the_async_client(running: BackgroundServer) -> None:
    async def run() -> None:
        async with AsyncClient(running.url) as client:
            session = client.session("async-r")
            await session.append({"type": "note", "id": "a", "text": "secret"})
            await session.close()
            assert await session.redact("a", reason="why") is None
            assert "text" not in await session.event("a")

    asyncio.run(run())


def test_lists_are_walked_to_their_end(sdk: Client) -> None:
    for number in range(230):
        sdk.sessions.create(f"s{number:03}", metadata={"half": "ab"[number % 2]})
        time.sleep(0.001)  # sessions of two partitions that begin in the same millisecond have no order
    assert [one.id for one in sdk.sessions.list(order="asc")] == [f"s{number:03}" for number in range(230)]
    assert len(list(sdk.sessions.list(metadata={"half": "a"}))) == 115
    assert [one.id for one in sdk.sessions.list(limit=3)] == ["s229", "s228", "s227"]
    assert [one.id for one in sdk.sessions.list(q="s22", limit=1)] == ["s229"]
    sdk.session("s000").archive()
    assert len(list(sdk.sessions.list())) == 229
    assert [one.id for one in sdk.sessions.list(lifecycle="archived")] == ["s000"]
    assert len(list(sdk.sessions.list(include_archived=True, lifecycle=["open", "archived"]))) == 230


def test_forks(sdk: Client) -> None:
    session = sdk.session("s")
    session.append(notes(range(5)))
    fork = session.fork("f", at=2)
    assert numbers(fork.events()) == [0, 1]
    fork.append(notes([9]))
    assert numbers(fork.events()) == [0, 1, 9]
    third = next(islice(session.events(), 3, None))
    assert numbers(session.fork(at=third.offset).events()) == [0, 1, 2]
    whole = session.fork(title="All")
    assert whole.info().title == "All"
    assert numbers(whole.events()) == [0, 1, 2, 3, 4]


# Appending ------------------------------------------------------------------------------


def test_conditions_and_ids(sdk: Client) -> None:
    session = sdk.session("s")
    end = session.append(notes([0])).next_offset
    end = session.append(notes([1]), if_match=end).next_offset
    with pytest.raises(errors.PreconditionFailedError) as caught:
        session.append(notes([2]), if_match=at(0))
    assert caught.value.next_offset == end == at(2)
    for _ in range(2):
        session.append({"type": "note", "id": "mine", "n": 2})
    assert numbers(session.events()) == [0, 1, 2]
    assert session.event("mine")["n"] == 2
    with pytest.raises(errors.NotFoundError):
        session.event("other")


def test_an_answer_that_was_lost_is_asked_for_again(running: BackgroundServer) -> None:
    lossy = Lossy()
    with Client(running.url, transport=lossy) as client:
        session = client.session("s")
        lossy.lose = 2
        appended = session.append(notes([0]))
        assert appended.replayed
        assert appended.next_offset == at(1)
        session.append(notes([1]))
        assert numbers(session.events()) == [0, 1]
        lossy.lose = 1
        session.delete()
        with pytest.raises(errors.NotFoundError):
            session.info()


def test_giving_up_makes_neither_a_gap_nor_a_repeat(running: BackgroundServer) -> None:
    lossy = Lossy()
    with Client(running.url, transport=lossy, retries=0) as client:
        session = client.session("s")
        session.append(notes([0]))
        lossy.lose = 1
        with pytest.raises(errors.ConnectionFailedError) as caught:
            session.append(notes([1]))
        assert caught.value.outcome_unknown
        assert session.append(notes([1])).replayed
        lossy.lose = 1
        with pytest.raises(errors.ConnectionFailedError):
            session.append(notes([2]))
        given_up = lossy.requests[-1]
        session.append(notes([3]))
        assert lossy.repeat(given_up).status_code == 403, "what comes late is fenced off"
        session.append(notes([4]))
        assert numbers(session.events()) == [0, 1, 2, 3, 4]


def test_refusals_use_no_number_up(sdk: Client) -> None:
    session = sdk.session("s")
    for number in range(3):
        session.append(notes([number]))
        for bad in ({"no": "type"}, [{"type": "x"}] * 1_001, {"type": "x", "text": "x" * 2**20}):
            with pytest.raises((errors.BadRequestError, errors.TooLargeError)):
                session.append(bad)
        with pytest.raises(errors.PreconditionFailedError):
            session.append(notes([9]), if_match=at(7))
    assert numbers(session.events()) == [0, 1, 2]


def test_a_session_that_was_deleted_can_begin_again(sdk: Client) -> None:
    session = sdk.session("s")
    session.append(notes([0]))
    session.append(notes([1]))
    session.delete()
    session.append(notes([2]))
    session.append(notes([3]))
    assert numbers(session.events()) == [2, 3]


def test_threads_share_a_handle(sdk: Client) -> None:
    session = sdk.session("s")

    def work(name: int) -> None:
        for number in range(20):
            session.append({"type": "note", "by": name, "n": number})

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = list(session.events())
    assert len(stored) == 120
    for name in range(6):
        assert numbers(event for event in stored if event["by"] == name) == list(range(20))


# Reading --------------------------------------------------------------------------------


def test_reading_in_every_way(sdk: Client) -> None:
    session = sdk.session("s")
    with session.writer() as writer:
        for number in range(2_500):
            writer.append({"type": "agent.a" if number % 2 else "b", "n": number})
    everything = list(range(2_500))
    assert numbers(session.events()) == everything
    assert numbers(session.events(order="desc")) == everything[::-1]
    assert numbers(session.events(limit=1_001)) == everything[:1_001]
    assert numbers(session.events(from_=2_490)) == everything[2_490:]
    assert numbers(session.events(offset=at(2_490))) == numbers(session.events(offset=2_490))
    assert numbers(session.events(tail=3)) == everything[-3:]
    assert numbers(session.events(around=100, window=2)) == [98, 99, 100, 101, 102]
    assert numbers(session.events(types="agent.*")) == everything[1::2]
    assert numbers(session.events(types=["b", "c"], limit=2)) == [0, 2]
    created = session.event(next(session.events()).id).created_at
    assert numbers(session.events(before=created)) == []
    assert len(list(session.events(after=created.replace(year=2000)))) == 2_500
    with pytest.raises(errors.NotFoundError):
        next(sdk.session("missing").events())


def test_reading_while_events_arrive(sdk: Client) -> None:
    session = sdk.session("s")
    session.append(notes(range(1_000)))
    session.append(notes([1_000]))
    found = []
    for event in session.events():
        found.append(event["n"])
        if len(found) in (1, 1_200):
            end = session.info().event_count
            session.append(notes(range(end, end + 500)))
    assert found == list(range(1_501)), "what arrived during the last page is for the next reader"


def test_lone_surrogates_survive(sdk: Client) -> None:
    session = sdk.session("s")
    session.append({"type": "note", "text": "half \ud83d of it"})
    session.close()
    assert next(session.events()).text == "half \ud83d of it"
    assert [event.text for event in session.tail()] == ["half \ud83d of it"]


# Following ------------------------------------------------------------------------------


def test_a_tail_sees_what_was_and_what_comes_and_ends_with_the_session(sdk: Client) -> None:
    session = sdk.session("s")
    session.append(notes(range(3)))
    with closing(session.tail()) as tail:
        assert numbers(islice(tail, 3)) == [0, 1, 2]
        session.append(notes([3]))
        assert numbers(islice(tail, 1)) == [3]
        session.append([*notes([4]), {"type": "other", "n": 5}])
        session.close()
        assert numbers(tail) == [4, 5]
    assert numbers(session.tail(offset=2)) == [2, 3, 4, 5]
    assert numbers(session.tail(types="note")) == [0, 1, 2, 3, 4]
    assert numbers(session.tail(offset="now")) == []


def test_a_tail_goes_on_from_where_another_stopped(sdk: Client) -> None:
    session = sdk.session("s")
    session.append(notes(range(5)))
    session.close()
    last = next(islice(session.tail(), 2, None))
    assert numbers(session.tail(offset=last.next_offset)) == [3, 4]


def test_a_tail_of_a_session_that_is_deleted_or_missing_says_so(sdk: Client) -> None:
    session = sdk.session("s")
    session.append(notes([0]))
    tail = session.tail()
    next(tail)
    session.delete()
    with pytest.raises(errors.NotFoundError):
        next(tail)
    with pytest.raises(errors.NotFoundError):
        next(sdk.session("missing").tail())


def test_a_tail_can_be_left_at_any_time(sdk: Client) -> None:
    session = sdk.session("s")
    session.append(notes(range(3)))
    for event in session.tail():
        if event["n"] == 1:
            break
    assert numbers(session.events()) == [0, 1, 2]


def test_a_dead_connection_is_noticed(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, sse_heartbeat_seconds_max=3600.0)
    with background_server(tmp_path, limits=limits) as server, Client(server.url) as client:
        session = client.session("s")
        session.append(notes([0]))
        tail = session.tail(silence_seconds_max=0.05)
        assert next(tail)["n"] == 0
        timer = threading.Timer(0.5, lambda: session.append(notes([1])))
        timer.start()
        assert next(tail)["n"] == 1
        timer.join()
        session.close()
        assert list(tail) == []


def test_a_tail_and_a_writer_outlive_a_restart(running: BackgroundServer, sdk: Client) -> None:
    session = sdk.session("s")
    session.append({"type": "note", "n": -1})
    seen: list[int] = []
    follower = threading.Thread(target=lambda: seen.extend(numbers(session.tail())))
    follower.start()
    with session.writer(batch_events=10, linger_seconds=0) as writer:
        for number in range(2_000):
            writer.append({"type": "note", "n": number})
            if number % 700 == 350:
                running.restart()
    session.close()
    follower.join()
    assert seen == numbers(session.events()) == list(range(-1, 2_000))


# Writing in the background --------------------------------------------------------------


def test_a_writer_acknowledges_every_event(sdk: Client) -> None:
    session = sdk.session("s")
    with session.writer(batch_events=7, queue_events=20) as writer:
        pending = [writer.append({"type": "note", "n": number}) for number in range(100)]
        writer.flush()
        assert all(one.done() for one in pending)
        assert pending[-1].result().next_offset == at(100)
    assert numbers(session.events()) == list(range(100))
    with pytest.raises(errors.WriterClosedError):
        writer.append({"type": "note"})


def test_a_bad_event_fails_alone(sdk: Client) -> None:
    session = sdk.session("s")
    deep: Any = 0
    for _ in range(200):
        deep = [deep]
    bad = (
        {"no": "type", "n": 1},
        {"type": "x", "n": 3, "text": "x" * 2**20},
        {"type": "x", "n": 5, "deep": deep},
    )
    writer = session.writer(linger_seconds=0.2)
    pending = [writer.append(bad[n // 2] if n % 2 else {"type": "x", "n": n}) for n in range(7)]
    with pytest.raises((errors.BadRequestError, errors.TooLargeError)):
        writer.flush()
    assert numbers(session.events()) == [0, 2, 4, 6]
    for number, one in enumerate(pending):
        if number % 2:
            with pytest.raises((errors.BadRequestError, errors.TooLargeError)):
                one.result()
        else:
            one.result()
    writer.append({"type": "x", "n": 7})
    writer.close()
    assert numbers(session.events()) == [0, 2, 4, 6, 7]


def test_batches_fit_a_server_with_smaller_limits(tmp_path: Path) -> None:
    server = background_server(tmp_path, events_per_request=10, body_bytes=10_000)
    with server as running, Client(running.url) as client:
        session = client.session("s")
        with session.writer() as writer:
            for number in range(200):
                writer.append({"type": "note", "n": number, "text": "x" * 1_500})
        assert numbers(session.events()) == list(range(200))


def test_a_writer_that_cannot_go_on_says_so_everywhere(sdk: Client) -> None:
    session = sdk.session("s")
    session.append({"type": "first"})
    writer = session.writer(linger_seconds=0)
    writer.append({"type": "second"}).result()
    session.close()
    pending = writer.append({"type": "third"})
    with pytest.raises(errors.ConflictError):
        pending.result()
    with pytest.raises(errors.ConflictError):
        writer.append({"type": "fourth"})
    with pytest.raises(errors.ConflictError):
        writer.flush()
    writer.close()
    with pytest.raises(RuntimeError, match="mine") as caught, session.writer() as other:  # noqa: PT012
        other.append({"type": "third"})
        raise RuntimeError("mine")
    assert "The writer has failed as well" in caught.value.__notes__[0]


def test_waiting_for_a_writer_can_end(running: BackgroundServer) -> None:
    with Client(running.url) as client:
        writer = client.session("s").writer(linger_seconds=3600, batch_events=2)
        pending = writer.append({"type": "a"})
        with pytest.raises(TimeoutError):
            pending.result(timeout=0.01)
        writer.append({"type": "b"})
        pending.result()
        writer.append({"type": "c"})
        writer.flush()
        writer.close()


# Artifacts and keys ---------------------------------------------------------------------


def test_artifacts(sdk: Client, tmp_path: Path) -> None:
    data = bytes(range(256)) * 5_000
    stored = sdk.artifacts.put(data, "image/png")
    assert stored.sha256 == hashlib.sha256(data).hexdigest()
    assert (stored.size, stored.media_type) == (len(data), "image/png")
    assert sdk.artifacts.get(stored.sha256) == data
    file = tmp_path / "file"
    file.write_bytes(data)
    assert sdk.artifacts.put(file) == stored, "the first media type is kept"
    assert max(map(len, sdk.artifacts.stream(stored.sha256))) < len(data)
    assert sdk.artifacts.exists(stored.sha256)
    assert not sdk.artifacts.exists("0" * 64)
    with pytest.raises(errors.NotFoundError):
        sdk.artifacts.get("0" * 64)
    assert sdk.artifacts.put(b"").size == 0
    assert sdk.artifacts.get(sdk.artifacts.put(b"").sha256) == b""


def test_a_key_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with background_server(tmp_path, api_key=KEY) as server:
        with Client(server.url) as client, pytest.raises(errors.AuthenticationError):
            client.session("s").append({"type": "a"})
        monkeypatch.setenv("DURABLE_SESSIONS_URL", server.url)
        monkeypatch.setenv("DURABLE_SESSIONS_API_KEY", KEY)
        with Client() as client:
            client.session("s").append({"type": "a"})
            assert next(client.session("s").events()).actor


def test_the_server_of_tests_cleans_up() -> None:
    with background_server() as server, Client(server.url) as client:
        client.session("s").append({"type": "a"})
        data = server.data
        assert data.exists()
    assert not data.exists()


# Async ----------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_async_client_does_all_of_it(server: LocalServer, tmp_path: Path) -> None:
    async with AsyncClient(server.url) as client:
        session = await client.sessions.create("s", title="Title", ttl_seconds=3600)
        assert (await session.info()).title == "Title"
        assert (await session.update(metadata={"a": "b"})).metadata == {"a": "b"}
        assert [one.id async for one in client.sessions.list(metadata={"a": "b"})] == ["s"]
        start = (await session.info()).event_count
        await asyncio.gather(*(session.append({"type": "note", "n": n}) for n in range(20)))
        found = [event["n"] async for event in session.events(types="note")]
        assert sorted(found) == list(range(20))
        fork = await session.fork(at=start + 3)
        assert [event["n"] async for event in fork.events(types="note")] == found[:3]
        assert (await fork.event([event async for event in fork.events()][-1].id))["n"] == found[2]
        with pytest.raises(errors.PreconditionFailedError):
            await session.append({"type": "note"}, if_match=at(0))
        file = tmp_path / "file"
        file.write_bytes(b"data" * 100_000)
        stored = await client.artifacts.put(file)
        assert await client.artifacts.get(stored.sha256) == file.read_bytes()
        assert not await client.artifacts.exists("0" * 64)
        assert (await session.close()).lifecycle == "closed"
        assert (await session.archive()).lifecycle == "archived"
        await session.delete()
        with pytest.raises(errors.NotFoundError):
            await client.sessions.get("s")


@pytest.mark.anyio
async def test_an_async_tail_and_writer_outlive_a_restart(server: LocalServer) -> None:
    async with AsyncClient(server.url) as client:
        session = client.session("s")
        await session.append({"type": "note", "n": -1})

        async def follow() -> list[int]:
            return [event["n"] async for event in session.tail()]

        follower = asyncio.create_task(follow())
        async with session.writer(batch_events=10, linger_seconds=0, queue_events=50) as writer:
            pending = []
            for number in range(2_000):
                pending.append(await writer.append({"type": "note", "n": number}))
                if number % 700 == 350:
                    await server.restart()
            await writer.flush()
            assert all(one.done() for one in pending)
        assert (await pending[-1]).next_offset == at(2_001)
        await session.close()
        assert await follower == list(range(-1, 2_000))


@pytest.mark.anyio
async def test_an_async_tail_can_be_left_at_any_time(server: LocalServer) -> None:
    async with AsyncClient(server.url) as client:
        session = client.session("s")
        await session.append(notes(range(3)))
        async with aclosing(session.tail()) as tail:
            async for event in tail:
                if event["n"] == 1:
                    break
        waiting = asyncio.create_task(anext(session.tail(offset="now")))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


@pytest.mark.anyio
async def test_an_async_writer_tells_its_errors(server: LocalServer) -> None:
    async with AsyncClient(server.url) as client:
        session = client.session("s")
        writer = session.writer(linger_seconds=0.1)
        good, bad = await writer.append({"type": "a"}), await writer.append({"no": "type"})
        with pytest.raises(errors.BadRequestError):
            await writer.flush()
        await good
        with pytest.raises(errors.BadRequestError):
            await bad.result()
        await session.close()
        await writer.append({"type": "b"})
        with pytest.raises(errors.ConflictError):
            await writer.close()
        with pytest.raises(RuntimeError) as caught:  # noqa: PT012
            async with session.writer() as other:
                await other.append({"type": "c"})
                raise RuntimeError("mine")
        assert "The writer has failed as well" in caught.value.__notes__[0]


@pytest.mark.anyio
async def test_a_cancelled_append_makes_neither_a_gap_nor_a_repeat(server: LocalServer) -> None:
    async with AsyncClient(server.url) as client:
        session = client.session("s")
        await session.append(notes([0]))
        for number in range(1, 60):
            append = asyncio.create_task(session.append(notes([number])))
            await asyncio.sleep(0.0001 * (number % 20))
            append.cancel()
            await asyncio.gather(append, return_exceptions=True)
            if number % 3 == 0 and append.cancelled():
                await session.append(notes([number]))
        found = [event["n"] async for event in session.events()]
        assert found == sorted(set(found))
        assert set(range(0, 60, 3)) <= set(found)


def test_a_handle_is_shown_by_its_name(sdk: Client) -> None:
    assert repr(sdk.session("s")) == "Session('s')"
    assert isinstance(sdk.session("s"), Session)
