"""Histories: the requests of concurrent clients and their outcomes, with times.

A history is the input of :mod:`durable_sessions.testing.checker`. Times come from one clock that
never goes back, whichever process records. Positions count messages, so only JSON streams are
recorded, and every message is a text that no other append of the history has.
"""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec


class ProducerNumbers(msgspec.Struct, frozen=True):
    """The producer of an append, for exactly-once."""

    id: str
    epoch: int
    seq: int


class CreateOperation(msgspec.Struct, frozen=True, tag="Create"):
    """Create a stream: empty, or as a fork that begins with the first ``anchor`` messages of another.

    One that ``expires`` may go by itself at any time after it was created.
    """

    source: str | None = None
    anchor: int = 0
    expires: bool = False


class AppendOperation(msgspec.Struct, frozen=True, tag="Append"):
    """Append messages, close the stream, or both.

    A retry has the same producer and the same messages as the append that it repeats.
    """

    values: tuple[str, ...]
    producer: ProducerNumbers | None = None
    close: bool = False


class ReadOperation(msgspec.Struct, frozen=True, tag="Read"):
    """Read from a position on."""

    offset: int


class DeleteOperation(msgspec.Struct, frozen=True, tag="Delete"):
    """Delete a stream."""


class WakeOperation(msgspec.Struct, frozen=True, tag="Wake"):
    """Claim a session for a worker, whose name no other call of the history has."""

    worker: str
    principal: str
    seconds: int
    force: bool = False


class SentWork(msgspec.Struct, frozen=True):
    """An event, by an id that no other event of the history has."""

    id: str
    type: str


class WorkOperation(msgspec.Struct, frozen=True, tag="Work"):
    """Append events to a session under an epoch, or without one; a retry has the same events."""

    events: tuple[SentWork, ...]
    principal: str
    epoch: int | None = None


class RenewOperation(msgspec.Struct, frozen=True, tag="Renew"):
    """Renew the lease of an epoch."""

    epoch: int
    principal: str


class ReleaseOperation(msgspec.Struct, frozen=True, tag="Release"):
    """Release the lease of an epoch."""

    epoch: int
    principal: str


class ReadSessionOperation(msgspec.Struct, frozen=True, tag="ReadSession"):
    """Read all events of a session."""


StreamRequest = CreateOperation | AppendOperation | ReadOperation | DeleteOperation
SessionRequest = WakeOperation | WorkOperation | RenewOperation | ReleaseOperation | ReadSessionOperation
Request = StreamRequest | SessionRequest


class Done(msgspec.Struct, frozen=True, tag=True):
    """A create or a delete was acknowledged."""


class AppendAcknowledged(msgspec.Struct, frozen=True, tag="Appended"):
    """An append was acknowledged; ``next`` is the position after it.

    A duplicate was acknowledged before, and ``next`` is then the tail.
    """

    next: int
    duplicate: bool = False


class Answered(msgspec.Struct, frozen=True, tag=True):
    """What a read returned; ``next`` is the position to go on from."""

    values: tuple[str, ...]
    next: int
    up_to_date: bool = False
    closed: bool = False


class LeaseGranted(msgspec.Struct, frozen=True, tag=True):
    """A session was given to a worker, under an epoch."""

    epoch: int


class ShownWork(msgspec.Struct, frozen=True):
    """A stored event; ``epoch`` and ``worker`` are those of a claim or a release."""

    id: str
    type: str
    actor: str
    epoch: int | None = None
    worker: str | None = None


class SessionShown(msgspec.Struct, frozen=True, tag=True):
    """All events of a session."""

    events: tuple[ShownWork, ...]


class CallRefused(msgspec.Struct, frozen=True, tag="Refused"):
    """The server refused the call, and nothing was done; ``code`` as in the error's body."""

    code: str


class Unknown(msgspec.Struct, frozen=True, tag=True):
    """No answer, or one that says the outcome is unknown: it may have happened, or may yet happen."""


Outcome = Done | AppendAcknowledged | Answered | LeaseGranted | SessionShown | CallRefused | Unknown


class RecordedCall(msgspec.Struct, frozen=True):
    """One request and its outcome; a call with an unknown outcome has no end."""

    client: str
    stream: str
    request: Request
    started: float
    ended: float | None
    outcome: Outcome


class Recorder:
    """Records calls as they end; ``now`` is the clock of all clients of the history."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.calls: list[RecordedCall] = []
        self._now = now

    async def record(
        self, client: str, stream: str, request: Request, perform: Callable[[], Awaitable[Outcome]]
    ) -> Outcome:
        """Perform a call and record it; if it raises or is cancelled, its outcome is unknown."""
        started = self._now()
        outcome: Outcome = Unknown()
        try:
            outcome = await perform()
        finally:
            # Without an end it may take effect at any time until the end of the history.
            ended = None if isinstance(outcome, Unknown) else self._now()
            self.calls.append(RecordedCall(client, stream, request, started, ended, outcome))
        return outcome


def save(calls: Iterable[RecordedCall], path: Path) -> None:
    """Write a history to a file, one call per line."""
    path.write_bytes(msgspec.json.Encoder().encode_lines(calls))


def load(path: Path) -> list[RecordedCall]:
    """Read a history that :func:`save` has written."""
    return msgspec.json.Decoder(RecordedCall).decode_lines(path.read_bytes())
