"""What a writer holds: events that wait, events that are being sent, and what became of them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from durable_sessions.client.calls import Appended
from durable_sessions.client.errors import ApiError, WriterClosedError

_DIVISIBLE = frozenset({"invalid_event", "invalid_json", "event_too_large", "body_too_large"})
"""Refusals that are about some event of a batch, so that the others can go without it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is sent at a time, how long to wait for more of it, and how much may wait."""

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


class Waiting(Protocol):
    """What the caller holds of an event until it is acknowledged."""

    def resolve(self, outcome: Appended | Exception) -> None:
        """Tell what became of the event."""


P = TypeVar("P", bound=Waiting)


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
    """The events of one writer in their order; knows no clock and waits for nothing.

    An event that the server refuses for itself fails alone. Any other failure stops the writer: all that is
    held fails with it, and nothing more is taken, so that nothing is written behind a hole.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._items: deque[Item[P]] = deque()
        self._divided: deque[Batch[P]] = deque()
        self._held_bytes = 0
        self._failure: Exception | None = None
        self._untold: Exception | None = None
        self.taken = 0
        self.settled = 0
        self.closing = False

    @property
    def empty(self) -> bool:
        """Whether nothing waits to be sent."""
        return not self._items and not self._divided

    @property
    def full_batch(self) -> bool:
        """Whether there is nothing to be gained by waiting for more events."""
        waiting = len(self._items) >= self._bounds.batch_events
        return waiting or bool(self._divided) or self._held_bytes >= self._bounds.batch_bytes

    def has_room(self, size: int) -> bool:
        """Say whether an event can be taken now; a single one always can. Raise if none ever will."""
        if self._failure is not None:
            raise self._failure
        if self.closing:
            raise WriterClosedError
        held = self.taken - self.settled
        fits = held < self._bounds.queue_events and self._held_bytes + size <= self._bounds.queue_bytes
        return fits or held == 0

    def put(self, body: bytes, pending: P) -> None:
        """Take an event."""
        self._items.append(Item(body, pending))
        self._held_bytes += len(body)
        self.taken += 1

    def next_batch(self) -> Batch[P]:
        """Return what to send next: as much as fits, and at least one event."""
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
        """Take note of what became of events that were sent."""
        if isinstance(outcome, Exception):
            self.failed(batch, outcome)
        else:
            self.acknowledged(batch, outcome)

    def acknowledged(self, batch: Batch[P], appended: Appended) -> None:
        """Take note that events are stored."""
        self._settle(batch, appended)

    def failed(self, batch: Batch[P], error: Exception) -> None:
        """Take note that events could not be stored: find the one to blame, or stop."""
        blamed = _blamed(batch, error)
        if blamed is None:
            self._stop(batch, error)
        elif len(batch) == 1:
            self._settle(batch, error)
        elif blamed < 0:
            middle = len(batch) // 2
            # extendleft() reverses its argument, so the first half is sent first, and the order is kept.
            self._divided.extendleft((batch[middle:], batch[:middle]))
        else:
            if rest := [*batch[:blamed], *batch[blamed + 1 :]]:
                self._divided.appendleft(rest)
            self._settle([batch[blamed]], error)

    def tell(self) -> None:
        """Raise the first error that nobody has been told of."""
        error, self._untold = self._untold, None
        if error is not None:
            raise error

    def _stop(self, batch: Batch[P], error: Exception) -> None:
        self._failure = error
        held = [*batch, *(item for divided in self._divided for item in divided), *self._items]
        self._divided.clear()
        self._items.clear()
        self._settle(held, error)

    def _settle(self, batch: Batch[P], outcome: Appended | Exception) -> None:
        if isinstance(outcome, Exception) and self._untold is None:
            self._untold = outcome
        for item in batch:
            self._held_bytes -= len(item.body)
            item.pending.resolve(outcome)
        self.settled += len(batch)


def _blamed(batch: Batch[P], error: Exception) -> int | None:
    """Return which event is to blame for a refusal, -1 if it is some event, None if it is none."""
    if not isinstance(error, ApiError) or error.outcome_unknown or error.code not in _DIVISIBLE:
        return None
    index = error.details.get("index")
    return index if isinstance(index, int) and 0 <= index < len(batch) else -1
