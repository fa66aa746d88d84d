"""A writer that appends in the background, in a thread."""

from collections.abc import Callable
from threading import Condition, Thread

from durable_sessions.client.calls import Appended, EventLike, encode_event
from durable_sessions.client.outbox import Bounds, Outbox, body_of


class Pending:
    """An event that a writer has queued."""

    __slots__ = ("_changed", "_outcome")

    def __init__(self, changed: Condition) -> None:
        self._changed = changed
        self._outcome: Appended | Exception | None = None

    def done(self) -> bool:
        """Say whether the outcome of the event is known."""
        return self._outcome is not None

    def result(self, timeout: float | None = None) -> Appended:
        """Wait until the event is durable, or raise its error; TimeoutError after ``timeout`` seconds."""
        with self._changed:
            if not self._changed.wait_for(self.done, timeout):
                raise TimeoutError("The event is not acknowledged yet.")
        if isinstance(self._outcome, Exception):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome

    def resolve(self, outcome: Appended | Exception) -> None:
        """Set the outcome of the event; the writer calls this."""
        self._outcome = outcome


class Writer:
    """Appends events in the background, in order, many per request. Use it in a ``with`` block.

    An event is durable when its ``Pending`` has a result, or when ``flush()`` or ``close()`` has returned;
    before that it is only in the memory of this process. Threads may share a writer.
    """

    def __init__(self, append: Callable[[bytes], Appended], bounds: Bounds) -> None:
        self._append = append
        self._bounds = bounds
        self._outbox: Outbox[Pending] = Outbox(bounds)
        self._changed = Condition()
        self._flushing = 0
        self._thread: Thread | None = None

    def append(self, event: EventLike) -> Pending:
        """Queue an event; waits only while the queue is full. Raises if the writer has failed or closed."""
        body = encode_event(event)
        with self._changed:
            self._changed.wait_for(lambda: self._outbox.has_room(len(body)))
            pending = Pending(self._changed)
            self._outbox.put(body, pending)
            # Only now: a writer that is opened and not used costs no thread.
            if self._thread is None:
                self._thread = Thread(target=self._run, name="durable-sessions-writer", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return pending

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all events queued so far are durable; raise the first error that was not raised yet."""
        with self._changed:
            # What is queued while this waits is not waited for, or a busy writer would never be flushed.
            goal = self._outbox.taken
            self._flushing += 1
            self._changed.notify_all()
            try:
                if not self._changed.wait_for(lambda: self._outbox.settled >= goal, timeout):
                    raise TimeoutError("Not all events are acknowledged yet.")
            finally:
                self._flushing -= 1
            self._outbox.raise_unreported()

    def close(self) -> None:
        """Flush, and accept no more events; raise what ``flush()`` would."""
        with self._changed:
            self._outbox.closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        with self._changed:
            self._outbox.raise_unreported()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            self.close()
        except Exception as failure:
            if error is None:
                raise
            error.add_note(f"The writer has failed as well: {failure}")

    def _run(self) -> None:
        outbox, changed = self._outbox, self._changed
        while True:
            with changed:
                changed.wait_for(lambda: not outbox.empty or outbox.closing)
                if outbox.empty:
                    return
                # Wait for more events to share a request, but not while a flush or close waits.
                changed.wait_for(
                    lambda: outbox.full_batch or outbox.closing or self._flushing, self._bounds.linger_seconds
                )
                batch = outbox.next_batch()
            try:
                # Outside of the lock: a request takes long, and meanwhile others may queue events for the
                # next one.
                outcome: Appended | Exception = self._append(body_of(batch))
            except Exception as error:
                outcome = error
            with changed:
                outbox.sent(batch, outcome)
                changed.notify_all()
