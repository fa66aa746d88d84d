"""The cases that need a fault, a rival or a clock; a harness may declare that one cannot apply, and why."""

import asyncio

from durable_sessions.errors import LogDamagedError, LogError, LogFencedError, LogFullError, LogRegressedError
from durable_sessions.testing.log_suite.harness import LogHarness, require
from durable_sessions.testing.log_suite.steps import (
    judge_unknown,
    owned,
    reopened,
    replayed,
    require_fenced,
    require_loud,
    require_refused,
    written,
)

SAME_LENGTH = [b"frame %d" % number for number in range(5)]
PROVERS = 5


async def unclaimed(harness: LogHarness) -> None:
    """A process that has not claimed a log cannot append to it."""
    await require_fenced(await harness.open(), "nobody has claimed the log")
    require(await replayed(await owned(harness)) == [], "an append without a claim is there")


async def fence_in_flight(harness: LogHarness) -> None:
    """A batch that is still in transit when another process claims the log is certainly not there."""
    old = await owned(harness)
    batches = await written(old, [b"a"])
    await harness.hold_request()
    late = asyncio.ensure_future(old.append(b"late"))
    await harness.until_held()
    new = await owned(harness, "two")
    await harness.release()
    await require_refused(late, LogFencedError, "a batch behind another's claim was acknowledged")
    batches += await written(new, [b"b"])
    require(await replayed(new) == batches, "a batch of the fenced one is behind the claim")


async def unknown_answer_lost(harness: LogHarness) -> None:
    """A batch whose answer is lost is there exactly once if acknowledged; else its outcome is unknown."""
    log = await owned(harness)
    batches = await written(log, [b"a", b"b"])
    await harness.lose_answer(log)
    await judge_unknown(harness, log, batches)


async def unknown_request_lost(harness: LogHarness) -> None:
    """A batch that is lost in transit is sent again, or its outcome is unknown; it is never acknowledged."""
    log = await owned(harness)
    batches = await written(log, [b"a", b"b"])
    await harness.lose_request(log)
    await judge_unknown(harness, log, batches)


async def full(harness: LogHarness) -> None:
    """A full log raises LogFullError, and the batch is certainly not there."""
    log = await owned(harness)
    batches = await written(log, [b"a"])
    await harness.fill()
    await require_refused(log.append(b"too much"), LogFullError, "a full log took a batch")
    require(await replayed(log) == batches, "what a full log refused is there")


async def proof_from_send(harness: LogHarness) -> None:
    """A proof is valid from when the acknowledged frame was sent, not from its answer."""
    log = await owned(harness)
    await harness.hold_answer()
    append = asyncio.ensure_future(log.append(b"slow"))
    await harness.until_held()
    sent_before = harness.now()
    await harness.pass_seconds(harness.proof_seconds / 2)
    await harness.release()
    await append
    require(log.proven_until > 0, "an acknowledged append proves nothing")
    latest = sent_before + harness.proof_seconds
    require(
        log.proven_until <= latest, f"proven until {log.proven_until}, but it was sent before {sent_before}"
    )


async def proof_shared(harness: LogHarness) -> None:
    """An expired proof is renewed by one frame, however many callers ask for it at the same time."""
    log = await owned(harness)
    await harness.pass_seconds(harness.proof_seconds)
    require(log.proven_until <= harness.now(), "a proof does not end")
    before = await harness.frames()
    await asyncio.gather(*(log.prove() for _ in range(PROVERS)))
    added = await harness.frames() - before
    require(log.proven_until > harness.now(), "a proof does not prove")
    require(added == 1, f"{PROVERS} who asked at a time took {added} frames")
    require(await replayed(log) == [], "a proof is a batch")


async def lagging_replica(harness: LogHarness) -> None:
    """A replay ends with the log's last frame, even if a lagging replica does not have it yet."""
    log = await owned(harness)
    batches = await written(log, SAME_LENGTH)
    for lag in (1, 3, 20):
        log = await reopened(harness, log, f"lag {lag}")
        await harness.lag(lag)
        found = await replayed(log)
        require(found == batches, f"a replay gave {len(found)} of {len(batches)} batches")


async def wrong_configuration(harness: LogHarness) -> None:
    """A log whose storage is configured unsafely is refused."""
    log = await owned(harness)
    await written(log, [b"a"])
    await log.close()
    await harness.misconfigure()
    await require_loud(harness, LogError, "a wrong configuration")


async def regressed_tail(harness: LogHarness) -> None:
    """A log that ends before a position that is known to have been acknowledged is refused."""
    log = await owned(harness)
    batches = await written(log, SAME_LENGTH)
    await log.close()
    await harness.forget(2)
    await require_loud(harness, LogRegressedError, "the loss of the newest frames", heard=batches[-1][0])


async def rot(harness: LogHarness) -> None:
    """A frame with one changed byte is reported, whichever byte it is."""
    log = await owned(harness)
    batches = await written(log, SAME_LENGTH)
    await log.close()
    position = batches[1][0]
    for byte in (0, 5, 9, 13, 17, -1, -4):
        await harness.rot(position, byte)
        await require_loud(harness, LogDamagedError, f"a change of byte {byte} of a frame")
        await harness.rot(position, byte)  # the same change again undoes it
    log = await owned(harness, "three")
    require(await replayed(log) == batches, "the frame was not mended")


async def misplaced_frame(harness: LogHarness) -> None:
    """An intact frame in the place of another one is reported."""
    log = await owned(harness)
    batches = await written(log, SAME_LENGTH)
    await log.close()
    await harness.misplace(batches[1][0], over=batches[2][0])
    await require_loud(harness, LogDamagedError, "a frame in another's place")


async def missing_frame(harness: LogHarness) -> None:
    """A frame missing from the middle is reported, and not skipped."""
    log = await owned(harness)
    batches = await written(log, SAME_LENGTH)
    await log.close()
    await harness.lose_frame(batches[2][0])
    await require_loud(harness, LogDamagedError, "a missing frame")


CASES = {
    case.__name__: case
    for case in (
        unclaimed,
        fence_in_flight,
        unknown_answer_lost,
        unknown_request_lost,
        full,
        proof_from_send,
        proof_shared,
        lagging_replica,
        wrong_configuration,
        regressed_tail,
        rot,
        misplaced_frame,
        missing_frame,
    )
}
