"""A log in NATS when servers die, pause, or are configured by somebody else."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import pytest
from tools.local_cluster import LocalCluster

from durable_sessions.errors import LogError, LogFencedError, LogMisconfiguredError
from durable_sessions.log import Claimant
from durable_sessions.log.nats import wire as wire_module
from durable_sessions.log.nats.slots import NatsSlots
from durable_sessions.log.nats.wire import NatsServers, NatsWire
from durable_sessions.log.shared import SharedLog
from durable_sessions.testing.log_suite import CASES, LogSuiteError
from tests.cluster.harnesses import NatsHarness
from tests.support.trial import SOAK_VARIABLE

pytestmark = [
    pytest.mark.anyio,
    # nats-py leaves the socket open of a server that accepts a connection and then says nothing.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SOAK = SOAK_VARIABLE in os.environ
BY_NAME = {case.name: case for case in CASES}
PATIENCE = 60.0


@pytest.fixture
async def harness(wire: NatsWire) -> AsyncIterator[NatsHarness]:
    harness = NatsHarness(wire)
    yield harness
    await harness.close()


async def opened(harness: NatsHarness, resolve_seconds_max: float = PATIENCE) -> SharedLog:
    """Open the log with frames of the usual size and a real clock, and claim it."""
    slots = await harness.slots()
    while True:
        with contextlib.suppress(LogError, TimeoutError):
            await slots.refresh()
            log = SharedLog(
                slots,
                harness.lineage,
                payload_bytes_max=slots.payload_bytes_max,
                resolve_seconds_max=resolve_seconds_max,
            )
            await log.claim(Claimant("one"))
            return log
        await asyncio.sleep(0.1)


async def batches(log: SharedLog) -> list[tuple[int, bytes]]:
    return [batch async for batch in log.replay()]


@pytest.mark.parametrize("fault", ["kill", "pause"] if SOAK else ["kill"])
async def test_appends_go_on_when_the_leader_is_gone(
    local: LocalCluster, harness: NatsHarness, fault: str
) -> None:
    log = await opened(harness)
    acknowledged = [(await log.append(b"before"), b"before")]
    leader = local.leader_of(harness.name)
    getattr(leader, fault)()
    try:
        for number in range(20):
            batch = b"%d" % number
            acknowledged.append((await log.append(batch), batch))
    finally:
        if fault == "kill":
            leader.start()
        else:
            leader.resume()
        await asyncio.to_thread(local.wait_for_nats)
    assert await batches(log) == acknowledged
    assert await batches(await opened(harness)) == acknowledged


@pytest.mark.skipif(not SOAK, reason="takes long; to enable: make soak")
async def test_without_a_majority_the_outcome_is_unknown_and_settled_by_the_next_claim(
    local: LocalCluster, harness: NatsHarness
) -> None:
    log = await opened(harness, resolve_seconds_max=3.0)
    acknowledged = [(await log.append(b"before"), b"before")]
    leader = local.leader_of(harness.name)
    others = [one for one in local.nats if one is not leader]
    for one in others:
        one.kill()
    try:
        with pytest.raises(LogError) as caught:
            await log.append(b"maybe")
        assert not isinstance(caught.value, LogFencedError)
        with pytest.raises(LogError):
            await log.append(b"after")
    finally:
        for one in others:
            one.start()
        await asyncio.to_thread(local.wait_for_nats)
    found = await batches(await opened(harness))
    assert found[:1] == acknowledged
    assert [batch for _, batch in found[1:]] in ([], [b"maybe"])


async def test_rivals_that_claim_in_turns_never_write_behind_each_other(harness: NatsHarness) -> None:
    await opened(harness)
    acknowledged: dict[int, bytes] = {}

    async def rival(name: bytes) -> None:
        slots = await harness.slots()
        for _ in range(8):
            await slots.refresh()
            log = SharedLog(slots, harness.lineage)
            with contextlib.suppress(LogFencedError):
                await log.claim(Claimant(name.decode()))
                for number in range(5):
                    batch = b"%s %d" % (name, number)
                    position = await log.append(batch)
                    assert position not in acknowledged
                    acknowledged[position] = batch

    await asyncio.gather(*(rival(name) for name in (b"one", b"two", b"three")))
    assert dict(await batches(await opened(harness))) == acknowledged


async def test_a_batch_larger_than_a_message_is_sent_in_parts(harness: NatsHarness) -> None:
    log = await opened(harness)
    large = bytes(range(256)) * 12_000  # three parts: NATS takes messages of 1 MiB
    position = await log.append(large)
    small = await log.append(b"small")
    assert await batches(await opened(harness)) == [(position, large), (small, b"small")]


async def test_a_change_of_the_stream_that_can_lose_data_stops_the_log(harness: NatsHarness) -> None:
    log = await opened(harness)
    await log.append(b"before")
    await harness.misconfigure()
    with pytest.raises(LogMisconfiguredError, match="max_age"):
        await log.require_safe()
    with pytest.raises(LogMisconfiguredError):
        await log.append(b"after")


async def test_a_stream_that_somebody_made_anew_is_refused(harness: NatsHarness) -> None:
    log = await opened(harness, resolve_seconds_max=0.2)
    await log.append(b"before")
    await harness.call("STREAM.DELETE")
    with pytest.raises(LogMisconfiguredError, match="does not exist"):
        await log.require_safe()
    configuration = {"name": harness.name, "subjects": [harness.name], "num_replicas": 3}
    await harness.call("STREAM.CREATE", configuration)
    with pytest.raises(LogMisconfiguredError, match="it was made anew"):
        await (SharedLog(await harness.slots(), harness.lineage)).claim(Claimant("two"))


async def test_servers_that_do_not_answer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_module, "CONNECT_SECONDS_MAX", 0.5)
    with pytest.raises(LogError, match=r"NATS at nats://127\.0\.0\.1:1 cannot be reached"):
        await NatsWire.connect(NatsServers(("nats://127.0.0.1:1",)))


# Planted ------------------------------------------------------------------------------------


class Unconditional(NatsSlots):
    """Publishes whatever the last frame is."""

    async def put(self, position: int, frame: bytes) -> None:
        await self._wire.request(self._name, frame, 5)


class TrustsAReplica(SharedLog):
    """Ends a replay where a replica ends."""

    async def replay(self, after: int = 0) -> AsyncIterator[tuple[int, bytes]]:
        reader = self._reader()
        for position, frame in await self.slots.frames_after(self.begins_after):
            batch = reader.take(position, frame)
            if batch is not None:
                yield batch


class UnconditionalHarness(NatsHarness):
    async def slots(self) -> NatsSlots:
        await super().slots()
        return Unconditional(self._wire, self.name, self.lineage)


@pytest.mark.parametrize("case", ["fence", "fence_in_flight"])
async def test_a_publish_without_a_condition_is_found(wire: NatsWire, case: str) -> None:
    with pytest.raises(LogSuiteError, match="was acknowledged"):
        await BY_NAME[case].check(UnconditionalHarness(wire))


async def test_a_replay_that_trusts_a_replica_is_found(wire: NatsWire) -> None:
    with pytest.raises(LogSuiteError, match="4 of 5 batches"):
        await BY_NAME["lagging_replica"].check(NatsHarness(wire, TrustsAReplica))
