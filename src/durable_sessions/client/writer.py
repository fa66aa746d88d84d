"""Appending in the background, with a thread."""

from collections.abc import Callable
from threading import Condition, Thread

from durable_sessions.client.calls import Appended, EventLike, encode_event
from durable_sessions.client.outbox import Bounds, Outbox, body_of


class Pending:
    """An event that was given to a writer."""

    __slots__ = ("_changed", "_outcome")

    def __init__(self, changed: Condition) -> None:
        self._changed = changed
        self._outcome: Appended | Exception | None = None

    def done(self) -> bool:
        """Say whether it is known what became of the event."""
        return self._outcome is not None

    def result(self, timeout: float | None = None) -> Appended:
        """Wait until the event is durable, or raise why it is not; TimeoutError after ``timeout`` seconds."""
        with self._changed:
            if not self._changed.wait_for(self.done, timeout):
                raise TimeoutError("The event is not acknowledged yet.")
        if isinstance(self._outcome, Exception):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome

    def resolve(self, outcome: Appended | Exception) -> None:
        """Tell what became of the event; the writer does this."""
        self._outcome = outcome


class Writer:
    """Appends events in the background, in order, many at a time. Use it in a ``with`` block.

    An event counts when its ``Pending`` says so, or when ``flush()`` or ``close()`` has returned: before that
    it is in the memory of this process only. May be shared by threads.
    """

    def __init__(self, append: Callable[[bytes], Appended], bounds: Bounds) -> None:
        self._append = append
        self._bounds = bounds
        self._outbox: Outbox[Pending] = Outbox(bounds)
        self._changed = Condition()
        self._hurried = 0
        self._thread: Thread | None = None

    def append(self, event: EventLike) -> Pending:
        """Take an event; waits only while the queue is full. Raises if the writer has failed."""
        body = encode_event(event)
        with self._changed:
            self._changed.wait_for(lambda: self._outbox.has_room(len(body)))
            pending = Pending(self._changed)
            self._outbox.put(body, pending)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="durable-sessions-writer", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return pending

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all events taken so far are durable; raise the first error that was not raised yet."""
        with self._changed:
            goal = self._outbox.taken
            self._hurried += 1
            self._changed.notify_all()
            try:
                if not self._changed.wait_for(lambda: self._outbox.settled >= goal, timeout):
                    raise TimeoutError("Not all events are acknowledged yet.")
            finally:
                self._hurried -= 1
            self._outbox.tell()

    def close(self) -> None:
        """Flush, and take no more events; raise what ``flush()`` would."""
        with self._changed:
            self._outbox.closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        with self._changed:
            self._outbox.tell()

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
                    lambda: outbox.full_batch or outbox.closing or self._hurried, self._bounds.linger_seconds
                )
                batch = outbox.next_batch()
            try:
                outcome: Appended | Exception = self._append(body_of(batch))
            except Exception as error:
                outcome = error
            with changed:
                outbox.sent(batch, outcome)
                changed.notify_all()
