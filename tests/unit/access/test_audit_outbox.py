"""Acts on sessions of a data partition reach the audit record of the system partition, once and in order."""

from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest

from durable_sessions.access.audit import Act, Audit
from durable_sessions.access.caller import Caller, Role
from durable_sessions.clock import ManualClock
from durable_sessions.errors import InvalidRequestError, OverloadedError, StreamNotFoundError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage.outbox_delivery import OutboxDelivery
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.create import Create
from durable_sessions.streams.outbox import OwedRecord, RecordId
from durable_sessions.streams.stream import Key
from durable_sessions.testing.memory_log import MemoryLog

pytestmark = pytest.mark.anyio

ANN = Caller("default", "ann", Role.ADMIN, "key_1")
LIMITS = DEFAULT_LIMITS


@pytest.fixture
async def data() -> AsyncIterator[Partition]:
    partition = await Partition.open(MemoryLog(), ManualClock(), LIMITS)
    yield partition
    await partition.close()


@pytest.fixture
async def system() -> AsyncIterator[Partition]:
    partition = await Partition.open(MemoryLog(), ManualClock(), LIMITS)
    yield partition
    await partition.close()


def act(number: int, workspace: str = "default") -> Act:
    return Act("session.deleted", ANN, workspace, f"req_{number}", {"session": f"s{number}"})


async def acts_of(audit: Audit, workspace: str) -> list[str]:
    page = await audit.page(workspace, None, 100, newest_first=False)
    return [msgspec.json.decode(one)["session"] for one in page.acts]


async def test_acts_are_recorded_in_the_system_partition_once_and_in_order(
    data: Partition, system: Partition
) -> None:
    there, here = Audit(data, ManualClock(), LIMITS, is_system=False), Audit(system, ManualClock(), LIMITS)
    delivery = OutboxDelivery(data, here.take, LIMITS)
    for number in range(3):
        await data.create(Key("default", f"s{number}"), Create(content_type="text/plain"))
        await data.delete(Key("default", f"s{number}"), there.beside(act(number)))
    owed = [one for line in data.tip.outbox.pending() for one in line]
    assert [one.target for one in owed] == [Key("", "audit/default")] * 3
    assert data.peek(Key("", "audit/default")) is None, "the record is kept in one place"
    for one in owed:
        await here.take(one)
        await here.take(one)
    assert await delivery.deliver_all()
    assert await acts_of(here, "default") == ["s0", "s1", "s2"]
    assert not len(data.tip.outbox)


async def test_an_act_on_another_workspace_is_in_both_records(data: Partition, system: Partition) -> None:
    there, here = Audit(data, ManualClock(), LIMITS, is_system=False), Audit(system, ManualClock(), LIMITS)
    await there.record(act(1, "other"))
    await OutboxDelivery(data, here.take, LIMITS).deliver_all()
    assert await acts_of(here, "other") == await acts_of(here, "default") == ["s1"]


async def test_what_needs_a_full_outbox_is_refused_and_does_not_happen(data: Partition) -> None:
    limits = replace(LIMITS, outbox_bytes_max=1_500)
    audit = Audit(data, ManualClock(), limits, is_system=False)
    names = [f"s{number}" for number in range(3)]
    for name in names:
        await data.create(Key("default", name), Create(content_type="text/plain"))
    for name in names[:2]:
        await data.delete(Key("default", name), audit.beside(act(1)))
    with pytest.raises(OverloadedError, match="outbox_bytes_max"):
        await data.delete(Key("default", "s2"), audit.beside(act(2)))
    data.find(Key("default", "s2"))
    with pytest.raises(StreamNotFoundError):
        data.find(Key("default", "s1"))


async def test_only_streams_of_the_audit_record_are_taken(system: Partition) -> None:
    audit = Audit(system, ManualClock(), LIMITS)
    for target in (Key("", "keys/key_1"), Key("default", "audit/default"), Key("", "audit")):
        with pytest.raises(InvalidRequestError):
            await audit.take(OwedRecord(target, RecordId("log_1", 1), b"{}"))
