"""How the file log and the memory log are put to the suite for logs."""

import asyncio
import errno
import math
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import ClassVar

from durable_sessions.log import Log
from durable_sessions.log.file import FileLog
from durable_sessions.log.frame import FRAME_BYTES, HEADER_BYTES, SegmentHeader
from durable_sessions.log.segment import PIECE_BYTES
from durable_sessions.testing.disk import FaultyDisk
from durable_sessions.testing.log_suite import LogHarness
from durable_sessions.testing.memory_log import PROOF_SECONDS, MemoryLog
from durable_sessions.testing.memory_slots import MemorySlots
from tests.unit.log.support import FOLDER

SMALL_FRAME_BYTES = 1000


class MemoryHarness(LogHarness):
    """Logs on the same slots in memory, with a clock that stands still; frames are small."""

    payload_bytes_max: ClassVar[int] = SMALL_FRAME_BYTES
    proof_seconds: ClassVar[float] = PROOF_SECONDS

    def __init__(self, make: Callable[..., MemoryLog] = MemoryLog) -> None:
        self._make = make
        self._now = 1000.0
        self.slots = MemorySlots()

    async def open(self, heard: int = 0) -> Log:
        return self._make(
            slots=self.slots,
            heard=heard,
            payload_bytes_max=SMALL_FRAME_BYTES,
            now=lambda: self._now,
        )

    async def frames(self) -> int:
        return len(self.slots.frames)

    async def lose_request(self, log: Log) -> None:
        self.slots.lose_requests(1)

    async def lose_answer(self, log: Log) -> None:
        self.slots.lose_answers(1)

    async def fill(self) -> None:
        self.slots.full = True

    async def hold_request(self) -> None:
        self.slots.hold_request()

    async def hold_answer(self) -> None:
        self.slots.hold_answer()

    async def until_held(self) -> None:
        while not self.slots.held:
            await asyncio.sleep(0)

    async def release(self) -> None:
        self.slots.release()

    def now(self) -> float:
        return self._now

    async def pass_seconds(self, seconds: float) -> None:
        self._now += seconds

    async def lag(self, frames: int) -> None:
        self.slots.lag = frames

    async def misconfigure(self) -> None:
        self.slots.configuration["discards"] = "old"

    async def forget(self, frames: int) -> None:
        self.slots.forget(frames)

    async def rot(self, position: int, byte: int) -> None:
        frame = bytearray(self.slots.frames[position])
        frame[byte] ^= 0x20
        self.slots.frames[position] = bytes(frame)

    async def misplace(self, position: int, over: int) -> None:
        self.slots.frames[over] = self.slots.frames[position]

    async def lose_frame(self, position: int) -> None:
        del self.slots.frames[position]


class FileHarness(LogHarness):
    """A log on a simulated disk, with a segment for each batch."""

    inapplicable: ClassVar[dict[str, str]] = {
        "unclaimed": "opening takes the lock, which is the claim",
        "fence_in_flight": "nobody can open the log while the process lives that has a write under way",
        "full": "a disk that runs full leaves the outcome open, as any other failure of it",
        "proof_from_send": "the lock is the proof, and ends with the process",
        "proof_shared": "the lock is the proof, and no frame renews it",
        "lagging_replica": "there is one copy",
        "regressed_tail": "a frame that is gone from the end leaves no trace in the log;"
        " the manifest of the bucket shows it (archive_ahead)",
    }
    exclusive: ClassVar[bool] = True
    payload_bytes_max: ClassVar[int] = PIECE_BYTES
    proof_seconds: ClassVar[float] = math.inf

    def __init__(self) -> None:
        self._disk = FaultyDisk()
        self._logs: list[FileLog] = []

    async def open(self, heard: int = 0) -> Log:
        log = await FileLog.open(FOLDER, disk=self._disk, segment_bytes_max=1)
        self._logs.append(log)
        return log

    async def close(self) -> None:
        for log in self._logs:
            await log.close()

    async def frames(self) -> int:
        return len(self._disk.contents())

    async def lose_request(self, log: Log) -> None:
        self._disk.fail("write", errno.EIO, skip=1)  # the first is that of the segment's header

    async def lose_answer(self, log: Log) -> None:
        self._disk.fail("sync", errno.EIO, skip=1)

    async def misconfigure(self) -> None:
        path = min(self._segments().values())
        self._write(path, 0, SegmentHeader(0, 1, version=2).encode())

    async def rot(self, position: int, byte: int) -> None:
        path, start, frame = self._frame(position)
        index = byte % len(frame)
        self._write(path, start + index, bytes([frame[index] ^ 0x20]))

    async def misplace(self, position: int, over: int) -> None:
        _, _, frame = self._frame(position)
        path, start, _ = self._frame(over)
        self._write(path, start, frame)

    async def lose_frame(self, position: int) -> None:
        self._disk.unlink(self._frame(position)[0])

    def _segments(self) -> dict[int, Path]:
        return {int(path.stem): path for path in self._disk.contents() if path.suffix == ".log"}

    def _frame(self, position: int) -> tuple[Path, int, bytes]:
        """Return in which file the frame at a position is, where, and its bytes."""
        segments = self._segments()
        base = max(base for base in segments if base < position)
        start = position - base + HEADER_BYTES - FRAME_BYTES
        return segments[base], start, self._disk.contents()[segments[base]][start:]

    def _write(self, path: Path, offset: int, data: bytes) -> None:
        with closing(self._disk.open(path, writable=True)) as file:
            file.write(data, offset)
            file.sync()
