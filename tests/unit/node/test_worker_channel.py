"""The channel between a worker and its supervisor: pieces, messages, and either end going away."""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator

import pytest

from durable_sessions.node.worker_channel import DRAINED, FINISH, READY, WorkerChannel, framed

pytestmark = pytest.mark.anyio


class _Input:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, WorkerChannel]]:
    """The supervisor's end, and the channel of a worker that has the other end as standard input."""
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(sys, "stdin", _Input(theirs.fileno()))
    with ours, theirs:
        yield ours, WorkerChannel()


def test_the_start_arrives_in_pieces_and_nothing_behind_it_is_taken(
    pair: tuple[socket.socket, WorkerChannel], monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor, worker = pair
    start = bytes(range(256)) * 4
    supervisor.sendall(framed(start) + FINISH)
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: read(descriptor, min(size, 100)))
    assert worker.start() == start

    async def finished() -> None:
        worker.listen(lambda: pytest.fail("the supervisor is there"))
        await worker.drained(3_600)

    asyncio.run(finished())  # what follows the start was not read with it
    assert supervisor.recv(16) == DRAINED


@pytest.mark.parametrize("sent", [b"", framed(b"start")[:3], framed(b"start")[:-1]])
def test_a_supervisor_that_dies_before_the_start_is_complete(
    pair: tuple[socket.socket, WorkerChannel], sent: bytes
) -> None:
    supervisor, worker = pair
    supervisor.sendall(sent)
    supervisor.close()
    with pytest.raises(EOFError):
        worker.start()


async def test_a_worker_ends_only_when_the_supervisor_says_that_all_have_drained(
    pair: tuple[socket.socket, WorkerChannel],
) -> None:
    supervisor, worker = pair
    worker.listen(lambda: pytest.fail("the supervisor is there"))
    worker.tell_ready()
    draining = asyncio.create_task(worker.drained(30))
    loop = asyncio.get_running_loop()
    supervisor.setblocking(False)
    said = b""
    while said != READY + DRAINED:
        said += await loop.sock_recv(supervisor, 16)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not draining.done()
    await loop.sock_sendall(supervisor, FINISH)
    await draining


async def test_a_worker_whose_supervisor_is_gone_is_told_once_and_waits_for_nobody(
    pair: tuple[socket.socket, WorkerChannel],
) -> None:
    supervisor, worker = pair
    told: list[None] = []
    gone = asyncio.Event()

    def note() -> None:
        told.append(None)
        gone.set()

    worker.listen(note)
    supervisor.close()
    await gone.wait()
    async with asyncio.timeout(300):
        await worker.drained(3_600)  # what it tells cannot be sent, and nobody answers
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(told) == 1


async def test_a_silent_supervisor_is_not_waited_for_without_end(
    pair: tuple[socket.socket, WorkerChannel],
) -> None:
    _, worker = pair
    worker.listen(lambda: pytest.fail("the supervisor is there"))
    await worker.drained(0.01)
