"""The sweep of artifacts: a crash at every step, and whoever stores or names one meanwhile."""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import pytest

from durable_sessions.bucket.layout import artifact_path
from durable_sessions.clock import ManualClock
from durable_sessions.errors import ArtifactNotFoundError, BucketError
from durable_sessions.http.api.artifact_owner import ArtifactOwner
from durable_sessions.http.api.artifact_sweep import ArtifactSweep
from durable_sessions.http.api.neighbours import Neighbours
from durable_sessions.http.carrier.message import Answer, Request
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.storage.artifacts import Artifacts
from durable_sessions.storage.quotas import Quotas
from durable_sessions.streams.state import State
from durable_sessions.testing.bucket import FaultyBucket, MemoryBucket

pytestmark = pytest.mark.anyio

LIMITS = replace(DEFAULT_LIMITS, artifact_question_max=2, artifact_suspects_max=5)
GRACE = LIMITS.artifact_grace_seconds
W = "default"


async def nobody(partition: int, request: Request) -> Answer:
    raise AssertionError("there is one partition")


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Began:
    """A task that begins at one step of a sweep; it is not awaited there: the sweep may hold its lock."""

    def __init__(self, step: int, act: Callable[[], Coroutine[None, None, bool]]) -> None:
        self._left = step
        self._act = act
        self.task: asyncio.Task[bool] | None = None

    async def pass_by(self) -> None:
        """Begin if this is the step, and let the task come as far as it can without the sweep."""
        if self._left == 0:
            self.task = asyncio.create_task(self._act())
            await asyncio.wait([self.task], timeout=0.2)
        self._left -= 1


class SteppedBucket(FaultyBucket):
    """Lets something begin before and after each call, but not during what it calls itself."""

    began: Began | None = None

    async def _call(self, *arguments: Any) -> Any:
        if self.began is None or self.began.task is not None:
            return await super()._call(*arguments)
        await self.began.pass_by()
        answer = await super()._call(*arguments)
        if self.began.task is None:
            await self.began.pass_by()
        return answer


class World:
    """Artifacts in a bucket that can fail, and what names them."""

    def __init__(self) -> None:
        self.objects = MemoryBucket()
        self.bucket = SteppedBucket(self.objects)
        self.clock = ManualClock()
        self.named: set[str] = set()
        self.questions: list[int] = []
        self.start()

    def start(self) -> None:
        """Forget everything that is in memory, as a process that died."""
        neighbours = Neighbours(ONLY_PARTITION, nobody)
        self.artifacts = Artifacts(self.bucket, State(), Quotas(), self.clock, GRACE)
        self.owner = ArtifactOwner(self.artifacts, neighbours)
        self.sweeper = ArtifactSweep(self.artifacts, self.names, neighbours, LIMITS, is_held=False)

    async def names(self, workspace: str, digests: Collection[str]) -> set[str]:
        self.questions.append(len(digests))
        if self.bucket.began is not None and self.bucket.began.task is None:
            await self.bucket.began.pass_by()
        return self.named.intersection(digests)

    def begin_at(self, step: int, act: Callable[[], Coroutine[None, None, bool]]) -> Began:
        """Let something begin at a step of what comes now."""
        self.bucket.began = Began(step, act)
        return self.bucket.began

    async def put(self, data: bytes) -> str:
        digest = digest_of(data)
        await self.artifacts.store(W, digest, data, "text/plain")
        return digest

    async def content(self, digest: str) -> bytes | None:
        try:
            info = await self.artifacts.find(W, digest)
        except ArtifactNotFoundError:
            return None
        return await self.artifacts.read(W, digest, info)


@pytest.mark.parametrize("kind", ["fail", "lose_answer"])
async def test_a_crash_at_every_step_loses_nothing_that_is_named(
    kind: Literal["fail", "lose_answer"],
) -> None:
    step, crashed = 0, True
    while crashed:
        world = World()
        kept, gone = await world.put(b"kept"), await world.put(b"gone")
        world.named = {kept}
        world.clock.advance(GRACE + 1)
        world.bucket.order(kind, skip=step, times=1)
        crashed = False
        try:
            for _ in range(2):
                await world.sweeper.sweep()
        except BucketError:
            crashed = True
        world.bucket.heal()
        world.start()
        assert await world.content(kept) == b"kept", step
        assert await world.content(gone) in (b"gone", None), step
        if step % 2:  # what is left does not hinder whoever stores it anew
            await world.put(b"gone")
            assert await world.content(gone) == b"gone", step
            world.clock.advance(GRACE + 1)
        for _ in range(2):
            await world.sweeper.sweep()
        path = artifact_path(W, kept)
        assert sorted(world.objects.objects) == [path, path + ".json"], step
        step += 1
    assert step > 5


@pytest.mark.parametrize("act", ["store", "require"])
async def test_whoever_stores_or_names_it_during_the_sweep_keeps_it(act: str) -> None:
    """The act begins before and after each step of the sweep: each call of the bucket, and the question."""
    step, is_reached, outcomes = 0, True, set[bool]()
    while is_reached:
        world = World()
        digest = await world.put(b"raced for")
        world.clock.advance(GRACE + 1)
        await world.sweeper.sweep()
        began = world.begin_at(step, partial(acted, world, act, digest))
        await world.sweeper.sweep()
        is_reached = began.task is not None
        if began.task is not None:
            is_promised = await began.task
            assert is_promised or act == "require", step
            assert (await world.content(digest) == b"raced for") == is_promised, step
            outcomes.add(is_promised)
        step += 1
    assert step > 8
    assert outcomes == ({True} if act == "store" else {True, False}), "both sides of the race were seen"


async def acted(world: World, act: str, digest: str) -> bool:
    """Store an artifact or be about to name it; say whether the server has promised that it is there."""
    try:
        if act == "store":
            await world.put(b"raced for")
        else:
            await world.owner.require(W, digest)
    except ArtifactNotFoundError:
        return False
    return True


async def test_questions_and_memory_are_bounded() -> None:
    world = World()
    for number in range(7):
        await world.put(b"%d" % number)
    world.clock.advance(GRACE + 1)
    assert await world.sweeper.sweep() == 0
    assert world.questions == [2, 2, 2, 1]
    assert await world.sweeper.sweep() == LIMITS.artifact_suspects_max
    assert await world.sweeper.sweep() == 2


async def test_the_clock_of_the_server_may_be_set_back() -> None:
    world = World()
    digest = await world.put(b"young")
    world.clock.advance(-10 * GRACE)
    for _ in range(3):
        assert await world.sweeper.sweep() == 0
    assert await world.content(digest) == b"young"
