"""``kill -9`` under a load on sessions; a checker judges everything that was asked and answered."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.testing.checker import assert_correct
from durable_sessions.testing.history import (
    Answered,
    AppendAcknowledged,
    AppendOperation,
    CallRefused,
    CreateOperation,
    DeleteOperation,
    Done,
    Outcome,
    ProducerNumbers,
    ReadOperation,
    Recorder,
    Unknown,
)
from tests.support.cut_connections import CutTransport
from tests.support.process import ServerProcess
from tests.support.sessions import at, frames, position
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

ROUNDS = 2
SESSIONS = ["s0", "s1", "s2"]
WAYS = ["producer", "key", "ids"]
RETRY_SECONDS = 0.02


class Face:
    """The sessions face as one client sees it; all that it asks for is written down."""

    def __init__(self, name: str, api: httpx2.AsyncClient, recorder: Recorder) -> None:
        self.name = name
        self._api = api
        self._recorder = recorder

    async def record(self, session: str, request: Any, send: "Send") -> Outcome:
        async def perform() -> Outcome:
            try:
                answer = await self._api.request(send.method, f"/sessions/{session}{send.path}", **send.more)
            except httpx2.TransportError:
                return Unknown()
            return outcome_of(request, answer)

        return await self._recorder.record(self.name, session, request, perform)

    async def create(self, session: str, source: str | None = None, anchor: int = 0) -> Outcome:
        headers = {}
        if source is not None:
            headers = {"Stream-Forked-From": f"/v1/sessions/{source}", "Stream-Fork-Offset": at(anchor)}
        return await self.record(session, CreateOperation(source, anchor), Send("PUT", headers=headers))

    async def append(self, session: str, request: AppendOperation, way: str) -> Outcome:
        """Append in a way that makes it safe to repeat; the producer in the history stands for each way."""
        events: list[dict[str, Any]] = [{"type": "note", "value": value} for value in request.values]
        headers = {"Prefer": "return=representation"}
        producer = request.producer
        assert producer is not None
        if way == "key":
            headers["Idempotency-Key"] = producer.id
        elif way == "ids":
            events = [{**event, "id": event["value"]} for event in events]
        else:
            headers["Producer-Id"] = producer.id
            headers["Producer-Epoch"] = str(producer.epoch)
            headers["Producer-Seq"] = str(producer.seq)
        if request.close:
            headers["Stream-Closed"] = "true"
        return await self.record(session, request, Send("POST", "/events", headers=headers, json=events))

    async def read(self, session: str, offset: int, limit: int = 1000) -> Outcome:
        send = Send("GET", "/events", params={"from": str(offset), "limit": str(limit)})
        return await self.record(session, ReadOperation(offset), send)

    async def delete(self, session: str) -> Outcome:
        return await self.record(session, DeleteOperation(), Send("DELETE"))

    async def follow(self, session: str, first: int) -> int:
        """Follow a session until the connection breaks; return the position to go on from."""
        following = first
        path = f"/sessions/{session}/events/stream"
        async with self._api.stream("GET", path, params={"offset": at(first)}) as answer:
            if answer.status_code != 200:
                return following
            stream = frames(answer)
            while True:
                event = await self._next(session, following, stream)
                if not isinstance(event, Answered):
                    return following
                following = event.next

    async def _next(self, session: str, following: int, stream: AsyncIterator[Any]) -> Outcome:
        async def perform() -> Outcome:
            try:
                event = (await anext(stream)).json()
            except (StopAsyncIteration, httpx2.TransportError):
                return Unknown()
            assert position(event["offset"]) == following, "frames follow each other without a gap"
            return Answered((event["value"],), following + 1)

        return await self._recorder.record(self.name, session, ReadOperation(following), perform)


class Send:
    """What goes over the wire for a request."""

    def __init__(self, method: str, path: str = "", **more: Any) -> None:
        self.method, self.path, self.more = method, path, more


def outcome_of(request: Any, answer: httpx2.Response) -> Outcome:
    """Return what an answer means for the history."""
    if answer.status_code >= 500:
        code = answer.json()["error"]["details"]["error_code"]
        return CallRefused(code) if code in ("overloaded", "shutting_down") else Unknown()
    if answer.status_code >= 400:
        code = answer.json()["error"]["details"]["error_code"]
        return CallRefused("stream_not_found" if code == "session_not_found" else code)
    if isinstance(request, AppendOperation):
        if answer.status_code == 200:
            last = answer.json()["data"][-1]
            return AppendAcknowledged(position(last["offset"]) + 1, "idempotent-replayed" in answer.headers)
        return AppendAcknowledged(position(answer.headers["stream-next-offset"]), duplicate=True)
    if isinstance(request, ReadOperation):
        page = answer.json()
        values = tuple(event["value"] for event in page["data"])
        closed = answer.headers.get("stream-closed") == "true"
        return Answered(values, position(page["next_offset"]), page["up_to_date"], closed)
    return Done()


@dataclass
class Writer:
    """Appends batches to one session, and repeats each until it is known how it ended."""

    face: Face
    session: str
    way: str
    chance: random.Random
    sent: int = 0
    known: int = 0

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self.one()

    async def one(self, *, close: bool = False) -> None:
        name = f"{self.face.name}-{self.sent}"
        values = tuple(f"{name}.{step}" for step in range(self.chance.randint(1, 4)))
        # What is repeated under a key or by its ids is a producer of its own that appends once.
        producer = (
            ProducerNumbers(self.face.name, 0, self.sent)
            if self.way == "producer"
            else ProducerNumbers(name, 0, 0)
        )
        request = AppendOperation(values, producer, close)
        self.sent += 1
        while isinstance(await self.face.append(self.session, request, self.way), Unknown | CallRefused):
            await asyncio.sleep(RETRY_SECONDS)
        self.known += 1


@dataclass
class Reader:
    """Reads pages in turn with a tail, from random places."""

    face: Face
    session: str
    chance: random.Random
    seen: int = 0

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            start = self.chance.randint(0, self.seen)
            outcome = await self.face.read(self.session, start, self.chance.choice([3, 50, 1000]))
            if isinstance(outcome, Answered):
                self.seen = max(self.seen, outcome.next)
            await asyncio.sleep(RETRY_SECONDS)


@dataclass
class Follower:
    """Follows a session, and comes back to where it was whenever the connection breaks."""

    face: Face
    session: str
    at: int = 0

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                self.at = await self.face.follow(self.session, self.at)
            except httpx2.TransportError:
                pass
            await asyncio.sleep(RETRY_SECONDS)


@dataclass
class Forker:
    """Forks sessions at what it has read of them, writes to the forks, and deletes every other one."""

    face: Face
    chance: random.Random
    left: list[str] = field(default_factory=list)
    made: int = 0

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            source = self.chance.choice(SESSIONS)
            shown = await self.face.read(source, 0, 20)
            if isinstance(shown, Answered) and shown.values:
                await self._fork(source, self.chance.randint(1, shown.next))
            await asyncio.sleep(5 * RETRY_SECONDS)

    async def _fork(self, source: str, anchor: int) -> None:
        name = f"f{self.made}"
        self.made += 1
        while isinstance(await self.face.create(name, source, anchor), Unknown):
            await asyncio.sleep(RETRY_SECONDS)
        request = AppendOperation((f"{name}-own",), ProducerNumbers(name, 0, 0))
        while isinstance(await self.face.append(name, request, "ids"), Unknown):
            await asyncio.sleep(RETRY_SECONDS)
        if self.made % 2:
            await self.face.delete(name)
        else:
            self.left.append(name)


async def test_what_a_session_has_answered_stays_true_through_kill_9(tmp_path: Path) -> None:
    chance = random.Random(144)
    recorder = Recorder(time.monotonic)
    options = ("--flush-seconds", "0.5", "--memory-bytes", "64KiB")
    with ServerProcess(tmp_path / "data", *options) as server:
        limits = httpx2.Limits(max_connections=100)
        async with httpx2.AsyncClient(
            base_url=server.url + "/v1", timeout=PATIENCE_SECONDS, transport=CutTransport(limits=limits)
        ) as api:

            def face(name: str) -> Face:
                return Face(name, api, recorder)

            for session in SESSIONS:
                assert await face("setup").create(session) == Done()
            writers = [
                Writer(face(f"{way}{number}-{session}"), session, way, random.Random(chance.random()))
                for session in SESSIONS
                for way in WAYS
                for number in range(2)
            ]
            readers = [Reader(face(f"r-{session}"), session, random.Random(7)) for session in SESSIONS]
            followers = [Follower(face(f"t-{session}"), session) for session in SESSIONS]
            forker = Forker(face("forker"), random.Random(11))
            await run_through_kills(server, [*writers, *readers, forker], followers, chance)
            await writers[0].one(close=True)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await finish(face("judge"), [*SESSIONS, *forker.left])
    assert_correct(recorder.calls)
    assert sum(writer.known for writer in writers) > 100, "the load was real"
    assert all(follower.at > 20 for follower in followers)
    assert forker.left


async def run_through_kills(
    server: ServerProcess, clients: list[Any], followers: list[Follower], chance: random.Random
) -> None:
    stop = asyncio.Event()
    tasks = [asyncio.create_task(client.run(stop)) for client in clients]
    tails = [asyncio.create_task(follower.run(stop)) for follower in followers]
    for _ in range(ROUNDS):
        await asyncio.sleep(0.4 + chance.random())
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
    await asyncio.sleep(0.3)
    stop.set()
    await asyncio.gather(*tasks)
    for tail in tails:
        tail.cancel()
    await asyncio.gather(*tails, return_exceptions=True)


async def finish(face: Face, sessions: list[str]) -> None:
    """Read every session from its first event to its end."""
    for session in sessions:
        offset, up_to_date = 0, False
        while not up_to_date:
            outcome = await face.read(session, offset)
            assert isinstance(outcome, Answered), outcome
            offset, up_to_date = outcome.next, outcome.up_to_date
