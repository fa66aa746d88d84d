"""A function that waits in a thread of its own: its result, its error, and what nobody waits for any more."""

import asyncio
import threading

import pytest

from durable_sessions.client.threads import in_thread

PATIENCE_SECONDS = 60.0


class Gate:
    """A function that returns when it may, and notes what was unwanted."""

    def __init__(self) -> None:
        self.entered, self.open, self.thrown_away = threading.Event(), threading.Event(), threading.Event()
        self.unwanted: list[str] = []

    def __call__(self, what: str) -> str:
        self.entered.set()
        assert self.open.wait(PATIENCE_SECONDS)
        if what == "fails":
            raise OSError("it failed")
        return what

    def throw_away(self, what: str) -> None:
        self.unwanted.append(what)
        self.thrown_away.set()


@pytest.mark.anyio
async def test_it_returns_what_the_function_does_and_raises_what_it_raises() -> None:
    gate = Gate()
    gate.open.set()
    assert await in_thread(gate, "made", unwanted=gate.throw_away) == "made"
    with pytest.raises(OSError, match="it failed"):
        await in_thread(gate, "fails", unwanted=gate.throw_away)
    assert gate.unwanted == []


@pytest.mark.anyio
@pytest.mark.parametrize(("what", "unwanted"), [("made", ["made"]), ("fails", [])])
async def test_what_is_made_after_the_wait_was_cancelled_is_thrown_away(
    what: str, unwanted: list[str]
) -> None:
    gate = Gate()
    waiting = asyncio.create_task(in_thread(gate, what, unwanted=gate.throw_away))
    assert await asyncio.to_thread(gate.entered.wait, PATIENCE_SECONDS)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    thread = next(one for one in threading.enumerate() if one.name.startswith("sandbox"))
    gate.open.set()
    await asyncio.to_thread(thread.join, PATIENCE_SECONDS)
    await asyncio.sleep(0)  # what the thread has told the loop is carried out now
    if unwanted:
        assert await asyncio.to_thread(gate.thrown_away.wait, PATIENCE_SECONDS)
    assert gate.unwanted == unwanted


def test_what_is_made_after_the_loop_was_closed_is_thrown_away() -> None:
    gate = Gate()

    async def begin() -> None:
        asyncio.create_task(in_thread(gate, "made", unwanted=gate.throw_away))  # noqa: RUF006
        assert await asyncio.to_thread(gate.entered.wait, PATIENCE_SECONDS)

    asyncio.run(begin())  # which cancels the wait, and closes the loop
    assert gate.unwanted == []
    gate.open.set()
    assert gate.thrown_away.wait(PATIENCE_SECONDS)
    assert gate.unwanted == ["made"]
