"""The client through a proxy that cuts connections at random: no gap, no repeat, order kept.

``SOAK_SECONDS`` sets how long; without it, a few seconds. ``patient`` waits for every
answer, ``again`` does not and appends the same once more, ``fickle`` sometimes goes on with something else
instead, ``batched`` is a writer in the background.
"""

import asyncio
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client import Appended, AsyncPending, AsyncSession, Pending, Session, retry
from durable_sessions.client.errors import ClientError
from durable_sessions.testing import local_server
from tests.support.cutting import CuttingProxy

pytestmark = pytest.mark.anyio

SECONDS = float(os.environ.get("SOAK_SECONDS", "5"))
PATIENT = 1_000
SESSION = "cut"
WAITING_SECONDS_MAX = 120.0


@dataclass
class Sent:
    """What one writer has tried to append, in order, and what of it was acknowledged."""

    name: str
    numbers: list[int] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    replayed: int = 0

    def event(self) -> dict[str, object]:
        """Return a new event."""
        self.numbers.append(len(self.numbers))
        return {"type": f"{self.name}.note", "n": self.numbers[-1], "pad": "x" * random.randrange(300)}

    def note(self, event: dict[str, object], appended: Appended) -> None:
        """Take note that an event was acknowledged."""
        number = event["n"]
        assert isinstance(number, int)
        assert number not in self.acknowledged
        self.acknowledged.add(number)
        self.replayed += appended.replayed


@dataclass
class Run:
    """One run: who has sent what, and what the followers have seen."""

    url: str
    patient: Sent = field(default_factory=lambda: Sent("patient"))
    again: Sent = field(default_factory=lambda: Sent("again"))
    fickle: Sent = field(default_factory=lambda: Sent("fickle"))
    batched: Sent = field(default_factory=lambda: Sent("batched"))
    followed: list[str] = field(default_factory=list)
    filtered: list[str] = field(default_factory=list)
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def goes_on(self) -> bool:
        """Say whether the time is not up."""
        return time.monotonic() < self.until

    async def check(self, url: str) -> None:
        """Compare what everybody has sent and seen with what is stored."""
        async with AsyncClient(url) as client:
            stored = [event async for event in client.session(SESSION).events()]
        assert [event.position for event in stored] == list(range(len(stored)))
        for sent in (self.patient, self.again, self.fickle, self.batched):
            found = [event["n"] for event in stored if event.type == f"{sent.name}.note"]
            assert found == sorted(set(found)), f"{sent.name}: repeated or out of order"
            assert sent.acknowledged <= set(found), f"{sent.name}: acknowledged and lost"
            assert sent.acknowledged, f"{sent.name}: nothing was acknowledged"
            if sent is not self.fickle:
                assert found == sent.numbers, f"{sent.name}: a gap"
        assert self.followed == [event.id for event in stored]
        assert self.filtered == [event.id for event in stored if event.type.startswith("again.")]


@asynccontextmanager
async def a_run(tmp_path: Path) -> AsyncIterator[Run]:
    """Give a run through a proxy, and check it when it is over."""
    async with local_server(tmp_path / "data") as server, CuttingProxy(port_of(server.url)) as proxy:
        run = Run(proxy.url)
        async with asyncio.timeout(SECONDS + WAITING_SECONDS_MAX):
            yield run
        await run.check(server.url)
        assert sum(proxy.cuts.values()) > SECONDS
        assert set(proxy.cuts) == {"request", "answer", "swallowed", "late"}


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PAUSE_SECONDS_MAX", 0.02)


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def never() -> bool:
    return False


def sometimes() -> bool:
    return random.random() < 0.3


async def test_async(tmp_path: Path) -> None:
    async with (
        a_run(tmp_path) as run,
        AsyncClient(run.url, retries=PATIENT) as client,
        AsyncClient(run.url, retries=0) as impatient,
        AsyncClient(run.url, retries=0) as fickle,
        asyncio.TaskGroup() as followers,
    ):
        session = client.session(SESSION)
        await session.append({"type": "first"})
        followers.create_task(afollow(session, run.followed))
        followers.create_task(afollow(session, run.filtered, "again.*"))
        async with asyncio.TaskGroup() as writers:
            writers.create_task(apatient(client.session(SESSION), run))
            writers.create_task(aimpatient(impatient.session(SESSION), run, run.again, never))
            writers.create_task(aimpatient(fickle.session(SESSION), run, run.fickle, sometimes))
            writers.create_task(abatched(session, run))
        await session.close()


async def afollow(session: AsyncSession, seen: list[str], types: str | None = None) -> None:
    seen.extend([event.id async for event in session.tail(types=types)])


async def apatient(session: AsyncSession, run: Run) -> None:
    while run.goes_on():
        event = run.patient.event()
        run.patient.note(event, await session.append(event))


async def aimpatient(session: AsyncSession, run: Run, sent: Sent, gives_up: Callable[[], bool]) -> None:
    while run.goes_on():
        event = sent.event()
        while True:
            try:
                sent.note(event, await session.append(event))
            except ClientError:
                if gives_up():
                    break
            else:
                break


async def abatched(session: AsyncSession, run: Run) -> None:
    sent: list[tuple[dict[str, object], AsyncPending]] = []
    async with session.writer(batch_events=20, linger_seconds=0.002, queue_events=50) as writer:
        while run.goes_on():
            event = run.batched.event()
            sent.append((event, await writer.append(event)))
    for event, pending in sent:
        run.batched.note(event, await pending)


async def test_artifacts_are_fetched_in_as_many_parts_as_it_takes(tmp_path: Path) -> None:
    data = random.randbytes(2_000_000)
    async with local_server(tmp_path / "data") as server:
        async with AsyncClient(server.url) as client:
            digest = (await client.artifacts.put(data)).sha256
        async with CuttingProxy(port_of(server.url)) as proxy:
            async with AsyncClient(proxy.url, retries=PATIENT) as client:
                assert await client.artifacts.get(digest) == data
            with Client(proxy.url, retries=PATIENT) as client:
                assert await asyncio.to_thread(client.artifacts.get, digest) == data
            assert proxy.cuts["answer"] > 2


async def test_sync(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await asyncio.to_thread(in_threads, run)


def in_threads(run: Run) -> None:
    failures: list[BaseException] = []

    def thread(work: Callable[..., None], *arguments: object) -> threading.Thread:
        def guarded() -> None:
            try:
                work(*arguments)
            except BaseException as error:
                failures.append(error)

        started = threading.Thread(target=guarded, daemon=True)
        started.start()
        return started

    with Client(run.url, retries=PATIENT) as client, Client(run.url, retries=0) as impatient:
        session = client.session(SESSION)
        session.append({"type": "first"})
        followers = [
            thread(follow, session, run.followed),
            thread(follow, session, run.filtered, "again.*"),
        ]
        with Client(run.url, retries=0) as other:
            writers = [
                thread(patient, client.session(SESSION), run),
                thread(repeat, impatient.session(SESSION), run, run.again, never),
                thread(repeat, other.session(SESSION), run, run.fickle, sometimes),
                thread(batched, session, run),
            ]
            for writer in writers:
                writer.join()
        session.close()
        for follower in followers:
            follower.join(WAITING_SECONDS_MAX)
            assert not follower.is_alive()
    if failures:
        raise failures[0]


def follow(session: Session, seen: list[str], types: str | None = None) -> None:
    seen.extend(event.id for event in session.tail(types=types))


def patient(session: Session, run: Run) -> None:
    while run.goes_on():
        event = run.patient.event()
        run.patient.note(event, session.append(event))


def repeat(session: Session, run: Run, sent: Sent, gives_up: Callable[[], bool]) -> None:
    while run.goes_on():
        event = sent.event()
        while True:
            try:
                sent.note(event, session.append(event))
            except ClientError:
                if gives_up():
                    break
            else:
                break


def batched(session: Session, run: Run) -> None:
    sent: list[tuple[dict[str, object], Pending]] = []
    with session.writer(batch_events=20, linger_seconds=0.002, queue_events=50) as writer:
        while run.goes_on():
            event = run.batched.event()
            sent.append((event, writer.append(event)))
    for event, pending in sent:
        run.batched.note(event, pending.result())
