"""What callers are told when the log says that a batch is certainly not there, or does not know."""

import asyncio

import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.errors import (
    DurableSessionsError,
    LogError,
    LogFencedError,
    LogFullError,
    OutcomeUnknownError,
    PartitionMovedError,
    PartitionStoppedError,
)
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create
from durable_sessions.streams.stream import Key
from durable_sessions.testing.memory_log import MemoryLog

pytestmark = pytest.mark.anyio

KEY = Key("", "s")
FENCED = LogFencedError(log="memory", problem="epoch 9 was claimed")
FULL = LogFullError(log="memory", problem="8 of 8 bytes")


async def refused(log: MemoryLog, error: LogError) -> tuple[Partition, list[type[BaseException]]]:
    """Append with one batch in flight and one behind it, and return what both were told."""
    partition = await Partition.open(log, ManualClock(), DEFAULT_LIMITS)
    await partition.create(KEY, Create(content_type="text/plain"))
    log.hold()
    flying = partition.append(KEY, Append(b"flying", "text/plain"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    queued = partition.append(KEY, Append(b"queued", "text/plain"))
    log.refuse(error)
    log.release()
    told = await asyncio.gather(flying, queued, return_exceptions=True)
    return partition, [type(one) for one in told if isinstance(one, BaseException)]


async def test_a_fenced_append_moved_and_so_did_all_behind_it() -> None:
    log = MemoryLog()
    partition, told = await refused(log, FENCED)
    assert told == [PartitionMovedError, PartitionMovedError]
    assert partition.lost is FENCED
    assert await partition.until_lost() is FENCED
    assert len(log.batches) == 1
    await partition.close()


async def test_a_fenced_partition_answers_nothing_more() -> None:
    partition, _ = await refused(MemoryLog(), FENCED)
    with pytest.raises(PartitionMovedError):
        partition.find(KEY)
    with pytest.raises(PartitionMovedError):
        partition.append(KEY, Append(b"late", "text/plain"))
    assert "another process has claimed" in str(partition.refusal).lower()
    await partition.close()


@pytest.mark.parametrize(
    ("error", "flying"),
    [(FULL, PartitionStoppedError), (LogError(reason="timeout"), OutcomeUnknownError)],
    ids=["full", "unknown"],
)
async def test_only_an_unknown_outcome_is_called_unknown(
    error: LogError, flying: type[DurableSessionsError]
) -> None:
    partition, told = await refused(MemoryLog(), error)
    assert told == [flying, PartitionStoppedError]
    assert partition.lost is None
    await partition.close()


async def test_opening_claims_the_log() -> None:
    log = MemoryLog([b""])
    partition = await Partition.open(log, ManualClock(), DEFAULT_LIMITS)
    assert partition.epoch > 0
    await partition.close()
