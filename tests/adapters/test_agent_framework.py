"""History and checkpoints of the Agent Framework beside its own stores in memory."""

import asyncio
import itertools
from pathlib import Path
from random import Random
from typing import Any

import pytest

from durable_sessions import Client
from durable_sessions.testing import BackgroundServer
from tests.adapters import upstream
from tests.support.process import ServerProcess

upstream.needed("agent-framework-core")

from agent_framework import (  # noqa: E402
    InMemoryCheckpointStorage,
    Message,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
)

from durable_sessions.adapters.agent_framework import (  # noqa: E402
    DurableCheckpointStorage,
    DurableHistoryProvider,
)

pytestmark = pytest.mark.anyio

NUMBERS = itertools.count()


@pytest.fixture
def namespace() -> str:
    return f"af{next(NUMBERS)}"


def said(text: str) -> Any:
    return Message(role="user", contents=[text])


def texts(messages: list[Any]) -> list[str]:
    return [message.text for message in messages]


async def test_messages_are_kept_in_order_whoever_adds_them(shared: BackgroundServer, namespace: str) -> None:
    stores = [DurableHistoryProvider(url=shared.url, namespace=namespace) for _ in range(2)]
    assert await stores[0].get_messages("ann") == []
    await stores[0].save_messages("ann", [said("one"), said("two")])
    await asyncio.gather(
        *(stores[n % 2].save_messages("ann", [said(f"m{n}"), said(f"n{n}")]) for n in range(10))
    )
    found = texts(await stores[1].get_messages("ann"))
    assert found[:2] == ["one", "two"]
    assert all(found[found.index(f"m{n}") + 1] == f"n{n}" for n in range(10))
    many = [said(str(n)) for n in range(1_500)]
    await stores[0].save_messages("bob", [*many, said("x" * 3_000_000)])
    kept = await stores[1].get_messages("bob")
    assert [message.to_dict() for message in kept[:1_500]] == [message.to_dict() for message in many]
    assert len(kept[-1].text) == 3_000_000
    await stores[0].save_messages(None, [said("nobody's")])
    assert texts(await stores[1].get_messages(None)) == ["nobody's"]
    for store in stores:
        await store.aclose()


@pytest.mark.parametrize("seed", range(5))
async def test_checkpoints_are_those_of_the_storage_in_memory(
    shared: BackgroundServer, namespace: str, seed: int
) -> None:
    ours = DurableCheckpointStorage(url=shared.url, namespace=namespace)
    memory = InMemoryCheckpointStorage()
    random = Random(seed)
    for number in range(30):
        chosen = random.randrange(6)
        step = random.choice(["save", "save", "load", "delete", "list", "latest"])
        made = WorkflowCheckpoint(
            f"w/ü{chosen % 2}",
            "hash",
            checkpoint_id=f"c{chosen}",
            timestamp=f"2026-11-18T09:00:{number:02}+00:00",
            state={"n": number, "set": {1, 2}, "large": "x" * (1_500_000 if number == 7 else 1)},
        )
        outcomes = [await outcome(store, step, made) for store in (memory, ours)]
        assert outcomes[0] == outcomes[1], (step, chosen)
    await ours.aclose()


async def outcome(store: Any, step: str, made: Any) -> Any:
    name = made.workflow_name
    try:
        match step:
            case "save":
                return await store.save(made)
            case "load":
                return await store.load(made.checkpoint_id)
            case "delete":
                return await store.delete(made.checkpoint_id)
            case "list":
                listed = await store.list_checkpoints(workflow_name=name)
                ids = await store.list_checkpoint_ids(workflow_name=name)
                return sorted(one.checkpoint_id for one in listed), sorted(ids)
        return await store.get_latest(workflow_name=name)
    except WorkflowCheckpointException:
        return WorkflowCheckpointException


async def test_a_deleted_checkpoint_is_erased(shared: BackgroundServer, namespace: str, sdk: Client) -> None:
    store = DurableCheckpointStorage(url=shared.url, namespace=namespace)
    await store.save(WorkflowCheckpoint("w", "hash", checkpoint_id="c", state={"word": "secret"}))
    assert await store.delete("c")
    assert not await store.delete("c")
    [event, _] = sdk.session(f"{namespace}:workflow:w").events()
    assert "dropped" in event
    assert "raw" not in event
    await store.aclose()


async def test_a_cancelled_save_is_whole_or_not_there(shared: BackgroundServer, namespace: str) -> None:
    history = DurableHistoryProvider(url=shared.url, namespace=namespace)
    for number in range(20):
        task = asyncio.create_task(history.save_messages("ann", [said(f"m{number}"), said(f"n{number}")]))
        await asyncio.sleep(0.0005 * (number % 5))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await history.save_messages("ann", [said("m99"), said("n99")])
    found = texts(await history.get_messages("ann"))
    assert [one.replace("m", "n") for one in found[::2]] == found[1::2]
    assert found[-2:] == ["m99", "n99"]
    assert len(found) == len(set(found))
    await history.aclose()


async def test_a_server_that_dies_has_all_that_was_acknowledged_and_nothing_by_halves(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as running:
        history, storage = DurableHistoryProvider(url=running.url), DurableCheckpointStorage(url=running.url)
        acknowledged = 0

        async def work() -> None:
            nonlocal acknowledged
            for number in itertools.count():
                await history.save_messages("ann", [said(f"m{number}"), said(f"n{number}")])
                await storage.save(WorkflowCheckpoint("w", "hash", checkpoint_id=f"c{number}"))
                acknowledged = number + 1

        working = asyncio.create_task(work())
        while acknowledged < 15:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(running.kill)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await asyncio.to_thread(running.start)
        found = texts(await history.get_messages("ann"))
        assert found == [f"{letter}{number}" for number in range(len(found) // 2) for letter in "mn"]
        ids = await storage.list_checkpoint_ids(workflow_name="w")
        assert ids == [f"c{number}" for number in range(len(ids))]
        assert min(len(found) // 2, len(ids)) >= acknowledged
        await history.aclose()
        await storage.aclose()
