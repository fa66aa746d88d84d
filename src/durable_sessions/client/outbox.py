"""The queue of a writer: events that wait, events that are being sent, and their outcomes."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from durable_sessions.client.calls import Appended
from durable_sessions.client.errors import ApiError, WriterClosedError

_DIVISIBLE = frozenset({"invalid_event", "invalid_json", "event_too_large", "body_too_large"})
"""Refusals caused by a single event of a batch, so that the others can be sent without it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much goes into a batch, how long a batch waits to fill, and how much may be queued."""

    batch_events: int
    batch_bytes: int
    linger_seconds: float
    queue_events: int
    queue_bytes: int

    def __post_init__(self) -> None:
        if min(self.batch_events, self.batch_bytes, self.queue_events, self.queue_bytes) < 1:
            raise ValueError("batch_events, batch_bytes, queue_events and queue_bytes are at least 1.")
        if self.linger_seconds < 0:
            raise ValueError("linger_seconds is at least 0.")


class PendingOutcome(Protocol):
    """What the caller gets for a queued event, to wait for its outcome."""

    def resolve(self, outcome: Appended | Exception) -> None:
        """Set the outcome of the event."""


P = TypeVar("P", bound=PendingOutcome)


@dataclass(frozen=True, slots=True)
class Item(Generic[P]):
    """An event that was given to the writer."""

    body: bytes
    pending: P


Batch = Sequence[Item[P]]


def body_of(batch: Batch[P]) -> bytes:
    """Return the body of an append of these events."""
    return b"[" + b",".join([item.body for item in batch]) + b"]"


class Outbox(Generic[P]):
    """The events of one writer in order; has no clock and never waits.

    An event that the server refuses on its own account fails alone. Any other failure stops the writer: all
    queued events fail with it and no more are accepted, so that nothing is written after a gap.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._items: deque[Item[P]] = deque()
        self._divided: deque[Batch[P]] = deque()
        self._held_bytes = 0
        self._failure: Exception | None = None
        self._unreported: Exception | None = None
        self.taken = 0
        self.settled = 0
        self.closing = False

    @property
    def empty(self) -> bool:
        """Whether nothing waits to be sent."""
        return not self._items and not self._divided

    @property
    def full_batch(self) -> bool:
        """Whether waiting for more events could not enlarge the next batch."""
        waiting = len(self._items) >= self._bounds.batch_events
        return waiting or bool(self._divided) or self._held_bytes >= self._bounds.batch_bytes

    def has_room(self, size: int) -> bool:
        """Say whether an event fits now; a single one always does. Raise if the writer has ended."""
        if self._failure is not None:
            raise self._failure
        if self.closing:
            raise WriterClosedError
        held = self.taken - self.settled  # events in flight count: they are in memory until acknowledged
        fits = held < self._bounds.queue_events and self._held_bytes + size <= self._bounds.queue_bytes
        return fits or held == 0

    def put(self, body: bytes, pending: P) -> None:
        """Queue an event."""
        self._items.append(Item(body, pending))
        self._held_bytes += len(body)
        self.taken += 1

    def next_batch(self) -> Batch[P]:
        """Return the events to send next: as many as fit into a batch, and at least one."""
        if self._divided:
            return self._divided.popleft()
        batch = [self._items.popleft()]
        size = len(batch[0].body) + 2
        while self._items and len(batch) < self._bounds.batch_events:
            size += len(self._items[0].body) + 1
            if size > self._bounds.batch_bytes:
                break
            batch.append(self._items.popleft())
        return batch

    def sent(self, batch: Batch[P], outcome: Appended | Exception) -> None:
        """Record the outcome of a batch."""
        if isinstance(outcome, Exception):
            self.failed(batch, outcome)
        else:
            self.acknowledged(batch, outcome)

    def acknowledged(self, batch: Batch[P], appended: Appended) -> None:
        """Record that the events of a batch are durable."""
        self._settle(batch, appended)

    def failed(self, batch: Batch[P], error: Exception) -> None:
        """Record that a batch was not stored: set the faulty event aside, or stop the writer."""
        blamed = _blamed(batch, error)
        if blamed is None:
            self._stop(batch, error)
        elif len(batch) == 1:
            self._settle(batch, error)
        elif blamed < 0:
            # The server did not say which event it is: halve the batch until the faulty one is alone.
            middle = len(batch) // 2
            # extendleft() reverses its argument, so the first half is sent first, and the order is kept.
            self._divided.extendleft((batch[middle:], batch[:middle]))
        else:
            if rest := [*batch[:blamed], *batch[blamed + 1 :]]:
                self._divided.appendleft(rest)
            self._settle([batch[blamed]], error)

    def raise_unreported(self) -> None:
        """Raise the first error that has not been raised yet."""
        error, self._unreported = self._unreported, None
        if error is not None:
            raise error

    def _stop(self, batch: Batch[P], error: Exception) -> None:
        self._failure = error
        held = [*batch, *(item for divided in self._divided for item in divided), *self._items]
        self._divided.clear()
        self._items.clear()
        self._settle(held, error)

    def _settle(self, batch: Batch[P], outcome: Appended | Exception) -> None:
        if isinstance(outcome, Exception) and self._unreported is None:
            self._unreported = outcome
        for item in batch:
            self._held_bytes -= len(item.body)
            item.pending.resolve(outcome)
        self.settled += len(batch)


def _blamed(batch: Batch[P], error: Exception) -> int | None:
    """Return the index of the faulty event: -1 if the answer does not name it, None if none is at fault."""
    if not isinstance(error, ApiError) or error.outcome_unknown or error.code not in _DIVISIBLE:
        return None
    index = error.details.get("index")
    return index if isinstance(index, int) and 0 <= index < len(batch) else -1
