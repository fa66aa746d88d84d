"""The store for the Claude Agent SDK, where the SDK's own suite does not look."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from durable_sessions import Client
from durable_sessions.adapters.claude import DurableSessionStore
from durable_sessions.client.errors import ConnectionFailedError
from durable_sessions.testing import BackgroundServer
from tests.adapters import upstream
from tests.support.process import ServerProcess

upstream.needed("claude-agent-sdk")

pytestmark = pytest.mark.anyio

PROJECT = "-home-ann-shop"


@pytest.fixture
async def store(
    shared: BackgroundServer, request: pytest.FixtureRequest
) -> AsyncIterator[DurableSessionStore]:
    made = DurableSessionStore(url=shared.url, namespace=request.node.name.partition("[")[0][:60])
    yield made
    await made.aclose()


def another(store: DurableSessionStore, shared: BackgroundServer) -> DurableSessionStore:
    """Return a store as another process would have it."""
    return DurableSessionStore(url=shared.url, namespace=store._namespace)


def key(session: str = "s", subpath: str | None = None) -> dict[str, str]:
    found = {"project_key": PROJECT, "session_id": session}
    return found if subpath is None else {**found, "subpath": subpath}


def entry(number: int, **members: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": f"u{number}", "timestamp": "2026-11-18T09:00:00.000Z", **members}


def folded(entries: list[dict[str, Any]]) -> Any:
    from claude_agent_sdk import fold_session_summary

    return fold_session_summary(None, key(), entries)["data"]


async def test_the_summary_is_the_fold_of_the_log_whoever_writes(
    store: DurableSessionStore, shared: BackgroundServer
) -> None:
    other = another(store, shared)

    async def write(by: DurableSessionStore, first: int) -> None:
        for number in range(first, first + 20):
            await by.append(key(), [entry(number, customTitle=f"title {number}")])

    await asyncio.gather(write(store, 0), write(other, 100))
    loaded = await store.load(key())
    assert loaded is not None
    assert sorted(one["uuid"] for one in loaded) == sorted(f"u{n}" for n in [*range(20), *range(100, 120)])
    [summary] = await other.list_session_summaries(PROJECT)
    assert summary["data"] == folded(loaded)
    [listed] = await store.list_sessions(PROJECT)
    assert listed == {"session_id": "s", "mtime": summary["mtime"]}
    await other.aclose()


async def test_a_batch_that_is_sent_again_is_stored_once(
    store: DurableSessionStore, shared: BackgroundServer
) -> None:
    batch = [entry(1), entry(2)]
    await store.append(key(), batch)
    await store.append(key(), batch)  # by the same process, which had no answer
    other = another(store, shared)
    await other.append(key(), [*batch, entry(3)])
    assert await other.load(key()) == [*batch, entry(3)]
    without = {"type": "mode", "mode": "plan"}
    await other.append(key(), [without, without])
    assert await store.load(key()) == [*batch, entry(3), without, without]
    await other.aclose()


async def test_entries_of_any_size_and_shape_come_back_as_they_were(
    store: DurableSessionStore, sdk: Client
) -> None:
    deep: Any = "bottom"
    for _ in range(200):
        deep = [deep]
    entries = [
        entry(1, id="mine", offset="5", created_at="never", actor="me", slot="head", raw={"a": 1}),
        entry(2, text="x" * 3_000_000),
        entry(3, big=2**60 + 1, large=2**80, half="\ud83d", both="☃"),
        entry(4, deep=deep),
    ]
    await store.append(key(), entries)
    assert await store.load(key()) == entries
    stored = list(sdk.session(store._session(key())).events(types="claude.entry"))
    assert ["raw_artifact" in event for event in stored] == [False, True, False, True]


async def test_thousands_of_entries_in_one_call_keep_their_order(store: DurableSessionStore) -> None:
    entries = [entry(number) for number in range(2_500)]
    await store.append(key(), entries)
    assert await store.load(key()) == entries
    [summary] = await store.list_session_summaries(PROJECT)
    assert summary["data"] == folded(entries)


async def test_what_was_deleted_can_be_written_again(
    store: DurableSessionStore, shared: BackgroundServer
) -> None:
    sub = key(subpath="subagents/agent-1")
    other = another(store, shared)
    await store.append(key(), [entry(1)])
    await store.append(sub, [entry(2)])
    await other.delete(sub)
    assert await store.load(sub) is None
    assert await store.list_subkeys(key()) == []
    await store.append(sub, [entry(2), entry(3)])
    assert await other.load(sub) == [entry(2), entry(3)]
    await other.delete(key())
    assert await store.load(key()) is None
    assert await store.load(sub) is None
    await store.append(key(), [entry(1)])
    assert await other.load(key()) == [entry(1)]
    assert await other.load(sub) is None
    await other.aclose()


async def test_a_session_that_began_with_a_sub_agent_is_listed_from_its_own_first_entry_on(
    store: DurableSessionStore,
) -> None:
    long = "subagents/" + "/".join(["deep"] * 150)
    await store.append(key(subpath=long), [entry(1)])
    assert await store.list_sessions(PROJECT) == []
    assert await store.load(key()) is None
    await store.append(key(), [entry(2, customTitle="late")])
    [summary] = await store.list_session_summaries(PROJECT)
    assert summary["data"] == folded([entry(2, customTitle="late")])
    assert await store.list_subkeys(key()) == [long]
    assert await store.load(key(subpath=long)) == [entry(1)]


async def test_a_cancelled_append_is_either_whole_or_not_there(store: DurableSessionStore) -> None:
    for number in range(20):
        task = asyncio.create_task(store.append(key(), [entry(2 * number), entry(2 * number + 1)]))
        await asyncio.sleep(0.0005 * (number % 5))
        task.cancel()
        with suppress(asyncio.CancelledError):  # unless it was faster
            await task
    await store.append(key(), [entry(1_000)])
    loaded = await store.load(key())
    assert loaded is not None
    numbers = [int(one["uuid"][1:]) for one in loaded]
    assert numbers == sorted(set(numbers))
    assert all(number + 1 in numbers for number in numbers[:-1] if number % 2 == 0)
    assert numbers[-1] == 1_000
    [summary] = await store.list_session_summaries(PROJECT)
    assert summary["data"] == folded(loaded)


async def test_a_server_that_dies_in_mid_turn_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as running:
        store = DurableSessionStore(url=running.url)
        acknowledged: list[dict[str, Any]] = []

        async def turn() -> None:
            for number in range(120):
                one = entry(number)
                while True:
                    try:
                        await store.append(key(), [one])
                        break
                    except ConnectionFailedError:
                        continue  # the SDK would try again, too
                acknowledged.append(one)

        working = asyncio.create_task(turn())
        while len(acknowledged) < 30:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(running.kill)
        await asyncio.to_thread(running.start)
        await working
        elsewhere = DurableSessionStore(url=running.url)
        assert await elsewhere.load(key()) == acknowledged
        [summary] = await elsewhere.list_session_summaries(PROJECT)
        assert summary["data"] == folded(acknowledged)
        await store.aclose()
        await elsewhere.aclose()


async def test_the_check_says_what_is_used(store: DurableSessionStore, shared: BackgroundServer) -> None:
    assert (
        await store.check()
        == f"claude-agent-sdk {upstream.needed('claude-agent-sdk')} is stored at {shared.url}."
    )
