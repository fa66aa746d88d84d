"""A bucket in memory."""

from collections.abc import Sequence

from durable_sessions.bucket.objects import ObjectInfo
from durable_sessions.clock import Clock, ManualClock
from durable_sessions.errors import BucketError, ObjectExistsError, ObjectNotFoundError


class MemoryStore:
    """Objects in memory; it can stop answering, before or after it has done what was asked."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.objects: dict[str, bytes] = {}
        self._clock = clock or ManualClock()
        self._modified: dict[str, int] = {}
        self._left: int | None = None

    def fail_after(self, calls: int | None) -> None:
        self._left = calls

    def _call(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise BucketError(reason="away")

    async def create(self, path: str, data: bytes) -> None:
        lost_answer = self._left == 1
        self._call()
        if path in self.objects:
            raise ObjectExistsError(path=path)
        self._write(path, data)
        if lost_answer:
            self._left = 0
            raise BucketError(reason="the answer was lost")

    async def put(self, path: str, data: bytes) -> None:
        self._call()
        self._write(path, data)

    def _write(self, path: str, data: bytes) -> None:
        self.objects[path] = data
        self._modified[path] = self._clock.now_ms()

    async def get(self, path: str) -> bytes:
        self._call()
        if path not in self.objects:
            raise ObjectNotFoundError(path=path)
        return self.objects[path]

    async def get_range(self, path: str, start: int, length: int) -> bytes:
        return (await self.get(path))[start : start + length]

    async def delete(self, paths: Sequence[str]) -> None:
        self._call()
        for path in paths:
            self.objects.pop(path, None)

    async def list(self, prefix: str, *, after: str = "") -> list[ObjectInfo]:
        self._call()
        prefix = prefix.rstrip("/")
        return [
            ObjectInfo(path, len(data), self._modified[path])
            for path, data in sorted(self.objects.items())
            if (not prefix or path.startswith(prefix + "/")) and path > after
        ]
