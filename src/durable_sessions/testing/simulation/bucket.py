"""An object store behind a faulty network: requests and answers are delayed, lost or damaged in transit."""

import asyncio
import hashlib
import random
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from durable_sessions.bucket.layout import manifests_prefix
from durable_sessions.bucket.manifest import Manifest, decode_manifest
from durable_sessions.bucket.objects import Listing, ObjectInfo
from durable_sessions.errors import BucketError, ObjectExistsError, ObjectNotFoundError
from durable_sessions.partition_id import PartitionId
from durable_sessions.testing.simulation.life import LIFE

T = TypeVar("T")

LATE_SECONDS_MAX = 400.0
"""The longest delay of a request: long enough that its sender has timed out, or its process has died."""

LEFT_BEHIND_SECONDS_MAX = 60.0


class NetworkFaults(NamedTuple):
    """The probabilities that a request or answer is lost, late or damaged; all 0 for a healthy network.

    ``left_behind`` is the probability that a request in transit when its process dies arrives much later.
    """

    lost: float = 0.0
    late: float = 0.0
    spoilt: float = 0.0
    left_behind: float = 0.0


@dataclass(slots=True)
class Mishap:
    """A fault that hits one request: the ``left``-th of its kind from now on.

    ``unanswered``: it arrives, its answer is lost, and nothing else gets through for some time.
    ``held``: it arrives late, whatever its sender does meanwhile. ``orphaned``: it arrives late,
    and its sender dies as soon as it has been sent.
    """

    call: str
    left: int
    kind: Literal["unanswered", "held", "orphaned"]
    seconds: float

    def strikes(self, call: str) -> bool:
        """Count a request; return whether it is the one to hit."""
        # Counted down below zero too, so that it strikes once.
        self.left -= call == self.call
        return call == self.call and self.left == 0


class SimulatedStore:
    """A store that never loses objects, reached through the simulated network.

    A request in transit arrives even if its sender has timed out or died, unless it is lost.
    """

    def __init__(
        self, seed: str, now_ms: Callable[[], int], note: Callable[[str], None], faults: NetworkFaults
    ) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.faults = faults
        self.away = False
        self.mishap: Mishap | None = None
        self._random = random.Random(seed)
        self._now_ms = now_ms
        self._note = note
        # Requests in transit belong to nobody: with the context of their sender they would count as its work,
        # and end with its life.
        self._outside = Context()

    async def create(self, path: str, data: bytes) -> None:
        """Create an object, or raise ObjectExistsError."""

        def perform() -> None:
            if path in self.objects:
                raise ObjectExistsError(path=path)
            self.objects[path] = data, self._now_ms()

        await self._call("create", path, perform, _short(data))

    async def put(self, path: str, data: bytes) -> None:
        """Write an object."""
        await self._call("put", path, lambda: self.objects.update({path: (data, self._now_ms())}))

    async def get(self, path: str) -> bytes:
        """Return an object's content."""
        return self._spoilt(await self._call("get", path, lambda: self._find(path)))

    async def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return a part of an object."""
        part = await self._call("get_range", path, lambda: self._find(path)[start : start + length])
        return self._spoilt(part)

    async def delete(self, paths: Sequence[str]) -> None:
        """Remove objects."""

        def perform() -> None:
            for path in paths:
                self.objects.pop(path, None)

        await self._call("delete", " ".join(paths), perform)

    async def list(self, prefix: str, *, after: str = "") -> Listing:
        """Return the objects under a prefix whose path sorts behind ``after``."""
        under = prefix.rstrip("/") + "/" if prefix else ""
        return await self._call(
            "list",
            prefix,
            lambda: sorted(
                ObjectInfo(path, len(data), at_ms)
                for path, (data, at_ms) in self.objects.items()
                if path.startswith(under) and path > after
            ),
        )

    def newest_manifest(self, partition: PartitionId) -> Manifest | None:
        """Return the newest manifest in the store, without the network; None if there is none yet."""
        prefix = manifests_prefix(partition)
        path = max((path for path in self.objects if path.startswith(prefix)), default=None)
        return None if path is None else decode_manifest(self.objects[path][0], path)

    def _find(self, path: str) -> bytes:
        if path not in self.objects:
            raise ObjectNotFoundError(path=path)
        return self.objects[path][0]

    def _spoilt(self, data: bytes) -> bytes:
        if not data or self._random.random() >= self.faults.spoilt:
            return data
        at = self._random.randrange(len(data))
        if self._random.random() < 0.5:
            return data[:at]
        return data[:at] + bytes([data[at] ^ (1 << self._random.randrange(8))]) + data[at + 1 :]

    # The network ------------------------------------------------------------------------

    async def _call(self, operation: str, path: str, perform: Callable[[], T], detail: str = "") -> T:
        loop, life = asyncio.get_running_loop(), LIFE.get()
        call = f"{operation} {_kind(path)}"
        if life is not None:
            life.reach(f"before bucket.{call}")
        answer: asyncio.Future[T] = loop.create_future()
        mishap = self.mishap if self.mishap is not None and self.mishap.strikes(call) else None
        # Both are drawn now, whatever happens: a seed stays the same run only if the number of draws does not
        # depend on the order in which things arrive.
        lost, answer_lost = self.away or self._draws(self.faults.lost), self._draws(self.faults.lost)

        def arrive() -> None:
            if life is not None and life.dead and self._draws(self.faults.left_behind):
                loop.call_later(
                    LEFT_BEHIND_SECONDS_MAX * self._random.random(), arrive, context=self._outside
                )
                return
            try:
                outcome: T | Exception = perform()
            except (ObjectExistsError, ObjectNotFoundError) as error:
                outcome = error
            self._note(f"bucket.{operation} {path} {detail} {type(outcome).__name__}")
            if life is not None and not life.pass_by(f"after bucket.{call}"):
                return
            if mishap is not None and mishap.kind == "unanswered":
                self._cut_off(mishap.seconds)
            elif not answer_lost:
                loop.call_later(self._latency(), deliver, outcome, context=self._outside)
            # The rest is never answered, and ends only with the time-out of its sender.
            elif self._draws(0.7):
                loop.call_later(self._latency(), deliver, _away(call), context=self._outside)

        def deliver(outcome: T | Exception) -> None:
            # The sender has timed out, or does not live any more.
            if answer.done() or (life is not None and life.dead):
                return
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

        if mishap is not None and mishap.kind != "unanswered":
            self._note(f"{call} is {mishap.kind}")
            loop.call_later(mishap.seconds, arrive, context=self._outside)
            if mishap.kind == "orphaned" and life is not None:
                life.die()
        elif not lost:
            loop.call_later(self._latency(), arrive, context=self._outside)
        elif self._draws(0.9):
            loop.call_later(self._latency(), deliver, _away(call), context=self._outside)
        return await answer

    def _cut_off(self, seconds: float) -> None:
        self._note("the bucket is cut off")
        self.away = True

        def back() -> None:
            self.away = False

        asyncio.get_running_loop().call_later(seconds, back, context=self._outside)

    def _draws(self, probability: float) -> bool:
        return self._random.random() < probability

    def _latency(self) -> float:
        draw = self._random.random()
        if draw < self.faults.late:
            return LATE_SECONDS_MAX * self._random.random() ** 2
        return 0.002 + 0.05 * self._random.random() ** 2


def _away(call: str) -> BucketError:
    return BucketError(reason=f"{call} was lost")


def _kind(path: str) -> str:
    """Return the kind of object that a path names: the third folder under ``partitions``, else the first."""
    parts = path.split("/")
    return parts[2] if parts[0] == "partitions" and len(parts) > 2 else parts[0].removesuffix(".json")


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
