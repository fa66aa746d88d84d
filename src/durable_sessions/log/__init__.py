"""Durable batches in order: the one thing that everything else is derived from."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

NEW_LOG_GAP = 2**40
"""How far beyond what another log has flushed a new one begins: more than any log holds."""


class Extent(NamedTuple):
    """A run of bytes in the batch at a position."""

    position: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who claims a log: a name that is random for each process, and one for people."""

    node: str
    name: str = ""


class LogIdentity(Protocol):
    """What a log says of itself: its lineage, where it begins and ends, and the checksums of its frames."""

    @property
    def lineage(self) -> str | None:
        """The random name that ties the log to its bucket; None until it is tied."""
        ...

    @property
    def intended(self) -> str | None:
        """The lineage that was being tied to the log when its process ended, or None."""
        ...

    @property
    def location(self) -> str:
        """Where the log is, for messages to people."""
        ...

    @property
    def begins_after(self) -> int:
        """The position after which the log is complete; batches up to it may be gone."""
        ...

    @property
    def ends_at(self) -> int | None:
        """Where the last batch ends, None for a log that has never had one."""
        ...

    async def checksum(self, position: int) -> int | None:
        """Return the checksum of the frame at a position, verified; None if there is no such frame."""
        ...


class Log(LogIdentity, Protocol):
    """An append-only sequence of batches, each identified by its position.

    Positions are positive and grow; they are not consecutive. One batch is appended at a
    time. After any error from :meth:`append` the log accepts nothing more until it has been
    opened, claimed and replayed again: either nobody knows what is durable, or another process owns it.
    """

    @property
    def proven_until(self) -> float:
        """Until when nobody else can acknowledge anything, in seconds of CLOCK_BOOTTIME."""
        ...

    async def claim(self, by: Claimant) -> int:
        """Become the only one that appends, and return the partition epoch: the position of the claim.

        Raises LogFencedError if another process was first; a caller that still wants the log claims it again.
        """
        ...

    async def prove(self) -> None:
        """Make sure that the log is still ours now; several callers share one frame."""
        ...

    def begin_at(self, address: int) -> None:
        """Make a log that has never had a batch give out only positions greater than this address."""
        ...

    async def intend(self, lineage: str) -> None:
        """Record durably that the next manifest may carry this lineage."""
        ...

    async def tie(self, lineage: str) -> None:
        """Record durably that a manifest carries this lineage: from now on the log has a bucket."""
        ...

    async def append(self, batch: bytes) -> int:
        """Make ``batch`` durable and return its position; on return it survives power loss.

        After LogFencedError or LogFullError it is certainly not there and never will be; after any
        other LogError nobody knows until the log has been replayed.
        """
        ...

    def replay(self, after: int = 0) -> AsyncIterator[tuple[int, bytes]]:
        """Yield every durable batch with a position greater than ``after``, in order."""
        ...

    async def read(self, extents: Sequence[Extent]) -> list[bytes]:
        """Return exactly the bytes of each extent; never fewer."""
        ...

    def begin_file(self) -> None:
        """Begin a new file with the next append, if batches are in files: trimming removes whole files."""
        ...

    async def trim(self, through: int) -> None:
        """Allow every batch before ``through`` to be dropped; that one stays, to prove the lineage."""
        ...

    async def close(self) -> None:
        """Release the log; batches whose append has not returned may or may not be durable."""
        ...


class MeasuredLog(Log, Protocol):
    """A log that a server runs on: it counts what it does, and says what it could not tidy up."""

    bytes_written: int
    syncs: int
    trim_failures: int
    trim_failure: str | None

    @property
    def segment_bytes(self) -> int:
        """How many bytes the log has."""
        ...

    @property
    def segment_count(self) -> int:
        """In how many files the log is."""
        ...
