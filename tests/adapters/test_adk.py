"""Sessions of ADK beside those of its service in memory, and what that cannot show."""

import asyncio
import itertools
from random import Random
from typing import Any

import pytest

from durable_sessions.testing import BackgroundServer
from tests.adapters import upstream

upstream.needed("google-adk")

from google.adk.errors.already_exists_error import AlreadyExistsError  # noqa: E402
from google.adk.events.event import Event  # noqa: E402
from google.adk.events.event_actions import EventActions  # noqa: E402
from google.adk.sessions.base_session_service import GetSessionConfig  # noqa: E402
from google.adk.sessions.in_memory_session_service import InMemorySessionService  # noqa: E402
from google.genai.types import Content, Part  # noqa: E402

from durable_sessions.adapters.adk import DurableSessionService, StaleSessionError  # noqa: E402

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
