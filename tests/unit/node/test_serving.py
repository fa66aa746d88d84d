"""An owner answers from its state only while nobody else can have acknowledged anything."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from durable_sessions.errors import LogError, LogFencedError, OutcomeUnknownError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Answer, Later, Request, Response, StreamingResponse
from durable_sessions.log import Claimant
from durable_sessions.node import serving as module
from durable_sessions.node.serving import Serving
from durable_sessions.testing.memory_log import PROOF_SECONDS, MemoryLog
from durable_sessions.testing.memory_slots import MemorySlots

pytestmark = pytest.mark.anyio


class World:
    """An owner with a clock that stands still; ``answer`` is what its application says."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slots = MemorySlots()
        self.log = MemoryLog(slots=self.slots, now=lambda: self.now)
        self.lost: list[LogError] = []
        self.answer: Answer = Response(200, [], b"state")
        self.serving = Serving(lambda _: self.answer, self.log, self.lost.append, lambda: self.now)

    async def ask(self, method: bytes = b"GET") -> Answer:
        answer = self.serving.answer(request(method))
        return answer if isinstance(answer, Response | StreamingResponse) else await answer

    async def superseded(self) -> None:
        """Let another node claim the log."""
        await MemoryLog(slots=self.slots, now=lambda: self.now).claim(Claimant("two"))


def request(method: bytes = b"GET") -> Request:
    return Request(method, b"/v1/stream/x", b"", {}, b"")


def body(answer: Answer) -> bytes:
    assert isinstance(answer, Response)
    return answer.body


@pytest.fixture
async def world() -> World:
    world = World()
    await world.log.claim(Claimant("one"))
    return world


async def test_a_proven_owner_answers_at_once_and_writes_nothing(world: World) -> None:
    frames = len(world.slots.frames)
    assert world.serving.answer(request()) is world.answer
    assert len(world.slots.frames) == frames


async def test_a_proof_that_has_ended_is_renewed_by_one_frame_for_all(world: World) -> None:
    frames = len(world.slots.frames)
    world.now += PROOF_SECONDS
    answers = await asyncio.gather(*(world.ask() for _ in range(5)))
    assert [body(answer) for answer in answers] == [b"state"] * 5
    assert len(world.slots.frames) == frames + 1


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
async def test_an_owner_that_was_fenced_reads_nothing_out(world: World, method: bytes) -> None:
    await world.superseded()
    world.now += PROOF_SECONDS
    answer = await world.ask(method)
    assert answer.status == 503
    assert b"partition_moved" in body(answer)
    assert isinstance(world.lost[0], LogFencedError)


async def test_a_refusal_is_from_the_state_too(world: World) -> None:
    await world.superseded()
    world.now += PROOF_SECONDS
    world.answer = Response(404, [], b"not here")
    assert b"partition_moved" in body(await world.ask(b"POST"))


async def test_what_may_have_changed_something_is_never_said_not_to_have(world: World) -> None:
    await world.superseded()
    world.now += PROOF_SECONDS
    world.answer = Response(204, [])
    assert b"outcome_unknown" in body(await world.ask(b"POST"))


@pytest.mark.parametrize("fenced", [True, False])
async def test_an_outcome_that_is_unknown_stays_so_whatever_becomes_of_the_log(
    world: World, fenced: bool
) -> None:
    if fenced:
        await world.superseded()
    else:
        world.log._resolve_seconds_max = -1.0
        world.slots.lose_requests(1)
    world.now += PROOF_SECONDS
    unknown = OutcomeUnknownError(reason="the log did not say")
    world.answer = ANSWER_FORMAT.refuse(b"/v1/stream/x", unknown, b"req_1")
    assert b"outcome_unknown" in body(await world.ask(b"POST"))


async def test_a_log_that_does_not_answer_leaves_it_open(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROVE_SECONDS_MAX", 0.01)
    world.now += PROOF_SECONDS
    world.slots.hold_request()
    assert b"ownership_unproven" in body(await world.ask())
    world.slots.release()  # the frame was not cancelled, and proves what follows
    assert body(await world.ask()) == b"state"


async def test_a_log_whose_end_is_unknown_is_given_up(world: World) -> None:
    world.log._resolve_seconds_max = -1.0
    world.slots.lose_requests(1)
    world.now += PROOF_SECONDS
    assert b"ownership_unproven" in body(await world.ask())
    assert [type(error) for error in world.lost] == [LogError]


async def test_an_answer_that_comes_later_is_checked_when_it_comes(world: World) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    later: Later[None] = Later(future, lambda _: world.answer)
    serving = Serving(lambda _: later, world.log, world.lost.append, lambda: world.now)
    waiting = serving.answer(request())
    await world.superseded()
    world.now += PROOF_SECONDS
    future.set_result(None)
    assert not isinstance(waiting, Response | StreamingResponse)
    assert b"partition_moved" in body(await waiting)


async def test_a_stream_ends_when_it_is_no_longer_proven(world: World) -> None:
    closed = []

    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield b"one"
            await world.superseded()
            world.now += PROOF_SECONDS
            yield b"two"
        finally:
            closed.append(True)

    world.answer = StreamingResponse(200, [], chunks())
    answer = await world.ask()
    assert isinstance(answer, StreamingResponse)
    assert [chunk async for chunk in answer.chunks] == [b"one"]
    assert closed
