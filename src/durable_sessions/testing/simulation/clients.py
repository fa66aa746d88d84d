"""Clients of a simulated server: they know only what they were answered, and try again what they were not."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from durable_sessions.errors import StreamNotFoundError
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.partition import Partition
from durable_sessions.streams import append, create
from durable_sessions.streams import stream as streams
from durable_sessions.testing import history
from durable_sessions.testing.history import Outcome, Recorder
from durable_sessions.testing.simulation.process import Process
from durable_sessions.testing.simulation.recorded_calls import RecordedCalls, act

JSON = "application/json"
TTLS = (None, None, None, None, 30 * 24 * 3600, 2)
"""Times to live, in seconds: the longest is longer than any run, so that those streams are only touched."""
EXPIRING_SECONDS = 24 * 3600
"""A shorter time to live than this can end within a run, since the clock jumps."""

ENDED = ("stream_closed", "stream_not_found", "stream_gone")
"""Refusals after which nobody appends to a stream any more."""


class Path:
    """A stream's path, and what the clients have agreed about it.

    Whoever creates or deletes it has it to himself, until it is there. ``origin`` is the source and the
    anchor of a fork.
    """

    def __init__(self, name: str, ttl_seconds: int | None) -> None:
        self.name = name
        self.ttl_seconds = ttl_seconds
        self.exists = False
        self.closed = False
        self.tail = 0
        self.changing = 0
        self.deleter: str | None = None
        self.origin: tuple[str | None, int] = (None, 0)
        self.life = 0

    @property
    def expires(self) -> bool:
        """Whether it may go by itself."""
        return self.ttl_seconds is not None and self.ttl_seconds < EXPIRING_SECONDS

    @property
    def free(self) -> bool:
        """Whether anyone may append to it."""
        return self.exists and self.deleter is None


@dataclass(slots=True)
class Book:
    """What all clients of a server share: the paths, the history, and what must never happen but did.

    ``prefix`` begins the names of their streams; ``sessions`` are those that workers share.
    ``operations`` counts what is in no history.
    """

    recorder: Recorder
    prefix: str = ""
    paths: list[Path] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    operations: int = 0


class Calls(RecordedCalls):
    """The calls that a client makes of a partition."""

    def __init__(self, client: str, book: Book) -> None:
        super().__init__(client, book.recorder, book.problems)

    async def create(
        self, partition: Partition, path: Path, source: str | None = None, anchor: int = 0
    ) -> Outcome:
        """Create a stream, or a fork of another."""
        fork = None if source is None else create.Fork(source, anchor)
        wanted = create.Create(None if fork else JSON, ttl_seconds=path.ttl_seconds, fork=fork)

        async def perform() -> Outcome:
            await partition.create(_key(path), wanted)
            return history.Done()

        wish = history.CreateOperation(source, anchor, path.expires)
        return await self.record(partition, path.name, wish, perform)

    async def append(
        self,
        partition: Partition,
        path: Path,
        values: tuple[str, ...],
        producer: history.ProducerNumbers | None = None,
        *,
        close: bool = False,
    ) -> Outcome:
        """Append messages, close, or both."""
        known = None if producer is None else streams.Producer(producer.id, producer.epoch, producer.seq)
        body = msgspec.json.encode(values) if values else b""
        wanted = append.Append(body, JSON, known, close=close)

        async def perform() -> Outcome:
            done = await partition.append(_key(path), wanted)
            return history.AppendAcknowledged(done.tail, done.duplicate)

        wish = history.AppendOperation(values, producer, close)
        return await self.record(partition, path.name, wish, perform)

    async def delete(self, partition: Partition, path: Path) -> Outcome:
        """Delete a stream."""

        async def perform() -> Outcome:
            await partition.delete(_key(path))
            return history.Done()

        return await self.record(partition, path.name, history.DeleteOperation(), perform)

    async def read(
        self, partition: Partition, path: Path, offset: int, bytes_max: int, wait_seconds: float = 0.0
    ) -> Outcome:
        """Read from a position on; at the tail wait for more, if that is wanted."""

        async def perform() -> Outcome:
            durable = partition.find(_key(path))
            partition.touch(durable)
            if offset > durable.tail:
                return history.CallRefused("offset_beyond_tail")
            if wait_seconds and not await _woken(partition, durable, offset, wait_seconds):
                self._problems.append(f"nobody woke {self.client}, who waited for {path.name}")
            found = await partition.read(durable, offset, bytes_max)
            up_to_date = found.next == durable.tail
            values = msgspec.json.decode(b"[%b]" % found.data[:-1], type=tuple[str, ...])
            return history.Answered(values, found.next, up_to_date, up_to_date and durable.closed)

        return await self.record(partition, path.name, history.ReadOperation(offset), perform)


class SimulatedClient:
    """Makes calls until its process ends, and goes on with the next one; what it knows it keeps."""

    def __init__(self, name: str, seed: str, book: Book, pause_seconds: float) -> None:
        self.name = name
        self._calls = Calls(name, book)
        self._book = book
        self._random = random.Random(f"{seed}/{name}")
        self._pause_seconds = pause_seconds
        self._count = 0
        self._producers: dict[tuple[str, int], tuple[str, int]] = {}
        self._unknown: dict[tuple[str, int], tuple[str, ...]] = {}

    async def run(self, process: Process) -> None:
        """Make one call after the other."""
        actions = (
            (self._append, 30),
            (self._append_as_producer, 30),
            (self._read, 20),
            (self._wait, 10),
            (self._create, 8),
            (self._fork, 5),
            (self._delete, 5),
            (self._close, 2),
            (self._hang_up, 4),
        )
        await act(self._random, self._pause_seconds, actions, process.partition)

    # What it does -----------------------------------------------------------------------

    async def _create(self, partition: Partition) -> None:
        paths = self._book.paths
        waiting = [path for path in paths if path.deleter == self.name and not path.exists]
        if waiting:
            await self._created(partition, self._random.choice(waiting))
        elif len(paths) < 15:
            path = Path(f"{self._book.prefix}s{len(paths)}", self._random.choice(TTLS))
            path.deleter = self.name
            paths.append(path)
            await self._created(partition, path)

    async def _fork(self, partition: Partition) -> None:
        source = self._some(lambda path: path.exists)
        if source is None or len(self._book.paths) >= 20:
            return
        path = Path(f"{self._book.prefix}f{len(self._book.paths)}", source.ttl_seconds)
        path.deleter = self.name
        path.origin = source.name, self._random.randint(0, source.tail)
        self._book.paths.append(path)
        await self._created(partition, path)

    async def _created(self, partition: Partition, path: Path) -> None:
        if isinstance(await self._calls.create(partition, path, *path.origin), history.Done):
            path.exists, path.closed, path.tail, path.deleter = True, False, path.origin[1], None
            path.origin = (None, 0)
            path.life += 1

    async def _append(self, partition: Partition) -> None:
        path = self._some(lambda path: path.free and not path.closed)
        if path is not None:
            await self._changed(path, self._calls.append(partition, path, self._values()))

    async def _append_as_producer(self, partition: Partition) -> None:
        path = self._some(
            lambda path: path.free and not path.closed and (path.name, path.life) in self._unknown
        )
        path = path or self._some(lambda path: path.free and not path.closed)
        if path is None:
            return
        key = path.name, path.life
        producer, seq = self._producers.get(key, (f"{self.name}.{path.life}", 0))
        values = self._unknown.get(key) or self._values()
        self._unknown[key] = values
        self._producers[key] = producer, seq
        sent = history.ProducerNumbers(producer, 0, seq)
        done = await self._changed(path, self._calls.append(partition, path, values, sent))
        if isinstance(done, history.AppendAcknowledged):
            self._producers[key] = producer, seq + 1
            del self._unknown[key]

    async def _close(self, partition: Partition) -> None:
        path = self._some(lambda path: path.free and not path.closed)
        if path is None:
            return
        values = self._values() if self._random.random() < 0.5 else ()
        done = await self._changed(path, self._calls.append(partition, path, values, close=True))
        path.closed = path.closed or isinstance(done, history.AppendAcknowledged)

    async def _delete(self, partition: Partition) -> None:
        path = self._some(lambda path: path.free and not path.changing)
        if path is None:
            return
        path.deleter = "nobody"  # if the answer does not come, it may be gone or not, and is left alone
        reading = self._calls.read(partition, path, 0, 10_000)  # it is being read while it goes
        _, done = await asyncio.gather(reading, self._calls.delete(partition, path))
        if isinstance(done, history.Done):
            path.exists, path.deleter = False, self.name

    async def _read(self, partition: Partition) -> None:
        path = self._some(lambda path: True)
        if path is not None:
            offset = self._random.choice((0, path.tail, self._random.randint(0, path.tail)))
            await self._calls.read(partition, path, offset, self._random.choice((1, 100, 1_000, 10_000)))

    async def _wait(self, partition: Partition) -> None:
        """Follow a stream for a while, as a tail does."""
        path = self._some(lambda path: path.exists)
        if path is None:
            return
        offset = path.tail
        for _ in range(self._random.randint(1, 4)):
            done = await self._calls.read(partition, path, offset, 1_000, wait_seconds=1.0)
            if not isinstance(done, history.Answered) or done.closed:
                return
            offset = done.next

    async def _hang_up(self, partition: Partition) -> None:
        """Make a call and not wait for its answer; as a producer, ask again at once."""
        action = self._random.choice((self._append, self._read, self._append_as_producer))
        try:
            async with asyncio.timeout(self._random.choice((0.0, 0.001, 0.01))):
                await action(partition)
        except TimeoutError:
            if action == self._append_as_producer:
                await action(partition)

    async def _changed(self, path: Path, call: Awaitable[Outcome]) -> Outcome:
        path.changing += 1
        try:
            done = await call
        finally:
            path.changing -= 1
        if isinstance(done, history.AppendAcknowledged):
            path.tail = max(path.tail, done.next)
        elif isinstance(done, history.CallRefused) and done.code in ENDED:
            path.closed = True
        return done

    def _some(self, wanted: Callable[[Path], bool]) -> Path | None:
        found = [path for path in self._book.paths if wanted(path)]
        return self._random.choice(found) if found else None

    def _values(self) -> tuple[str, ...]:
        values = []
        for _ in range(self._random.choice((1, 1, 1, 2, 5))):
            self._count += 1
            values.append(f"{self.name}-{self._count}" + "." * self._random.choice((0, 0, 20, 200)))
        return tuple(values)


async def _woken(partition: Partition, durable: DurableStream, offset: int, seconds: float) -> bool:
    """Wait until there is something to read, nothing more can come, or the time is over.

    Return False if the time was over and yet there was something: it had not been told.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while offset >= durable.tail and not durable.closed:
        if durable.removed:
            raise StreamNotFoundError(path=durable.stream.key.path)
        waiter = partition.wait(durable)
        timer = loop.call_at(deadline, _end, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            waiter.cancel()
        if loop.time() >= deadline:
            return durable.tail <= offset
    return True


def _end(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


def _key(path: Path) -> streams.Key:
    return streams.Key("default", path.name)
