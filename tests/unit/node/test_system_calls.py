"""The calls between workers and the one with the system partition, without a network."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, cast

import pytest

from durable_sessions.access.key_publisher import KeyPublisher
from durable_sessions.errors import LinkDownError, PartitionStoppedError
from durable_sessions.http.carrier.message import Answer, Request, Response, StreamingResponse
from durable_sessions.node.link import NodeLink
from durable_sessions.node.system_calls import SystemCalls, SystemLink, follower_name
from durable_sessions.partition_id import SYSTEM
from durable_sessions.streams.outbox import OwedRecord, RecordId
from durable_sessions.streams.stream import Key

pytestmark = pytest.mark.anyio


class Publisher:
    """Notes who follows and who is gone."""

    def __init__(self) -> None:
        self.following: list[str] = []
        self.left: list[str] = []
        self.closed = 0

    async def follow(self, name: str) -> AsyncIterator[bytes]:
        self.following.append(name)
        try:
            for line in (b"one\n", b"two\n"):
                yield line
        finally:
            self.closed += 1

    def gone(self, name: str) -> None:
        self.left.append(name)

    def acknowledge(self, seen: bytes) -> bytes:
        return b"newest for " + seen


class Link:
    """A link without a network: the calls are answered in place."""

    def __init__(self, calls: SystemCalls, refusal: Response | None = None) -> None:
        self._calls = calls
        self._refusal = refusal

    async def ask(self, partition: int, request: Request) -> Answer:
        assert partition == SYSTEM
        if self._refusal is not None:
            return self._refusal
        answer = self._calls.answer(request)
        assert answer is not None
        return await answer if isinstance(answer, Awaitable) else answer


def record(number: int) -> OwedRecord:
    return OwedRecord(Key("", "audit/default"), RecordId("lineage", number), b'{"n":1}')


class Setup:
    def __init__(self, failure: Exception | None = None, refusal: Response | None = None) -> None:
        self.publisher = Publisher()
        self.taken: list[OwedRecord] = []
        self._failure = failure
        self.calls = SystemCalls(cast("KeyPublisher", self.publisher), self._take)
        self.link = SystemLink(cast("NodeLink", Link(self.calls, refusal)))

    async def _take(self, owed: OwedRecord) -> None:
        await asyncio.sleep(0)
        if self._failure is not None:
            raise self._failure
        self.taken.append(owed)


async def test_a_record_is_delivered_when_it_was_taken() -> None:
    setup = Setup()
    await setup.link.deliver(record(7))
    assert setup.taken == [record(7)]


@pytest.mark.parametrize(
    "setup", [lambda: Setup(PartitionStoppedError(reason="disk")), lambda: Setup(refusal=Response(200, []))]
)
async def test_a_record_that_was_not_taken_is_delivered_again(setup: Any) -> None:
    made = setup()
    with pytest.raises(LinkDownError):
        await made.link.deliver(record(7))
    assert made.taken == []


async def test_keys_are_followed_and_let_go_of() -> None:
    setup = Setup()
    lines = setup.link.follow("1-a")
    assert await anext(lines) == b"one\n"
    await lines.aclose()  # type: ignore[attr-defined]
    assert setup.publisher.closed == 1
    assert await setup.link.acknowledge(b"3") == b"newest for 3"


@pytest.mark.parametrize("refusal", [Response(503, []), Response(404, [])])
async def test_a_refusal_is_no_table_of_keys(refusal: Response) -> None:
    setup = Setup(refusal=refusal)
    with pytest.raises(LinkDownError, match=str(refusal.status)):
        await anext(setup.link.follow("1-a"))
    with pytest.raises(LinkDownError, match=str(refusal.status)):
        await setup.link.acknowledge(b"3")


def test_a_worker_that_was_started_again_takes_the_place_of_its_process_before() -> None:
    setup = Setup()

    def follow(worker: int, token: str) -> None:
        name = follower_name(str(worker), token).encode()
        answer = setup.calls.answer(Request(b"POST", b"/internal/keys/follow", b"", {}, name))
        assert isinstance(answer, StreamingResponse)

    follow(1, "first")
    follow(11, "other")
    follow(1, "first")  # the same process, over a new connection
    assert setup.publisher.left == []
    follow(1, "second")
    assert setup.publisher.left == ["1-first"]


def test_any_other_path_is_no_call() -> None:
    assert Setup().calls.answer(Request(b"POST", b"/internal/flush", b"", {}, b"")) is None
