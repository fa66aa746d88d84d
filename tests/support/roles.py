"""What the clients of a load do, each over and over: one class per habit."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from durable_sessions.testing.history import (
    Answered,
    AppendAcknowledged,
    CallRefused,
    Done,
    Outcome,
    ProducerNumbers,
    Unknown,
)
from tests.support.client import NOTHING_DONE, RETRY_SECONDS, Client

MISSING = frozenset({"stream_not_found", "stream_gone"})


@dataclass
class Known:
    """What the clients of a load have seen together: how far each stream goes, and what was done."""

    shared: list[str]
    tails: dict[str, int] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    stopping: bool = False

    def note(self, path: str, outcome: Outcome) -> None:
        """Take in how far a stream goes."""
        tail = outcome.next if isinstance(outcome, AppendAcknowledged | Answered) else 0
        self.tails[path] = max(self.tails.get(path, 0), tail)


def may_be_retried(outcome: Outcome) -> bool:
    """Say whether to try again: nothing was done, or nobody knows."""
    return isinstance(outcome, Unknown) or (isinstance(outcome, CallRefused) and outcome.code in NOTHING_DONE)


class Role(ABC):
    """One client; ``endless`` ones wait for others, and are told to stop in the middle of it."""

    endless = False
    pause_seconds = 0.02

    def __init__(self, client: Client, known: Known, chance: random.Random, bytes_max: int) -> None:
        self.client = client
        self.known = known
        self.chance = chance
        self._bytes_max = bytes_max
        self._values = 0

    async def run(self) -> None:
        """Take turns until the load stops."""
        while not self.known.stopping:
            await self.turn()
            await asyncio.sleep(self.chance.random() * self.pause_seconds)

    @abstractmethod
    async def turn(self) -> None:
        """Do what this client does, once."""

    def values(self) -> tuple[str, ...]:
        """Return one to three messages that nobody else has."""
        count = self.chance.choice((1, 1, 2, 3))
        self._values += count
        numbers = range(self._values - count, self._values)
        return tuple(
            f"{self.client.name}.{number}{'x' * self.chance.randrange(self._bytes_max)}" for number in numbers
        )

    async def append(
        self,
        path: str,
        values: tuple[str, ...],
        producer: ProducerNumbers | None = None,
        *,
        close: bool = False,
    ) -> Outcome:
        """Append once; nothing but a passing trouble may come between."""
        outcome = await self.client.append(path, values, producer, close=close)
        assert isinstance(outcome, AppendAcknowledged) or may_be_retried(outcome), f"{path}: {outcome}"
        self.known.note(path, outcome)
        if isinstance(outcome, AppendAcknowledged):
            self.known.done["appended"] += 1
            self.known.done[type(self).__name__] += 1
        return outcome

    async def insist(self, perform: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Do something until its outcome is known; only for what can be repeated."""
        while may_be_retried(outcome := await perform()):
            await asyncio.sleep(RETRY_SECONDS)
        assert not isinstance(outcome, CallRefused), outcome
        return outcome

    async def create(self, path: str, source: str | None = None, anchor: int = 0) -> None:
        """Create a stream, and tell the others."""
        await self.insist(lambda: self.client.create(path, source, anchor))
        self.known.note(path, Done())


class ProducerRole(Role):
    """Appends exactly once: numbers its appends, and repeats those without an answer."""

    def __init__(
        self, client: Client, known: Known, chance: random.Random, bytes_max: int, path: str | None = None
    ) -> None:
        super().__init__(client, known, chance, bytes_max)
        self._path = path or chance.choice(known.shared)
        self._epoch, self._seq = 0, 0

    async def turn(self) -> None:
        """Append, and now and then begin a new epoch."""
        values, producer = self.values(), ProducerNumbers(self.client.name, self._epoch, self._seq)
        await self.insist(lambda: self.append(self._path, values, producer))
        self._seq += 1
        if self.chance.random() < 0.05:
            self._epoch, self._seq = self._epoch + 1, 0


class PlainRole(Role):
    """Appends, and never repeats: what has no answer may be there or not."""

    async def turn(self) -> None:
        """Append to any of the shared streams."""
        await self.append(self.chance.choice(self.known.shared), self.values())


class CloserRole(Role):
    """Creates streams, fills and closes them, and finds that they take nothing more."""

    pause_seconds = 0.3
    _streams = 0

    async def turn(self) -> None:
        """One stream from its create to the refusal after its close."""
        path = f"{self.client.name}-{self._streams}"
        self._streams += 1
        await self.create(path)
        for seq in range(2):
            values, producer = self.values(), ProducerNumbers("filler", 0, seq)
            await self.insist(lambda v=values, p=producer: self.append(path, v, p))  # type: ignore[misc]
        if self.chance.random() < 0.5:
            await self.insist(lambda: self.append(path, (), close=True))
        else:
            last, producer = self.values(), ProducerNumbers("filler", 0, 2)
            await self.insist(lambda: self.append(path, last, producer, close=True))
        refused = await self.client.append(path, self.values())
        assert not isinstance(refused, AppendAcknowledged), "the stream is closed"


class CyclerRole(Role):
    """Creates, fills, forks and deletes a path, and uses it again; after a doubt it takes another path."""

    pause_seconds = 0.2
    _paths = 0
    _forks = 0

    async def turn(self) -> None:
        """One life of the path."""
        path = f"{self.client.name}-{self._paths}"
        if not await self._live(path):
            self._paths += 1

    async def _live(self, path: str) -> bool:
        """Return whether the path may be used again."""
        if not isinstance(await self.client.create(path), Done):
            return False  # also where a fork still needs the records of the life before
        self.known.tails[path] = 0
        for _ in range(self.chance.randrange(1, 4)):
            if isinstance(await self.append(path, self.values()), Unknown):
                return False
        if self.chance.random() < 0.3 and not await self._fork(path):
            return False
        while not isinstance(outcome := await self.client.delete(path), Done):
            if isinstance(outcome, Unknown):
                return False
            assert may_be_retried(outcome), outcome
            await asyncio.sleep(RETRY_SECONDS)
        self.known.done["CyclerRole"] += 1
        return True

    async def _fork(self, path: str) -> bool:
        fork = f"{self.client.name}-fork-{self._forks}"
        self._forks += 1
        outcome = await self.client.create(fork, path, self.known.tails[path])
        self.known.note(fork, outcome)
        return not isinstance(outcome, Unknown)


class ForkerRole(Role):
    """Forks the shared streams where it likes, and appends to its forks."""

    pause_seconds = 0.3
    _forks = 0

    async def turn(self) -> None:
        """One fork, with something of its own, read from somewhere."""
        source = self.chance.choice(self.known.shared)
        anchor = self.chance.randint(0, self.known.tails[source])
        path = f"{self.client.name}-{self._forks}"
        self._forks += 1
        await self.create(path, source, anchor)
        values, producer = self.values(), ProducerNumbers("own", 0, 0)
        await self.insist(lambda: self.append(path, values, producer))
        self.known.note(path, await self.client.read(path, self.chance.randint(0, anchor)))


class ReaderRole(Role):
    """Reads any stream from any position."""

    async def turn(self) -> None:
        """Read once."""
        path = self.chance.choice(list(self.known.tails))
        outcome = await self.client.read(path, self.chance.randint(0, self.known.tails[path]))
        self.known.done["ReaderRole"] += isinstance(outcome, Answered)


class TailRole(Role):
    """Follows a shared stream from its beginning, and never loses its place."""

    endless = True

    def __init__(self, client: Client, known: Known, chance: random.Random, bytes_max: int) -> None:
        super().__init__(client, known, chance, bytes_max)
        self._path = chance.choice(known.shared)
        self._position = 0

    def go_on(self, outcome: Outcome) -> None:
        """Take the next position from an answer; the stream is never shorter than it was."""
        assert isinstance(outcome, Answered) or may_be_retried(outcome), outcome
        if isinstance(outcome, Answered):
            self._position = outcome.next
            self.known.note(self._path, outcome)
            self.known.done[type(self).__name__] += 1


class PollerRole(TailRole):
    """Follows by long-poll."""

    async def turn(self) -> None:
        """Wait for the next messages."""
        self.go_on(await self.client.read(self._path, self._position, live=True))


class FollowerRole(TailRole):
    """Follows by server-sent events."""

    async def turn(self) -> None:
        """Follow until the connection ends."""
        async for said in self.client.follow(self._path, self._position):
            self.go_on(said)


CAST: tuple[type[Role], ...] = (
    *(ProducerRole,) * 4,
    *(PlainRole,) * 3,
    CloserRole,
    *(CyclerRole,) * 2,
    ForkerRole,
    *(ReaderRole,) * 2,
    *(PollerRole,) * 2,
    *(FollowerRole,) * 2,
)
