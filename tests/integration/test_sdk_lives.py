"""The client beside sessions that come and go under one id: two lives are never mixed."""

import asyncio

import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client import errors
from durable_sessions.testing import BackgroundServer, LocalServer


def replace(url: str, session: str = "s") -> None:
    """Delete a session and give its id to another, as somebody else would."""
    with Client(url) as other:
        other.session(session).delete()
        other.session(session).append({"type": "new"})


def test_no_call_is_served_by_another_life(sdk: Client, running: BackgroundServer) -> None:
    session = sdk.session("s")
    session.append([{"type": "old"}, {"type": "old"}])
    reading = session.events(limit=2)
    assert next(reading).type == "old"
    replace(running.url)
    for call in (
        lambda: session.append({"type": "late"}),
        lambda: session.append({"type": "late"}, if_match="0000000000000000_0000000000000001"),
        lambda: list(session.events()),
        lambda: list(session.events(tail=1)),
        lambda: next(session.tail()),
        lambda: session.event("sevt_1"),
        lambda: session.search("new"),
        session.info,
        lambda: session.update(title="late"),
        session.fork,
        session.close,
        session.archive,
        session.delete,
    ):
        with pytest.raises((errors.SessionReplacedError, errors.PreconditionFailedError)):
            call()
    now = sdk.session("s")
    assert [event.type for event in now.events()] == ["new"]
    assert (now.info().lifecycle, now.info().title) == ("active", None)
    now.append({"type": "next"})
    assert now.incarnation != session.incarnation


def test_a_late_writer_does_not_raise_the_dead(sdk: Client, running: BackgroundServer) -> None:
    session = sdk.session("s")
    session.append({"type": "old"})
    with Client(running.url) as other:
        other.session("s").delete()
    with pytest.raises(errors.SessionReplacedError):
        session.append({"type": "late"})
    writer = session.writer()
    pending = writer.append({"type": "late"})
    with pytest.raises(errors.SessionReplacedError):
        pending.result(60)
    with pytest.raises(errors.SessionReplacedError):
        writer.close()
    with pytest.raises(errors.NotFoundError):
        sdk.sessions.get("s")
    sdk.session("s").append({"type": "new"})
    assert [event.type for event in sdk.session("s").events()] == ["new"]


def test_a_walk_through_pages_stays_in_one_life(sdk: Client, running: BackgroundServer) -> None:
    session = sdk.session("s")
    session.append([{"type": "old"} for _ in range(1_000)])
    session.append({"type": "old"})
    reading = sdk.session("s").events()
    assert next(reading).type == "old"
    replace(running.url)
    with pytest.raises(errors.SessionReplacedError):
        list(reading)


def test_who_deletes_a_session_can_begin_anew(sdk: Client) -> None:
    session = sdk.session("s")
    session.append({"type": "old"})
    session.delete()
    session.append({"type": "new"})
    sdk.session("s").append({"type": "next"})
    assert [event.type for event in session.events()] == ["new", "next"]
    made = sdk.sessions.create("s")
    assert made.incarnation == sdk.sessions.get("s").incarnation


@pytest.mark.anyio
async def test_the_async_client_does_the_same(server: LocalServer) -> None:
    async with AsyncClient(server.url) as sdk, AsyncClient(server.url) as other:
        session = sdk.session("s")
        await session.append({"type": "old"})
        tail = session.tail()
        assert (await anext(tail)).type == "old"
        await other.session("s").delete()
        await other.session("s").append({"type": "new"})
        with pytest.raises(errors.NotFoundError):
            await anext(tail)
        with pytest.raises(errors.SessionReplacedError):
            await session.append({"type": "late"})
        with pytest.raises(errors.SessionReplacedError):
            await session.info()
        async with session.writer() as writer:
            pending = await writer.append({"type": "late"})
            with pytest.raises(errors.SessionReplacedError):
                await pending
            with pytest.raises(errors.SessionReplacedError):
                await writer.flush()
        found = [event.type async for event in sdk.session("s").events()]
        assert found == ["new"]


@pytest.mark.anyio
@pytest.mark.parametrize("end", ["archive", "close"])
async def test_a_tail_ends_when_its_session_does(server: LocalServer, end: str) -> None:
    async with AsyncClient(server.url) as sdk:
        session = sdk.session("s")
        await session.append({"type": "a"})
        seen: list[str | None] = []

        async def follow() -> None:
            seen.extend([event.type async for event in session.tail()])

        following = asyncio.create_task(follow())
        await getattr(session, end)()
        await asyncio.wait_for(following, 60)
        assert seen == ["a", "session.status_terminated"][: 2 if end == "archive" else 1]
        again = [event.type async for event in session.tail()]
        assert again == seen, "who comes later finds it ended"


def test_a_program_with_ids_may_run_twice_even_if_it_closes_its_session(sdk: Client) -> None:
    for attempt in range(2):
        session = sdk.session("s")
        appended = session.append([{"type": "a", "id": "1"}, {"type": "b", "id": "2"}])
        assert appended.repeated == ((0, 1) if attempt else ())
        assert not appended.differ
        session.close()
    other = sdk.session("s").append({"type": "other", "id": "1"})
    assert (other.repeated, other.differ) == ((0,), (0,))
    assert [event.type for event in sdk.session("s").events()] == ["a", "b"]
