"""How logs on real servers are put to the suite for logs."""

import asyncio
import secrets
from typing import Any, ClassVar

import msgspec

from durable_sessions.bucket.probe import probe
from durable_sessions.bucket.store import Bucket
from durable_sessions.ids import RandomIds
from durable_sessions.log import Log
from durable_sessions.log.bucket import BucketSlots
from durable_sessions.log.nats.slots import NatsSlots
from durable_sessions.log.nats.stream import stream_configuration
from durable_sessions.log.nats.wire import NatsWire
from durable_sessions.log.shared import PROOF_SECONDS, SharedLog
from durable_sessions.log.slots import Slots, SlotTakenError
from durable_sessions.testing.log_suite import LogHarness
from tests.cluster.faulty_slots import FaultySlots, SlotFaults

SMALL_FRAME_BYTES = 1000


class SharedHarness(LogHarness):
    """Logs on the same slots of a real server, with a clock that stands still; frames are small."""

    payload_bytes_max: ClassVar[int] = SMALL_FRAME_BYTES
    proof_seconds: ClassVar[float] = PROOF_SECONDS

    def __init__(self, make: type[SharedLog] = SharedLog) -> None:
        self._make = make
        self._now = 1000.0
        self.lineage = f"log_{secrets.token_hex(16)}"
        self.faults = SlotFaults()

    async def slots(self) -> Slots:
        """Return the slots, as a new process reaches them."""
        raise NotImplementedError

    async def open(self, heard: int = 0) -> Log:
        slots = FaultySlots(await self.slots(), self.faults)
        await slots.refresh()
        return self._make(
            slots, self.lineage, heard=heard, payload_bytes_max=SMALL_FRAME_BYTES, now=lambda: self._now
        )

    async def stored(self) -> dict[int, bytes]:
        """Return all frames."""
        slots, frames = await self.slots(), dict[int, bytes]()
        await slots.refresh()
        position = slots.begins_after
        while position < slots.last:
            found = await slots.frames_after(position)
            frames |= found
            position = max(frames, default=position)
        return frames

    async def frames(self) -> int:
        return len(await self.stored())

    async def lose_request(self, log: Log) -> None:
        self.faults.lost_requests = 1

    async def lose_answer(self, log: Log) -> None:
        self.faults.lost_answers = 1

    async def hold_request(self) -> None:
        self.faults.holds_request = True

    async def hold_answer(self) -> None:
        self.faults.holds_answer = True

    async def until_held(self) -> None:
        while not self.faults.held:
            await asyncio.sleep(0.001)

    async def release(self) -> None:
        self.faults.released.set()

    def now(self) -> float:
        return self._now

    async def pass_seconds(self, seconds: float) -> None:
        self._now += seconds

    async def lag(self, frames: int) -> None:
        self.faults.lag = frames

    async def replace(self, frames: dict[int, bytes | None]) -> None:
        """Store these frames instead of those that are there, None for none."""
        raise NotImplementedError

    async def forget(self, frames: int) -> None:
        stored = await self.stored()
        await self.replace(dict(sorted(stored.items())[:-frames]))

    async def rot(self, position: int, byte: int) -> None:
        stored = await self.stored()
        frame = bytearray(stored[position])
        frame[byte] ^= 0x20
        await self.replace({**stored, position: bytes(frame)})

    async def misplace(self, position: int, over: int) -> None:
        stored = await self.stored()
        await self.replace({**stored, over: stored[position]})

    async def lose_frame(self, position: int) -> None:
        await self.replace({**await self.stored(), position: None})


class NatsHarness(SharedHarness):
    """A stream of its own on three NATS servers."""

    def __init__(self, wire: NatsWire, make: type[SharedLog] = SharedLog) -> None:
        super().__init__(make)
        self._wire = wire
        self.name = f"DS_test_0_{secrets.token_hex(6)}"
        self._is_made = False

    async def call(self, operation: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask JetStream for something, and insist."""
        data = b"" if body is None else msgspec.json.encode(body)
        answer: dict[str, Any] = {}
        for _ in range(100):
            reply = await self._wire.request(f"$JS.API.{operation}.{self.name}", data, 10)
            answer = msgspec.json.decode(reply.data)
            if "error" not in answer:
                return answer
            await asyncio.sleep(0.1)
        raise AssertionError(answer)

    def configuration(self, begins_after: int = 0) -> dict[str, Any]:
        return stream_configuration(
            self.name, self.lineage, bytes_max=64 * 1024 * 1024, begins_after=begins_after
        )

    async def slots(self) -> NatsSlots:
        if not self._is_made:
            self._is_made = True
            await self.call("STREAM.CREATE", self.configuration())
        return NatsSlots(self._wire, self.name, self.lineage)

    async def close(self) -> None:
        if self._is_made:
            await self.call("STREAM.DELETE")

    async def fill(self) -> None:
        state = (await self.call("STREAM.INFO"))["state"]
        await self.call("STREAM.UPDATE", {**self.configuration(), "max_bytes": state["bytes"]})

    async def misconfigure(self) -> None:
        await self.call("STREAM.UPDATE", {**self.configuration(), "max_age": 3_600_000_000_000})

    async def replace(self, frames: dict[int, bytes | None]) -> None:
        await self.call("STREAM.DELETE")
        configuration = self.configuration(begins_after=min(frames) - 1)
        await self.call("STREAM.CREATE", {**configuration, "deny_delete": False})
        slots = NatsSlots(self._wire, self.name, self.lineage)
        for position, frame in frames.items():
            await self._store(slots, position, frame or b"to be deleted")
        for position, frame in frames.items():
            if frame is None:
                await self.call("STREAM.MSG.DELETE", {"seq": position, "no_erase": True})
        await self.call("STREAM.UPDATE", configuration)

    async def _store(self, slots: NatsSlots, position: int, frame: bytes) -> None:
        for _ in range(100):
            try:
                return await slots.put(position, frame)
            except TimeoutError:  # a new stream has no leader yet
                await asyncio.sleep(0.1)
            except SlotTakenError:
                return None
        raise AssertionError(f"{self.name} takes nothing")


class BucketHarness(SharedHarness):
    """A folder of its own in a bucket."""

    inapplicable: ClassVar[dict[str, str]] = {"full": "an object store has no bound that a log could reach"}

    def __init__(self, bucket: Bucket, make: type[SharedLog] = SharedLog) -> None:
        super().__init__(make)
        self._bucket = bucket
        self._prefix = f"partitions/{secrets.token_hex(6)}/log"
        self._honours = True

    async def slots(self) -> BucketSlots:
        return BucketSlots(self._bucket, self._prefix, probe=self._probe)

    async def _probe(self) -> None:
        await probe(self._bucket if self._honours else Forgetful(self._bucket), RandomIds())

    async def misconfigure(self) -> None:
        self._honours = False

    async def replace(self, frames: dict[int, bytes | None]) -> None:
        slots = await self.slots()
        await self._bucket.delete([slots.path(position) for position in await self.stored()])
        for position, frame in frames.items():
            if frame is not None:
                await self._bucket.put(slots.path(position), frame)


class Forgetful:
    """A store that creates an object whether it exists or not."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def create(self, path: str, data: bytes) -> None:
        await self._bucket.put(path, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bucket, name)
