"""Large bodies that wait for a thread are bounded, and count until they have left memory."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from durable_sessions.errors import InvalidRequestError, OverloadedError, ShareExceededError
from durable_sessions.http.api import parse_threads
from durable_sessions.http.api.parse_threads import AT_ONCE_BYTES, BodyParser
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.shares import CURRENT_HOLDER, LOCAL

pytestmark = pytest.mark.anyio

BODY = b"x" * (AT_ONCE_BYTES + 1)
LIMITS = replace(DEFAULT_LIMITS, parsing_bytes_max=4 * len(BODY))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Keep the only thread busy until the event is set."""
    gate = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(parse_threads, "_THREADS", threads)
        threads.submit(gate.wait)
        yield gate
        gate.set()


async def begin(parser: BodyParser, holder: str, body: bytes = BODY) -> "asyncio.Task[int]":
    CURRENT_HOLDER.set(holder)
    task = asyncio.create_task(parser.parsed(body, len, body))
    await asyncio.sleep(0)
    return task


async def test_a_key_has_its_share_and_others_theirs(gate: threading.Event) -> None:
    parser = BodyParser(LIMITS)
    tasks = [await begin(parser, holder) for holder in ("a", "a", "b", "c")]
    assert parser.held == LIMITS.parsing_bytes_max
    for holder in ("a", "d"):
        with pytest.raises(OverloadedError):
            await (await begin(parser, holder))
    gate.set()
    assert await asyncio.gather(*tasks) == [len(BODY)] * 4
    assert parser.held == 0


async def test_more_than_a_share_is_refused_while_there_is_room(gate: threading.Event) -> None:
    parser = BodyParser(LIMITS)
    tasks = [await begin(parser, "a") for _ in range(2)]
    with pytest.raises(ShareExceededError):
        await (await begin(parser, "a"))
    tasks += [await begin(parser, LOCAL) for _ in range(2)]
    gate.set()
    await asyncio.gather(*tasks)


async def test_one_that_is_larger_than_all_is_taken_apart_alone(gate: threading.Event) -> None:
    parser = BodyParser(replace(LIMITS, parsing_bytes_max=1))
    task = await begin(parser, "a")
    with pytest.raises(OverloadedError):
        await (await begin(parser, "b"))
    gate.set()
    assert await task == len(BODY)


async def test_what_its_client_has_given_up_counts_until_it_has_left_memory(gate: threading.Event) -> None:
    parser = BodyParser(LIMITS)
    task = await begin(parser, "a")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert parser.held == len(BODY)
    gate.set()
    async with asyncio.timeout(60):
        while parser.held:
            await asyncio.sleep(0.01)


async def test_what_is_wrong_with_a_body_is_told_and_small_ones_need_no_thread(gate: threading.Event) -> None:
    parser = BodyParser(LIMITS)

    def refuse() -> None:
        raise InvalidRequestError(problem="no")

    assert await parser.parsed(b"x", len, b"x") == 1
    gate.set()
    with pytest.raises(InvalidRequestError):
        await parser.parsed(BODY, refuse)
    assert parser.held == 0
