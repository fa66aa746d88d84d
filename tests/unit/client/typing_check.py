"""Only the type checker reads this: what a program that uses the client sees."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, assert_type

from durable_sessions import AsyncClient, Client
from durable_sessions.client import (
    Appended,
    Artifact,
    AskedQuestion,
    AsyncPending,
    AsyncSession,
    AsyncWriter,
    Event,
    Pending,
    Replay,
    SearchPage,
    SearchResults,
    Session,
    SessionInfo,
    Work,
    WorkCall,
    Writer,
)


def sync_program() -> None:
    with Client("http://127.0.0.1:4437", api_key=None, timeout=3, retries=1) as client:
        assert_type(client, Client)
        session = client.session("s")
        assert_type(session, Session)
        assert_type(client.sessions.create(title="t", metadata={"a": 1}), Session)
        assert_type(client.sessions.get("s"), SessionInfo)
        assert_type(client.sessions.list(q="x", lifecycle=["open"]), Iterator[SessionInfo])
        assert_type(session.append({"type": "a"}), Appended)
        assert_type(session.append([{"type": "a"}], if_match="x").next_offset, str)
        assert_type(session.events(order="desc"), Iterator[Event])
        assert_type(session.tail(offset="now"), Generator[Event, None, None])
        assert_type(session.fork(at=3), Session)
        assert_type(session.update(title=None), SessionInfo)
        assert_type(session.search("q"), SearchPage)
        assert_type(client.search("q"), SearchResults)
        assert_type(session.event("e")["content"], Any)
        assert_type(session.event("e").created_at, datetime)
        assert_type(client.artifacts.put(Path("f")), Artifact)
        assert_type(client.artifacts.get("d"), bytes)
        with session.writer() as writer:
            assert_type(writer, Writer)
            assert_type(writer.append({"type": "a"}), Pending)
            assert_type(writer.append({"type": "a"}).result(), Appended)
        with client.wake("s") as work, work.tool("edit", {}, effect="none") as call:
            assert_type(work, Work)
            assert_type(call, WorkCall)
            assert_type(call.run(str, 3), str)
            assert_type(work.ask("Deploy?"), AskedQuestion)
            assert_type(session.decide(work.ask("Deploy?"), "approve", "fine"), Appended)
        assert_type(session.replay(), Replay)
        work.tool("edit", {}, effect="maybe")  # type: ignore[arg-type]
        session.events(order="up")  # type: ignore[arg-type]
        session.append("text")  # type: ignore[arg-type]


async def async_program() -> None:
    async with AsyncClient() as client:
        assert_type(client, AsyncClient)
        session = client.session("s")
        assert_type(session, AsyncSession)
        assert_type(await client.sessions.create(), AsyncSession)
        assert_type(client.sessions.list(), AsyncIterator[SessionInfo])
        assert_type(await session.append({"type": "a"}), Appended)
        assert_type(session.tail(), AsyncGenerator[Event, None])
        assert_type(session.events(), AsyncIterator[Event])
        assert_type(await client.artifacts.get("d"), bytes)
        async with session.writer() as writer:
            assert_type(writer, AsyncWriter)
            pending = await writer.append({"type": "a"})
            assert_type(pending, AsyncPending)
            assert_type(await pending, Appended)
