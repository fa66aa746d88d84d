"""Sessions of ADK beside those of its service in memory, and what that cannot show."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from durable_sessions import Client
from durable_sessions.testing import BackgroundServer
from tests.adapters import upstream
from tests.adapters.counting import asked
from tests.support.process import ServerProcess

upstream.needed("google-adk")

from google.adk.agents.base_agent import BaseAgent  # noqa: E402
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService  # noqa: E402
from google.adk.errors.already_exists_error import AlreadyExistsError  # noqa: E402
from google.adk.events.event import Event  # noqa: E402
from google.adk.events.event_actions import EventActions  # noqa: E402
from google.adk.memory.memory_entry import MemoryEntry  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions import _session_util  # noqa: E402
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig  # noqa: E402
from google.adk.sessions.in_memory_session_service import InMemorySessionService  # noqa: E402
from google.adk.sessions.session import Session  # noqa: E402
from google.genai import types  # noqa: E402
from google.genai.types import Content, Part  # noqa: E402

from durable_sessions.adapters import adk  # noqa: E402
from durable_sessions.adapters.adk import DurableSessionService, StaleSessionError  # noqa: E402
from durable_sessions.adapters.adk_memory import DurableMemoryService  # noqa: E402

pytestmark = pytest.mark.anyio

NUMBERS = itertools.count()
STEPS = ("create", "append", "append", "append", "get", "recent", "list", "delete", "user")


@pytest.fixture
def namespace() -> str:
    return f"adk{next(NUMBERS)}"


def event(number: int, **delta: Any) -> Any:
    return Event(
        id=f"e{next(NUMBERS)}",
        author="user",
        timestamp=1_000.0 + number,
        content=Content(role="user", parts=[Part(text=f"message {number}")]),
        actions=EventActions(state_delta=delta),
    )


def seen(session: Any) -> Any:
    if session is None:
        return None
    texts = [one.content.parts[0].text for one in session.events]
    return session.id, session.user_id, dict(session.state), texts


@pytest.mark.parametrize("seed", range(6))
async def test_random_steps_end_as_in_memory(shared: BackgroundServer, namespace: str, seed: int) -> None:
    ours = DurableSessionService(url=shared.url, namespace=namespace)
    services = [InMemorySessionService(), ours]
    random = Random(seed)
    for number in range(30):
        key = {
            "app_name": "app",
            "user_id": random.choice(["ann", "bob/ü"]),
            "session_id": random.choice("xyz"),
        }
        step = random.choice(
            ["create", "append", "append", "append", "get", "recent", "list", "delete", "user"]
        )
        names = random.choice([("own",), ("app:a", "own"), ("user:u",), ("temp:t", "user:u", "app:b")])
        outcomes = [await outcome(service, step, key, number, names) for service in services]
        assert outcomes[0] == outcomes[1], (step, key)
    await ours.aclose()


async def outcome(service: Any, step: str, key: dict[str, str], number: int, names: tuple[str, ...]) -> Any:
    try:
        if step == "create":
            return seen(await service.create_session(**key, state=dict.fromkeys(names[:1], number)))
        if step == "append":
            session = await service.get_session(**key)
            if session is None:
                return None
            await service.append_event(session, event(number, **dict.fromkeys(names, number)))
            return seen(session)
    except AlreadyExistsError:
        return AlreadyExistsError
    if step == "recent":
        config = GetSessionConfig(num_recent_events=number % 3, after_timestamp=1_000.0 + number / 2)
        return seen(await service.get_session(**key, config=config))
    if step == "get":
        return seen(await service.get_session(**key))
    if step == "list":
        found = await service.list_sessions(app_name="app")
        return sorted(map(seen, found.sessions), key=lambda one: one[:2])
    if step == "user":
        return await service.get_user_state(app_name="app", user_id=key["user_id"])
    return await service.delete_session(**key)


async def test_a_session_that_others_went_on_with_is_stale(shared: BackgroundServer, namespace: str) -> None:
    first, second = (DurableSessionService(url=shared.url, namespace=namespace) for _ in range(2))
    key: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "s"}
    mine = await first.create_session(**key)
    theirs = await second.get_session(**key)
    await first.append_event(mine, event(1, own=1))
    with pytest.raises(StaleSessionError, match="modified in storage"):
        await second.append_event(theirs, event(2, own=2))
    await first.append_event(mine, event(3, own=3))
    again = await second.get_session(**key)
    assert again is not None
    await second.append_event(again, event(4))
    await first.delete_session(**key)
    with pytest.raises(ValueError, match="not found"):
        await second.append_event(again, event(5))
    assert await first.get_session(**key) is None
    await first.create_session(**key)
    with pytest.raises(StaleSessionError):
        await second.append_event(again, event(6))
    for service in (first, second):
        await service.aclose()


async def test_sessions_of_one_user_share_state_of_any_size(shared: BackgroundServer, namespace: str) -> None:
    service = DurableSessionService(url=shared.url, namespace=namespace)
    sessions = [await service.create_session(app_name="app", user_id="ann") for _ in range(5)]
    large = "x" * 3_000_000
    changes: list[dict[str, Any]] = [{f"user:k{n}": large if n == 0 else n, "own": large} for n in range(5)]
    pairs = enumerate(zip(sessions, changes, strict=True))
    await asyncio.gather(*(service.append_event(one, event(n, **change)) for n, (one, change) in pairs))
    found = await service.get_user_state(app_name="app", user_id="ann")
    assert found == {"k0": large, "k1": 1, "k2": 2, "k3": 3, "k4": 4}
    await service.aclose()


async def test_an_event_that_is_sent_again_is_stored_once(shared: BackgroundServer, namespace: str) -> None:
    service = DurableSessionService(url=shared.url, namespace=namespace)
    user = "u" * 400
    session = await service.create_session(app_name="app", user_id=user, session_id=" s ")
    again = event(1, **{"user:k": 1})
    for _ in range(2):
        await service.append_event(session, again)
    assert len(session.events) == 1
    found = await service.get_session(app_name="app", user_id=user, session_id="s")
    assert found is not None
    assert [one.id for one in found.events] == [again.id]
    assert found.state == {"user:k": 1}
    await service.aclose()


async def test_sessions_and_whole_events_come_back_equal(shared: BackgroundServer, namespace: str) -> None:
    service = DurableSessionService(url=shared.url, namespace=namespace)
    key: dict[str, Any] = {"app_name": "app", "user_id": "ann"}
    session = await service.create_session(**key, state={"k": "v"})
    assert await service.get_session(**key, session_id=session.id) == session
    whole = Event(
        invocation_id="invocation",
        author="user",
        content=Content(role="user", parts=[Part.from_bytes(data=b"\x00\xff png", mime_type="image/png")]),
        actions=EventActions(artifact_delta={"file": 0}, transfer_to_agent="agent", escalate=True),
        long_running_tool_ids={"tool"},
        error_code="code",
        error_message="message",
        interrupted=True,
        turn_complete=True,
        grounding_metadata=types.GroundingMetadata(
            search_entry_point=types.SearchEntryPoint(sdk_blob=b"\x00\xff blob")
        ),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1),
        custom_metadata={"key": "value"},
        input_transcription=types.Transcription(text="said", finished=True),
    )
    await service.append_event(session, whole)
    assert session.last_update_time == whole.timestamp
    found = await service.get_session(**key, session_id=session.id)
    assert found == session
    assert found.events == [whole]
    await service.aclose()


async def test_a_session_that_was_made_by_hand_must_end_as_the_stored_one(
    shared: BackgroundServer, namespace: str
) -> None:
    service = DurableSessionService(url=shared.url, namespace=namespace)
    key: dict[str, Any] = {"app_name": "app", "user_id": "ann"}
    read = await service.create_session(**key, session_id="s")
    by_hand = Session(id="s", **key)
    first = event(1, own=1)
    await service.append_event(by_hand, first)
    with pytest.raises(StaleSessionError, match="modified in storage"):
        await service.append_event(read, event(2))
    with pytest.raises(StaleSessionError):
        await service.append_event(Session(id="s", **key), event(2))
    with pytest.raises(StaleSessionError):
        await service.append_event(Session(id="s", events=[event(9)], **key), event(2))
    lost = Session(id="s", **key)
    await service.append_event(lost, first)  # once more, since its answer was lost
    stored: Any = await service.get_session(**key, session_id="s")
    over_a_wire = Session.model_validate_json(stored.model_dump_json())
    await service.append_event(over_a_wire, event(3, own=3))
    found = await service.get_session(**key, session_id="s")
    assert seen(found) == ("s", "ann", {"own": 3}, ["message 1", "message 3"])
    await service.aclose()


async def test_it_works_with_the_oldest_release_that_its_extra_names(
    shared: BackgroundServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adk, "_state_delta", _session_util.extract_state_delta)  # the only one before 2.8
    monkeypatch.delattr(BaseSessionService, "_commit_event_to_session", raising=False)  # since 2.10
    service = DurableSessionService(url=shared.url, namespace=namespace)
    session = await service.create_session(app_name="app", user_id="ann", state={"app:a": 1})
    await service.append_event(session, event(1, own=1))
    assert seen(session) == (session.id, "ann", {"app:a": 1, "own": 1}, ["message 1"])
    found = await service.get_session(app_name="app", user_id="ann", session_id=session.id)
    assert seen(found) == seen(session)
    await service.aclose()


class Counting(BaseAgent):  # type: ignore[misc]
    """Counts its turns in the state of its session and user."""

    async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Any]:
        turns = ctx.session.state.get("turns", 0) + 1
        change = EventActions(state_delta={"turns": turns, "user:turns": turns})
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=said("ok"), actions=change)


async def test_a_rewind_ends_as_in_memory(shared: BackgroundServer, namespace: str) -> None:
    outcomes = []
    for service in (InMemorySessionService(), DurableSessionService(url=shared.url, namespace=namespace)):
        key: dict[str, Any] = {"user_id": "ann", "session_id": "s"}
        await service.create_session(app_name="app", **key)
        runner = Runner(
            app_name="app",
            agent=Counting(name="counting"),
            session_service=service,
            artifact_service=InMemoryArtifactService(),
        )
        invocations: list[str] = []
        for turn in range(3):
            running = runner.run_async(**key, new_message=said(f"turn {turn}"))
            invocations += [one.invocation_id async for one in running]
        await runner.rewind_async(**key, rewind_before_invocation_id=invocations[1])
        async for _ in runner.run_async(**key, new_message=said("again")):
            pass
        found: Any = await service.get_session(app_name="app", **key)
        outcomes.append((found.state, [one.author for one in found.events]))
        if isinstance(service, DurableSessionService):
            await service.aclose()
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0]["turns"] == 2


async def test_a_cancelled_append_is_whole_or_not_there(shared: BackgroundServer, namespace: str) -> None:
    service = DurableSessionService(url=shared.url, namespace=namespace)
    key: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "s"}
    await service.create_session(**key)
    for number in range(20):
        session = await service.get_session(**key)
        assert session is not None
        change = {"own": number, "user:n": number}
        task = asyncio.create_task(service.append_event(session, event(number, **change)))
        await asyncio.sleep(0.0007 * (number % 6))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    found = await service.get_session(**key)
    assert found is not None
    last = found.events[-1].actions.state_delta if found.events else {}
    assert found.state == last
    await service.aclose()


async def test_a_crash_leaves_no_event_without_its_state(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as running:
        service = DurableSessionService(url=running.url)
        key: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "s"}
        session = await service.create_session(**key)

        async def work() -> None:
            for number in itertools.count(1):
                await service.append_event(session, event(number, **{"own": number, "user:n": number}))

        working = asyncio.create_task(work())
        while len(session.events) < 20:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(running.kill)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await asyncio.to_thread(running.start)
        elsewhere = DurableSessionService(url=running.url)
        found = await elsewhere.get_session(**key)
        assert found is not None
        assert len(found.events) >= len(session.events)
        assert found.state == {"own": len(found.events), "user:n": len(found.events)}
        await service.aclose()
        await elsewhere.aclose()


def said(text: str) -> Any:
    return Content(role="user", parts=[Part(text=text)])


async def remembered(memory: Any, query: str, user: str = "ann") -> list[tuple[Any, str]]:
    found = await memory.search_memory(app_name="app", user_id=user, query=query)
    return [(one.id, one.content.parts[0].text) for one in found.memories]


async def test_what_sessions_said_is_remembered_at_once_and_forgotten_on_demand(
    shared: BackgroundServer, namespace: str
) -> None:
    service = DurableSessionService(url=shared.url, namespace=namespace)
    memory = DurableMemoryService(url=shared.url, namespace=namespace)
    assert await remembered(memory, "heron") == []
    for user, text in (("ann", "the heron stands still"), ("bob", "no heron here"), ("ann", "a pelican")):
        session = await service.create_session(app_name="app", user_id=user)
        event_said = Event(id=f"{user}-{text[-5:]}", author="user", timestamp=1_000.0, content=said(text))
        await service.append_event(session, event_said)
        await memory.add_session_to_memory(session)
    assert await remembered(memory, "Which heron: still?") == [("ann-still", "the heron stands still")]
    assert await remembered(memory, "heron", "bob") == [("bob- here", "no heron here")]
    assert await remembered(memory, "?!") == []
    found = await memory.search_memory(app_name="app", user_id="ann", query="heron")
    assert (found.memories[0].author, found.memories[0].timestamp) == ("user", "1970-01-01T00:16:40+00:00")

    place: dict[str, Any] = {"app_name": "app", "user_id": "ann"}
    for text in ("ann likes the ibis", "ann loves the ibis"):
        await memory.add_memory(**place, memories=[MemoryEntry(id="bird", content=said(text))])
    await memory.add_memory(**place, memories=[MemoryEntry(content=said("an ibis, unnamed"))])
    both = await remembered(memory, "ibis")
    assert sorted(text for _, text in both) == ["an ibis, unnamed", "ann loves the ibis"]
    for memory_id, _ in both:
        await memory.delete_memory(**place, memory_id=memory_id)
    assert await remembered(memory, "ibis") == []
    await memory.delete_memory(**place, memory_id="ann-still")
    assert await remembered(memory, "heron") == []
    await memory.add_memory(**place, memories=[MemoryEntry(id="bird", content=said("an ibis again"))])
    assert await remembered(memory, "ibis") == [("bird", "an ibis again")]
    for one in (service, memory):
        await one.aclose()


async def test_lists_have_the_last_changed_session_last_and_ids_are_stripped(
    shared: BackgroundServer, namespace: str
) -> None:
    """What else ADK's own contract tests demand; no distribution of it has them."""
    service = DurableSessionService(url=shared.url, namespace=namespace)
    user: dict[str, Any] = {"app_name": "app", "user_id": "ann"}
    made = {name: await service.create_session(**user, session_id=name) for name in ("first", "second")}
    now = made["second"].last_update_time
    later = Event(author="user", timestamp=now + 1_000, content=said("later"))
    await service.append_event(made["first"], later)
    assert made["first"].last_update_time == now + 1_000
    listed = (await service.list_sessions(**user)).sessions
    assert [(one.id, one.events) for one in listed] == [("second", []), ("first", [])]
    assert listed[1].last_update_time == now + 1_000
    partial = Event(author="user", content=said("half"), partial=True)
    assert await service.append_event(made["second"], partial) is partial
    found = await service.get_session(**user, session_id="  second ")
    assert found is not None
    assert found.events == []
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**user, session_id=" second")
    await service.delete_session(**user, session_id=" second  ")
    assert [one.id for one in (await service.list_sessions(**user)).sessions] == ["first"]
    assert (await service.list_sessions(app_name="other")).sessions == []
    generated = await service.create_session(**user, session_id="  ")
    assert generated.id.strip()
    await service.aclose()


async def test_a_list_reads_the_state_of_an_app_and_of_each_user_once(
    shared: BackgroundServer, namespace: str, sdk: Client
) -> None:
    service = DurableSessionService(url=shared.url, namespace=namespace)
    assert asked(service._list("app", None), sdk).requests == 1
    for number in range(6):
        user = "ann" if number % 2 else "bob"
        state = {"own": number, "app:a": number, "user:u": number}
        await service.create_session(app_name="app", user_id=user, state=state)
    of_app = {"app:a": 5}
    cases: list[tuple[str | None, int, list[int]]] = [("ann", 3, [1, 3, 5]), (None, 4, [0, 1, 2, 3, 4, 5])]
    of_user = {"ann": 5, "bob": 4}
    for whose, requests, owns in cases:
        found = await asyncio.to_thread(asked, service._list("app", whose), sdk)
        assert found.requests == requests
        assert sorted(one.state["own"] for one in found.result) == owns
        for one in found.result:
            assert one.state == {"own": one.state["own"], "user:u": of_user[one.user_id], **of_app}
    await service.aclose()


async def test_windows_of_ten_thousand_events_are_read_from_the_end(
    shared: BackgroundServer, namespace: str, sdk: Client
) -> None:
    service = DurableSessionService(url=shared.url, namespace=namespace)
    key: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "long"}
    await service.create_session(**key)
    session = sdk.session(f"{namespace}:app:ann:long")
    form = {"type": "adk.event", "raw_format": "adk.event/1"}
    stored = [{**form, "raw": event(n).model_dump(mode="json", by_alias=True)} for n in range(10_000)]
    for first in range(0, 10_000, 1_000):
        session.append(stored[first : first + 1_000])
    config = GetSessionConfig(num_recent_events=3)
    found = await service.get_session(**key, config=config)
    assert found is not None
    assert seen(found)[3] == [f"message {number}" for number in (9_997, 9_998, 9_999)]
    await service.append_event(found, event(10_000, own=1))
    whole = await service.get_session(**key, config=GetSessionConfig(after_timestamp=1_000.0 + 9_999))
    assert whole is not None
    assert seen(whole)[3] == ["message 9999", "message 10000"]
    await service.aclose()
