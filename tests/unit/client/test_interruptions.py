"""Calls that are cancelled, interrupted or timed out by the program: what it may do next."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client import AsyncSession, async_transport, errors
from tests.support.waiting import until
from tests.unit.client.stub import STORED, Stub, refusal

pytestmark = pytest.mark.anyio

A, B, C = {"type": "a"}, {"type": "b"}, {"type": "c"}
FOR_EVER = 3_600.0


class Gate(Stub):
    """A stub whose answers wait until the gate is open; what it was asked is seen before."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies)
        self.open = asyncio.Event()
        self.waiting = 0

    async def asked(self, request: httpx2.Request) -> httpx2.Response:
        """Answer when the gate is open."""
        self.waiting += 1
        try:
            if not self.open.is_set():
                await request.aread()
                self.requests.append(request)
                await self.open.wait()
                self.requests.pop()  # super() counts it
            return await super().asked(request)
        finally:
            self.waiting -= 1


@asynccontextmanager
async def gated(*replies: Any, retries: int = 0) -> AsyncIterator[tuple[Gate, AsyncClient]]:
    """Give a server that does not answer yet, and a client of it."""
    gate = Gate(*(replies or (STORED,)))
    async with gate.async_client(retries) as client:
        yield gate, client


async def cancelled(task: "asyncio.Task[Any]") -> None:
    """Cancel a task and wait until it has ended so."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@asynccontextmanager
async def after_a_cancelled_append() -> AsyncIterator[tuple[Gate, AsyncSession]]:
    """Give a session whose append of A was cancelled after it was sent, and a server that answers by now."""
    async with gated() as (gate, client):
        session = client.session("s")
        task = asyncio.create_task(session.append(A))
        await until(lambda: gate.waiting)
        await cancelled(task)
        gate.open.set()
        gate.requests.clear()
        yield gate, session


# Appends --------------------------------------------------------------------------------


async def test_an_append_that_was_cancelled_is_sent_again_under_its_number() -> None:
    async with after_a_cancelled_append() as (gate, session):
        await session.append(A)
        await session.append(B)
        assert gate.numbers() == [(0, 0), (0, 1)], "it may have been stored, so it is the same append"


async def test_another_append_after_a_cancelled_one_fences_it_off() -> None:
    async with after_a_cancelled_append() as (gate, session):
        await session.append(B)
        assert gate.numbers() == [(1, 0)], "the first cannot arrive behind this one any more"


async def test_an_append_cancelled_while_it_waits_for_its_turn_has_no_number() -> None:
    async with gated() as (gate, client):
        session = client.session("s")
        first = asyncio.create_task(session.append(A))
        await until(lambda: gate.waiting)
        second = asyncio.create_task(session.append(B))
        third = asyncio.create_task(session.append(C))
        await asyncio.sleep(0)
        await cancelled(second)
        gate.open.set()
        await first
        await third
        assert gate.numbers() == [(0, 0), (0, 1)]
        assert [request.content for request in gate.requests] == [b'[{"type":"a"}]', b'[{"type":"c"}]']


async def test_appends_of_many_tasks_go_one_after_the_other() -> None:
    async with gated() as (gate, client):
        tasks = [asyncio.create_task(client.session("s").append({"type": str(n)})) for n in range(10)]
        other = asyncio.create_task(client.session("t").append(A))
        await until(lambda: gate.waiting == 2)
        await asyncio.sleep(0)
        assert gate.waiting == 2, "one for each session"
        gate.open.set()
        await asyncio.gather(*tasks, other)
        mine = [request for request in gate.requests if request.url.path == "/v1/sessions/s/events"]
        assert [int(request.headers["producer-seq"]) for request in mine] == list(range(10))


async def test_an_append_that_runs_out_of_time_can_be_repeated() -> None:
    async with gated(retries=5) as (gate, client):
        session = client.session("s")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await session.append(A)
        gate.open.set()
        gate.requests.clear()
        assert (await session.append(A)).next_offset
        assert gate.numbers() == [(0, 0)]


async def test_a_pause_before_a_retry_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    paused = asyncio.Event()

    async def sleep(seconds: float) -> None:
        assert seconds == 20
        paused.set()
        await asyncio.Event().wait()

    stub = Stub(refusal(503, "overloaded", retry_after="20"), STORED)
    async with stub.async_client() as client:
        session = client.session("s")
        with monkeypatch.context() as patch:
            patch.setattr(async_transport, "asyncio", SimpleNamespace(sleep=sleep))
            task = asyncio.create_task(session.append(A))
            await paused.wait()
            await cancelled(task)
        await session.append(B)
    assert stub.numbers() == [(0, 0), (1, 0)], "a 503 may come from a proxy behind which it was stored"


def test_an_interrupted_append_is_sent_again_under_its_number() -> None:
    replies: list[Any] = [KeyboardInterrupt(), STORED, STORED]
    sent: list[httpx2.Request] = []

    def server(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        reply = replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return httpx2.Response(reply.status_code, headers=reply.headers)

    with Client("http://stub", transport=httpx2.MockTransport(server)) as client:
        session = client.session("s")
        with pytest.raises(KeyboardInterrupt):
            session.append(A)
        session.append(A)
        session.append(B)
    assert [request.headers["producer-seq"] for request in sent] == ["0", "0", "1"]
    assert {request.headers["producer-epoch"] for request in sent} == {"0"}


def test_threads_append_to_one_session_one_after_the_other() -> None:
    inside, overlapped = threading.Lock(), []

    def server(request: httpx2.Request) -> httpx2.Response:
        if not inside.acquire(blocking=False):
            overlapped.append(request)
            return httpx2.Response(500)
        try:
            numbers.append(int(request.headers["producer-seq"]))
            return httpx2.Response(204, headers=STORED.headers)
        finally:
            inside.release()

    numbers: list[int] = []
    with Client("http://stub", retries=0, transport=httpx2.MockTransport(server)) as client:
        start = threading.Barrier(4)

        def work() -> None:
            start.wait()
            for _ in range(25):
                client.session("s").append(A)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert numbers == list(range(100))
    assert not overlapped


# Writers --------------------------------------------------------------------------------


async def test_who_stops_waiting_for_an_event_does_not_stop_the_event() -> None:
    async with gated() as (gate, client):
        writer = client.session("s").writer(linger_seconds=0)
        pending = await writer.append(A)
        for wait in (pending.result, lambda: _awaited(pending)):
            task = asyncio.create_task(wait())
            await until(lambda: gate.waiting)
            await cancelled(task)
        assert not pending.done()
        gate.open.set()
        assert (await pending).next_offset
        await writer.close()


async def _awaited(pending: Any) -> Any:
    return await pending


async def test_a_cancelled_flush_leaves_the_writer_as_it_was() -> None:
    async with gated() as (gate, client):
        writer = client.session("s").writer(linger_seconds=FOR_EVER)
        await writer.append(A)
        flushing = asyncio.create_task(writer.flush())
        await until(lambda: gate.waiting)
        await cancelled(flushing)
        await writer.append(B)
        gate.open.set()
        await until(lambda: len(gate.requests) == 1 and not gate.waiting)
        assert writer._outbox.taken == 2
        await writer.flush()
        assert [request.content for request in gate.requests] == [b'[{"type":"a"}]', b'[{"type":"b"}]']
        await writer.close()


async def test_a_cancelled_close_still_sends_what_is_left() -> None:
    async with gated() as (gate, client):
        writer = client.session("s").writer(linger_seconds=FOR_EVER)
        pending = await writer.append(A)
        closing = asyncio.create_task(writer.close())
        await until(lambda: gate.waiting)
        await cancelled(closing)
        gate.open.set()
        assert (await pending).next_offset
        await writer.close()
        with pytest.raises(errors.WriterClosedError):
            await writer.append(B)


async def test_an_append_that_waits_for_room_can_be_cancelled() -> None:
    async with gated() as (gate, client):
        writer = client.session("s").writer(linger_seconds=0, queue_events=1)
        await writer.append(A)
        full = asyncio.create_task(writer.append(B))
        await until(lambda: gate.waiting)
        await asyncio.sleep(0)
        assert not full.done()
        await cancelled(full)
        gate.open.set()
        await writer.close()
        assert [request.content for request in gate.requests] == [b'[{"type":"a"}]']


async def test_events_that_wait_for_room_are_taken_in_turn() -> None:
    async with gated() as (gate, client):
        writer = client.session("s").writer(linger_seconds=0, batch_events=1, queue_events=2)
        tasks = [asyncio.create_task(writer.append({"type": str(n)})) for n in range(6)]
        await until(lambda: sum(task.done() for task in tasks) == 2)
        await until(lambda: gate.waiting)
        gate.open.set()
        for task in tasks:
            await (await task)
        await writer.close()
        assert [request.content for request in gate.requests] == [b'[{"type":"%d"}]' % n for n in range(6)]


def test_a_sync_flush_that_runs_out_of_time_can_be_repeated() -> None:
    may_answer = threading.Event()

    def server(request: httpx2.Request) -> httpx2.Response:
        may_answer.wait()
        return httpx2.Response(204, headers=STORED.headers)

    with Client("http://stub", transport=httpx2.MockTransport(server)) as client:
        writer = client.session("s").writer(linger_seconds=FOR_EVER)
        pending = writer.append(A)
        with pytest.raises(TimeoutError, match="Not all events are acknowledged yet"):
            writer.flush(timeout=0.01)
        with pytest.raises(TimeoutError, match="The event is not acknowledged yet"):
            pending.result(timeout=0)
        may_answer.set()
        writer.flush()
        assert pending.done()
        writer.close()


def test_a_sync_append_that_waits_for_room_goes_on_when_there_is_some() -> None:
    may_answer, sent = threading.Event(), []

    def server(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.content)
        may_answer.wait()
        return httpx2.Response(204, headers=STORED.headers)

    with Client("http://stub", transport=httpx2.MockTransport(server)) as client:
        writer = client.session("s").writer(linger_seconds=0, queue_events=1)
        writer.append(A)
        taken = threading.Event()

        def append() -> None:
            writer.append(B)
            taken.set()

        thread = threading.Thread(target=append)
        thread.start()
        assert not taken.wait(0.05)
        may_answer.set()
        thread.join()
        writer.close()
    assert sent == [b'[{"type":"a"}]', b'[{"type":"b"}]']
