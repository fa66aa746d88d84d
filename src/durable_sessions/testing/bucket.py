"""Buckets for tests: one that fails on command or from a seed, and one in memory."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from durable_sessions.bucket.objects import Listing, ObjectInfo, ObjectStore
from durable_sessions.errors import BucketError, ObjectExistsError, ObjectNotFoundError

Operation = Literal["create", "put", "get", "get_range", "delete", "list"]
Kind = Literal["fail", "lose_answer", "delay", "truncate", "corrupt"]

_Answer = TypeVar("_Answer")


class BucketCall(NamedTuple):
    """A recorded call; for reads ``size`` is the requested length, if it is known."""

    operation: Operation
    path: str
    size: int


@dataclass(slots=True)
class _Fault:
    kind: Kind
    operation: Operation | None
    path: str
    skip: int
    times: int
    seconds: float = 0.0


_Spoil = list[Kind]
_Faults = list[_Fault]


class FaultyBucket:
    """Passes calls to another store and injects faults.

    ``fail``: the call never happens. ``lose_answer``: it happens, but reports a failure.
    ``delay``: it takes longer. ``truncate`` and ``corrupt``: a read returns too few bytes or a
    wrong byte. With a ``seed``, each call fails with the probability ``rate``, in one of the
    ways in ``kinds``.
    """

    def __init__(
        self,
        inner: ObjectStore,
        *,
        seed: int | None = None,
        rate: float = 0.0,
        kinds: Sequence[Kind] = ("fail", "lose_answer", "truncate", "corrupt"),
    ) -> None:
        self.calls: list[BucketCall] = []
        self._inner = inner
        self._random = random.Random(seed)
        self._rate = rate if seed is not None else 0.0
        self._kinds = kinds
        self._faults: _Faults = []

    def order(
        self,
        kind: Kind,
        operation: Operation | None = None,
        *,
        path: str = "",
        skip: int = 0,
        times: int = 1,
        seconds: float = 0.0,
    ) -> None:
        """Inject a fault into ``times`` calls after ``skip`` others, by operation and part of the path."""
        self._faults.append(_Fault(kind, operation, path, skip, times, seconds))

    def heal(self) -> None:
        """Remove all injected faults and the seed."""
        self._faults.clear()
        self._rate = 0.0

    async def create(self, path: str, data: bytes) -> None:
        """Create an object, or raise ObjectExistsError."""
        await self._call("create", path, len(data), lambda: self._inner.create(path, data))

    async def put(self, path: str, data: bytes) -> None:
        """Write an object."""
        await self._call("put", path, len(data), lambda: self._inner.put(path, data))

    async def get(self, path: str) -> bytes:
        """Return an object's content."""
        return await self._read("get", path, 0, lambda: self._inner.get(path))

    async def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return a part of an object."""
        return await self._read("get_range", path, length, lambda: self._inner.get_range(path, start, length))

    async def delete(self, paths: Sequence[str]) -> None:
        """Remove objects."""
        await self._call("delete", " ".join(paths), len(paths), lambda: self._inner.delete(paths))

    async def list(self, prefix: str, *, after: str = "") -> Listing:
        """Return the objects under a prefix whose path sorts behind ``after``."""
        return await self._call("list", prefix, 0, lambda: self._inner.list(prefix, after=after))

    async def _read(
        self, operation: Operation, path: str, size: int, call: Callable[[], Awaitable[bytes]]
    ) -> bytes:
        spoil: _Spoil = []
        data = await self._call(operation, path, size, call, spoil)
        for kind in spoil:
            if kind == "truncate":
                data = data[: self._random.randrange(len(data) or 1)]
            elif data:
                at = self._random.randrange(len(data))
                data = data[:at] + bytes([data[at] ^ (1 << self._random.randrange(8))]) + data[at + 1 :]
        return data

    async def _call(
        self,
        operation: Operation,
        path: str,
        size: int,
        call: Callable[[], Awaitable[_Answer]],
        spoil: _Spoil | None = None,
    ) -> _Answer:
        self.calls.append(BucketCall(operation, path, size))
        faults = self._due(operation, path)
        for fault in faults:
            if fault.kind == "delay":
                await asyncio.sleep(fault.seconds)
            elif fault.kind == "fail":
                raise BucketError(reason=f"{operation} of {path} was ordered to fail")
        answer = await call()
        for fault in faults:
            if fault.kind == "lose_answer":
                raise BucketError(reason=f"the answer to {operation} of {path} was lost")
            # Only what is read can arrive damaged: writes are checked by the store.
            if spoil is not None and fault.kind in ("truncate", "corrupt"):
                spoil.append(fault.kind)
        return answer

    def _due(self, operation: Operation, path: str) -> _Faults:
        due = []
        for fault in self._faults:
            if fault.operation not in (None, operation) or fault.path not in path or not fault.times:
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            fault.times -= 1
            due.append(fault)
        if self._rate and self._random.random() < self._rate:
            due.append(_Fault(self._random.choice(self._kinds), None, "", 0, 1))
        return due


class MemoryBucket:
    """Objects in memory: a correct store for tests that need no disk."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    async def create(self, path: str, data: bytes) -> None:
        """Create an object, or raise ObjectExistsError."""
        if path in self.objects:
            raise ObjectExistsError(path=path)
        self.objects[path] = bytes(data)

    async def put(self, path: str, data: bytes) -> None:
        """Write an object."""
        self.objects[path] = bytes(data)

    async def get(self, path: str) -> bytes:
        """Return an object's content, or raise ObjectNotFoundError."""
        if path not in self.objects:
            raise ObjectNotFoundError(path=path)
        return self.objects[path]

    async def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start``, or fewer only where the object ends."""
        return (await self.get(path))[start : start + length]

    async def delete(self, paths: Sequence[str]) -> None:
        """Remove objects."""
        for path in paths:
            self.objects.pop(path, None)

    async def list(self, prefix: str, *, after: str = "") -> Listing:
        """Return the objects under a prefix whose path sorts behind ``after``."""
        under = prefix.rstrip("/") + "/" if prefix else ""
        return sorted(
            ObjectInfo(path, len(data), 0)
            for path, data in self.objects.items()
            if path.startswith(under) and path > after
        )
