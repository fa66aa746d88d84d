"""Writers of both clients: order, batches, what fails alone and what stops everything, and how they end."""

import json
from functools import partial
from typing import Any

import pytest

from durable_sessions.client import errors
from tests.unit.client.shells import Shell
from tests.unit.client.stub import STORED, Stub, refusal, said

pytestmark = pytest.mark.anyio

FOR_EVER = 3_600.0


def bad_event(index: int) -> Any:
    details = {"error_code": "invalid_event", "index": index}
    error = {"type": "some_error", "message": "No.", "details": details}
    return said(400, {"type": "error", "error": error})


def sent(stub: Stub) -> list[list[str]]:
    return [[event["type"] for event in json.loads(request.content)] for request in stub.requests]


class Writing:
    """A writer of one of the clients."""

    def __init__(self, shell: Shell, stub: Stub, **bounds: Any) -> None:
        self.shell = shell
        self.writer = shell.client(stub, retries=0).session("s").writer(**bounds)

    async def append(self, *names: str) -> list[Any]:
        return [await self.shell.run(partial(self.writer.append, {"type": one})) for one in names]

    async def flush(self) -> None:
        await self.shell.run(self.writer.flush)

    async def close(self) -> None:
        await self.shell.run(self.writer.close)

    async def result(self, pending: Any) -> Any:
        return await self.shell.run(pending.result)


async def test_events_wait_for_each_other_and_go_in_order(shell: Shell) -> None:
    stub = Stub(STORED)
    writing = Writing(shell, stub, linger_seconds=FOR_EVER)
    pending = await writing.append("a", "b", "c")
    assert not any(one.done() for one in pending), "nothing is sent before a batch is full or somebody asks"
    await writing.flush()
    assert sent(stub) == [["a", "b", "c"]]
    assert all(one.done() for one in pending)
    assert (await writing.result(pending[0])).next_offset == (await writing.result(pending[2])).next_offset
    await writing.close()


async def test_a_full_batch_waits_for_nobody(shell: Shell) -> None:
    stub = Stub(STORED)
    writing = Writing(shell, stub, batch_events=2, linger_seconds=FOR_EVER)
    first, *_ = await writing.append("a", "b", "c")
    await writing.result(first)
    assert sent(stub)[0] == ["a", "b"]
    await writing.close()
    assert sent(stub) == [["a", "b"], ["c"]]
    assert stub.numbers() == [(0, 0), (0, 1)]


async def test_closing_sends_what_is_left_and_can_be_repeated(shell: Shell) -> None:
    stub = Stub(STORED)
    writing = Writing(shell, stub, linger_seconds=FOR_EVER)
    await writing.append("a")
    await writing.close()
    await writing.close()
    assert sent(stub) == [["a"]]
    with pytest.raises(errors.WriterClosedError, match="Make another one"):
        await writing.append("b")


async def test_a_writer_that_was_never_used_sends_nothing(shell: Shell) -> None:
    stub = Stub(STORED)
    writing = Writing(shell, stub)
    await writing.flush()
    await writing.close()
    assert stub.requests == []


async def test_a_bad_event_fails_alone_and_is_told_once(shell: Shell) -> None:
    stub = Stub(bad_event(1), STORED)
    writing = Writing(shell, stub, linger_seconds=FOR_EVER)
    first, bad, last = await writing.append("a", "bad", "c")
    with pytest.raises(errors.BadRequestError):
        await writing.flush()
    await writing.flush()
    assert sent(stub) == [["a", "bad", "c"], ["a", "c"]]
    assert await writing.result(first) == await writing.result(last)
    with pytest.raises(errors.BadRequestError):
        await writing.result(bad)
    await writing.close()


async def test_any_other_failure_stops_the_writer(shell: Shell) -> None:
    stub = Stub(refusal(409, "session_closed"), STORED)
    writing = Writing(shell, stub, linger_seconds=FOR_EVER)
    first, second = await writing.append("a", "b")
    with pytest.raises(errors.ConflictError):
        await writing.flush()
    for pending in (first, second):
        with pytest.raises(errors.ConflictError):
            await writing.result(pending)
    with pytest.raises(errors.ConflictError):
        await writing.append("c")
    await writing.close()
    assert len(stub.requests) == 1, "nothing is written behind a hole"


async def test_what_is_no_event_is_refused_before_it_is_taken(shell: Shell) -> None:
    stub = Stub(STORED)
    writing = Writing(shell, stub)
    with pytest.raises(TypeError, match="An event is a mapping"):
        await shell.run(lambda: writing.writer.append(["type"]))
    await writing.close()
    assert stub.requests == []


async def test_an_error_of_the_block_is_kept_and_that_of_the_writer_noted(shell: Shell) -> None:
    writing = Writing(shell, Stub(refusal(409, "session_closed")), linger_seconds=FOR_EVER)
    with pytest.raises(KeyError) as caught:
        await _leave(writing, KeyError("of the program"))
    assert caught.value.__notes__[0].startswith("The writer has failed as well: ")
    writing = Writing(shell, Stub(refusal(409, "session_closed")), linger_seconds=FOR_EVER)
    with pytest.raises(errors.ConflictError):
        await _leave(writing, None)


async def _leave(writing: Writing, error: Exception | None) -> None:
    """Use a writer in a block that ends with an error, or without one."""
    if writing.shell.is_async:
        async with writing.writer:
            await writing.append("a")
            if error is not None:
                raise error
    else:
        with writing.writer:
            await writing.append("a")
            if error is not None:
                raise error


def test_waiting_for_a_sync_writer_can_end() -> None:
    session = Stub(STORED).client().session("s")
    with session.writer(linger_seconds=FOR_EVER) as writer:
        pending = writer.append({"type": "a"})
        with pytest.raises(TimeoutError, match="not acknowledged yet"):
            pending.result(timeout=0)
    assert pending.result(timeout=0).next_offset
