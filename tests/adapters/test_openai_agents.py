"""The session for the OpenAI Agents SDK, where the SDK's own tests do not look."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agents.memory import session as sdk_session

from agents import Agent, Runner
from durable_sessions import Client
from durable_sessions.adapters.openai_agents import DurableSession
from durable_sessions.client.async_client import AsyncArtifactCollection
from durable_sessions.client.errors import ConnectionFailedError, SessionReplacedError
from durable_sessions.testing import BackgroundServer
from tests.support.process import ServerProcess
from tests.support.skips import disabled
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

NUMBERS = itertools.count()
OLDER, NEWER = "openai-agents is older than what this is about", "make test-adapters"


@pytest.fixture
async def session(shared: BackgroundServer) -> AsyncIterator[DurableSession]:
    made = DurableSession("ann", url=shared.url, namespace=f"oa{next(NUMBERS)}")
    yield made
    await made.aclose()


def another(session: DurableSession, **options: Any) -> DurableSession:
    """Return a session as another process would have it."""
    return DurableSession(
        session.session_id, url=session._clients.url, namespace=session._namespace, **options
    )


def said(number: int | str) -> Any:
    return {"role": "user", "content": f"message {number}", "id": "mine", "offset": 1}


def contents(item: Any) -> str:
    return str(item["content"])


async def test_an_item_is_popped_once_by_whoever_is_first(session: DurableSession) -> None:
    await session.add_items([said(number) for number in range(12)])
    other = another(session)
    popped = await asyncio.gather(*((session if n % 2 else other).pop_item() for n in range(14)))
    found = [contents(one) for one in popped if one is not None]
    assert sorted(found) == sorted(f"message {number}" for number in range(12))
    assert await other.get_items() == []
    assert popped.count(None) == 2
    await other.aclose()


async def test_the_same_item_twice_is_two_items(session: DurableSession) -> None:
    await session.add_items([said(1), said(1)])
    await session.add_items([said(1)])
    assert await session.get_items() == [said(1)] * 3
    assert await session.pop_item() == said(1)
    assert await session.get_items(1) == [said(1)]
    assert await session.get_items(-1) == [said(1)] * 2


async def test_thousands_of_items_in_one_call_and_windows_of_them(session: DurableSession) -> None:
    items = [said(number) for number in range(2_000)]
    await session.add_items(items)
    large: Any = {"role": "user", "content": "x" * 3_000_000}
    await session.add_items([said("last"), large])
    whole = await session.get_items()
    assert whole[:2_001] == [*items, said("last")]
    assert await session.get_items(3) == whole[-3:]
    await session.pop_item()
    await session.pop_item()
    assert await session.pop_item() == said(1_999)
    assert await session.get_items(2) == items[1_997:1_999]
    await session.clear_session()
    assert await session.get_items() == []
    await session.add_items([said("new")])
    other = another(session)
    assert await other.get_items() == [said("new")]
    await other.aclose()


async def test_what_is_taken_away_stays_in_the_log_unless_it_is_to_be_erased(
    session: DurableSession, sdk: Client
) -> None:
    await session.clear_session()  # of a session that is not there
    await session.add_items([said(1), said(2)])
    await session.pop_item()
    await session.clear_session()
    log = sdk.session(session._session)
    types = ["openai.item", "openai.item", "openai.retracted", "openai.cleared"]
    assert [event.type for event in log.events()] == types
    assert [event["raw"]["content"] for event in log.events(types="openai.item")] == [
        "message 1",
        "message 2",
    ]
    erasing = DurableSession("bob", url=session._clients.url, namespace=session._namespace, erase=True)
    await erasing.add_items([said(1), said(2), said(3)])
    assert await erasing.pop_item() == said(3)
    assert await erasing.get_items() == [said(1), said(2)]
    await erasing.clear_session()
    assert await erasing.get_items() == []
    stored = list(sdk.session(erasing._session).events(types="openai.item"))
    assert all("dropped" in event and "raw" not in event for event in stored)
    await erasing.aclose()


async def test_a_release_without_the_hook_of_compactions_gets_no_snapshot(
    session: DurableSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sdk_session, "_CompactionSnapshot", raising=False)
    await session.add_items([said(1)])
    assert await session._get_compaction_snapshot(4) is None


@pytest.mark.skipif(
    not hasattr(sdk_session, "_CompactionSnapshot"),
    reason=disabled(OLDER, NEWER),
)
async def test_a_compaction_replaces_what_it_has_seen_or_nothing(session: DurableSession) -> None:
    await session.add_items([said(number) for number in range(6)])
    snapshot = await session._get_compaction_snapshot(4)
    assert snapshot.items == [said(number) for number in range(2, 6)]
    assert not snapshot.complete
    assert await snapshot.replace_suffix(1, [said("summary")])
    assert await session.get_items() == [said(0), said(1), said(2), said("summary")]
    stale = await session._get_compaction_snapshot(10)
    other = another(session)
    await other.add_items([said("meanwhile")])
    await other.aclose()
    assert not await stale.replace_suffix(0, [said("lost")])
    assert (await session.get_items())[-1] == said("meanwhile")


async def test_a_branch_has_the_history_and_goes_its_own_way(session: DurableSession) -> None:
    await session.add_items([said(1), said(2)])
    other = await session.branch("ann-2", at=1)
    await other.add_items([said(3)])
    assert await other.get_items() == [said(1), said(3)]
    assert await session.get_items() == [said(1), said(2)]


async def test_many_large_items_of_one_call_are_read_by_one_request(
    session: DurableSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [said(f"{number} {'x' * 1_000}") for number in range(1_200)]
    await session.add_items(items)
    read: list[str] = []
    get = AsyncArtifactCollection.get

    async def counted(self: AsyncArtifactCollection, sha256: str) -> bytes:
        read.append(sha256)
        return await get(self, sha256)

    monkeypatch.setattr(AsyncArtifactCollection, "get", counted)
    assert await session.get_items() == items
    assert len(read) == 1


async def test_items_are_read_as_they_were(session: DurableSession, sdk: Client) -> None:
    assert await session.items_at(0) == []
    await session.add_items([said(1), said(2)])
    then = sdk.sessions.get(session._session).next_offset
    await session.pop_item()
    await session.add_items([said(3)])
    await session.clear_session()
    assert await session.items_at(then) == [said(1), said(2)]
    assert await session.items_at(1) == [said(1)]
    assert await session.items_at(4) == [said(1), said(3)]
    assert await session.items_at(5) == await session.get_items() == []


async def test_the_last_turn_is_undone_once_whoever_else_does_it(session: DurableSession) -> None:
    assert await session.undo() == []
    answers: list[Any] = [{"role": "assistant", "content": f"step {number}"} for number in range(60)]
    await session.add_items([said(1), answers[0], said(2), *answers])
    other = another(session)
    undone = await asyncio.gather(session.undo(), other.undo())
    assert sorted(undone, key=len) == [[said(1), answers[0]], [said(2), *answers]]
    assert await session.get_items() == await other.undo() == []
    await session.add_items([answers[0]])
    assert await session.undo() == [], "what no user began is no turn"
    await other.aclose()


async def test_a_cancelled_call_is_carried_out_or_not(session: DurableSession) -> None:
    for number in range(20):
        task = asyncio.create_task(session.add_items([said(number), said(number)]))
        await asyncio.sleep(0.0004 * (number % 6))
        task.cancel()
        with suppress(asyncio.CancelledError):  # unless it was faster
            await task
    items = await session.get_items()
    found = [contents(item) for item in items]
    assert all(found.count(content) == 2 for content in found)
    await session.add_items([said("last")])
    assert (await session.get_items())[:-1] == items


async def test_a_run_continues_after_the_server_was_killed(tmp_path: Path) -> None:
    testing = pytest.importorskip("agents.testing", reason=disabled(OLDER, NEWER))
    with ServerProcess(tmp_path / "data") as running:
        for turn in ("one", "two"):
            answer = testing.assistant_message(f"answer {turn}")
            agent = Agent(name="echo", model=testing.ScriptedModel([[answer]]))
            session = DurableSession("ann", url=running.url)
            result = await Runner.run(agent, f"question {turn}", session=session)
            assert result.final_output == f"answer {turn}"
            await session.aclose()
            if turn == "one":
                await asyncio.to_thread(running.kill)
                await asyncio.to_thread(running.start)
        session = DurableSession("ann", url=running.url)
        assert len(await session.get_items()) == 4
        await session.aclose()


async def test_a_server_that_is_killed_in_mid_request_has_each_call_whole(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "data") as running:
        session = DurableSession("ann", url=running.url)
        acknowledged: list[int] = []

        async def work() -> None:
            for number in range(60):
                with suppress(ConnectionFailedError):
                    await session.add_items([said(f"{number} {part} {'x' * 9_000}") for part in "abc"])
                    acknowledged.append(number)

        working = asyncio.create_task(work())
        await until(lambda: len(acknowledged) >= 10)
        await asyncio.to_thread(running.kill)
        await asyncio.to_thread(running.start)
        await working
        reader = another(session)
        found = [contents(item).split()[1:3] for item in await reader.get_items()]
        calls = [int(number) for number, part in found if part == "a"]
        assert found == [[str(number), part] for number in calls for part in "abc"]
        assert calls == sorted(set(calls))
        assert set(acknowledged) <= set(calls)
        await session.aclose()
        await reader.aclose()


async def test_a_late_writer_does_not_bring_a_deleted_session_back(
    session: DurableSession, sdk: Client
) -> None:
    other = another(session)
    await session.add_items([said("old 1"), said("old 2")])
    assert len(await other.get_items()) == 2
    sdk.session(session._session).delete()
    for one in (session, other):
        assert await one.get_items() == []
        assert await one.pop_item() is None
    with pytest.raises(SessionReplacedError):
        await session.add_items([said("late")])
    assert await other.get_items() == []
    fresh = another(session)
    await fresh.add_items([said("new")])
    for one in (session, other):
        assert await one.get_items() == [said("new")]
    for one in (other, fresh):
        await one.aclose()
