"""The conversation store for Pydantic AI beside the one in memory: same results, same refusals."""

import asyncio
import itertools
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel

from durable_sessions.adapters.pydantic_ai import DurableConversationStore
from durable_sessions.testing import BackgroundServer
from tests.support.process import ServerProcess

pytestmark = pytest.mark.anyio

NUMBERS = itertools.count()
IDS = ("a", "b/ä", "c", "d")


@pytest.fixture
def namespace() -> str:
    return f"pa{next(NUMBERS)}"


def asked(text: str) -> ModelMessage:
    return ModelRequest(parts=[UserPromptPart(content=text)])


def answered(text: str) -> ModelMessage:
    return ModelResponse(parts=[TextPart(content=text)])


class Beside:
    """The same steps on two stores; whatever they return or raise is compared."""

    def __init__(self, *stores: ConversationStore) -> None:
        self._stores = stores
        self._loaded: list[dict[str, Conversation]] = [{} for _ in stores]

    async def step(self, random: Random) -> None:
        chosen, other = random.choice(IDS), random.choice(IDS)
        text, at, limit = f"{random.random()}", random.randrange(5), random.choice([None, 1, 2, 0])
        scope = random.choice([None, None, "ann", "bob"])
        step = random.choice(
            ["save", "save", "save", "rewrite", "load", "load", "branch", "fork", "delete", "list"]
        )
        message = asked(text)
        outcomes = [
            await self._outcome(number, step, chosen, other, message, at, limit, scope)
            for number in range(len(self._stores))
        ]
        assert outcomes[0] == outcomes[1], (step, chosen, other, at, limit, scope)

    async def _outcome(self, number: int, *step: Any) -> Any:
        try:
            return await self._do(number, *step)
        except (ConversationConflict, UserError) as error:
            return type(error)

    async def _do(
        self,
        number: int,
        step: str,
        chosen: str,
        other: str,
        message: ModelMessage,
        at: int,
        limit: Any,
        scope: Any,
    ) -> Any:
        store, loaded = self._stores[number], self._loaded[number]
        mine = loaded.get(chosen)
        if step == "save":
            mine = mine or Conversation(conversation_id=chosen)
            mine.messages.append(message)
            return len(await store.save(mine, scope=scope))
        if step == "rewrite":
            revision = None if mine is None else mine.revision
            kept = [] if mine is None else mine.messages[:at]
            new = Conversation(conversation_id=chosen, messages=[*kept, message], revision=revision)
            return len(await store.save(new))
        if step == "load":
            found = await store.load(chosen, limit=limit, scope=scope)
            if found is None:
                loaded.pop(chosen, None)
                return None
            loaded[chosen] = found
            return found.messages, found.usage
        if step == "branch":
            revision = "none" if mine is None else mine.revision
            return (await store.branch(chosen, at=at, expected_revision=revision)).messages
        if step == "fork":
            return (await store.fork(chosen, at=at, new_conversation_id=other)).messages
        if step == "delete":
            return await store.delete(chosen, scope=scope)
        listed = await store.list_conversations(scope=scope, limit=limit)
        return [(one.conversation_id, one.scope, one.forked_from, len(one.branches)) for one in listed]


@pytest.mark.parametrize("seed", range(12))
async def test_random_steps_end_as_in_memory(shared: BackgroundServer, namespace: str, seed: int) -> None:
    ours = DurableConversationStore(url=shared.url, namespace=namespace)
    beside = Beside(InMemoryConversationStore(), ours)
    random = Random(seed)
    for _ in range(40):
        await beside.step(random)
    await ours.aclose()


async def test_of_two_writers_one_is_told_and_nothing_is_lost(
    shared: BackgroundServer, namespace: str
) -> None:
    stores = [DurableConversationStore(url=shared.url, namespace=namespace) for _ in range(2)]
    await stores[0].save(Conversation(conversation_id="talk", messages=[asked("hello")]))

    async def write(store: ConversationStore, name: str) -> None:
        for number in range(8):
            while True:
                talk = await store.load("talk")
                assert talk is not None
                talk.messages.append(answered(f"{name}{number}"))
                try:
                    await store.save(talk)
                    break
                except ConversationConflict:
                    continue

    await asyncio.gather(write(stores[0], "a"), write(stores[1], "b"))
    talk = await stores[1].load("talk")
    assert talk is not None
    said = [part.content for message in talk.messages[1:] for part in message.parts]  # type: ignore[union-attr]
    assert sorted(map(str, said)) == sorted(f"{name}{number}" for name in "ab" for number in range(8))
    for store in stores:
        await store.aclose()


async def test_long_histories_bytes_and_large_messages_come_back(
    shared: BackgroundServer, namespace: str
) -> None:
    store = DurableConversationStore(url=shared.url, namespace=namespace)
    picture = ModelRequest(
        parts=[UserPromptPart(content=[BinaryContent(b"\x00\xff" * 10, media_type="application/pdf")])]
    )
    messages = [*(asked(str(number)) for number in range(1_200)), picture, answered("x" * 3_000_000)]
    await store.save(Conversation(conversation_id="long", messages=messages))
    reader = DurableConversationStore(url=shared.url, namespace=namespace)
    for limit in (None, 3):
        found = await reader.load("long", limit=limit)
        assert found is not None
        assert found.messages == (messages if limit is None else messages[-limit:])
    entries = await reader.load_entries("long", limit=1)
    assert entries is not None
    assert await reader.read_entry(entries[0].id) == entries[0]
    with pytest.raises(LookupError):
        await reader.read_entry("missing")
    await store.aclose()
    await reader.aclose()


async def test_a_fork_outlives_what_it_was_forked_from(shared: BackgroundServer, namespace: str) -> None:
    store = DurableConversationStore(url=shared.url, namespace=namespace)
    await store.save(Conversation(conversation_id="first", messages=[asked("1"), answered("2")]))
    fork = await store.fork("first", at=1, new_conversation_id="second")
    await store.delete("first")
    assert await store.load("first") is None
    fork.messages.append(answered("3"))
    await store.save(fork)
    await store.save(Conversation(conversation_id="first", messages=[asked("next life")]))
    found = await store.load("second")
    assert found is not None
    assert found.messages == fork.messages
    assert {one.conversation_id for one in await store.list_conversations()} == {"first", "second"}
    await store.aclose()


async def test_an_agent_goes_on_after_a_restart(shared: BackgroundServer, namespace: str) -> None:
    agent = Agent(TestModel(custom_output_text="fine"))
    for turn in range(2):
        store = DurableConversationStore(url=shared.url, namespace=namespace)
        talk = await store.load("ann") or Conversation(conversation_id="ann")
        await store.save(await agent.run(f"turn {turn}", conversation=talk))
        await store.aclose()
    store = DurableConversationStore(url=shared.url, namespace=namespace)
    found = await store.load("ann")
    assert found is not None
    assert len(found.messages) == 4
    assert found.usage.requests == 2
    await store.aclose()


async def test_a_cancelled_save_is_whole_or_not_there(shared: BackgroundServer, namespace: str) -> None:
    store = DurableConversationStore(url=shared.url, namespace=namespace)
    for number in range(20):
        talk = await store.load("ann") or Conversation(conversation_id="ann")
        talk.messages += [asked(f"q{number}"), answered(f"a{number}")]
        task = asyncio.create_task(store.save(talk))
        await asyncio.sleep(0.0007 * (number % 6))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    reader = DurableConversationStore(url=shared.url, namespace=namespace)
    found = await reader.load("ann")
    said = [str(part.content) for message in found.messages for part in message.parts] if found else []  # type: ignore[union-attr]
    assert [one.replace("q", "a") for one in said[::2]] == said[1::2]
    assert len(said) == len(set(said))
    await store.aclose()
    await reader.aclose()


async def test_a_server_that_dies_has_every_save_that_was_acknowledged(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as running:
        store = DurableConversationStore(url=running.url)
        acknowledged = 0

        async def work() -> None:
            nonlocal acknowledged
            for number in itertools.count():
                talk = await store.load("ann") or Conversation(conversation_id="ann")
                talk.messages += [asked(f"q{number}"), answered(f"a{number}")]
                await store.save(talk)
                acknowledged = number + 1

        working = asyncio.create_task(work())
        while acknowledged < 10:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(running.kill)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await asyncio.to_thread(running.start)
        elsewhere = DurableConversationStore(url=running.url)
        found = await elsewhere.load("ann")
        assert found is not None
        assert len(found.messages) >= 2 * acknowledged
        assert len(found.messages) % 2 == 0
        await store.aclose()
        await elsewhere.aclose()


async def test_a_late_save_does_not_bring_a_deleted_conversation_back(
    shared: BackgroundServer, namespace: str
) -> None:
    first, second = (DurableConversationStore(url=shared.url, namespace=namespace) for _ in range(2))
    await first.save(Conversation(conversation_id="ann", messages=[asked("old")]))
    late = await second.load("ann")
    assert late is not None
    late.messages.append(answered("late"))
    await first.delete("ann")
    with pytest.raises(ConversationConflict):
        await second.save(late)
    assert await first.load("ann") is None
    await first.save(Conversation(conversation_id="ann", messages=[asked("new")]))
    with pytest.raises(ConversationConflict):
        await second.save(late)
    found = await second.load("ann")
    assert found is not None
    assert [part.content for message in found.messages for part in message.parts] == ["new"]  # type: ignore[union-attr]
    for store in (first, second):
        await store.aclose()
