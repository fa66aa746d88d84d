"""A writer that appends in the background, in a task."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from durable_sessions.client.calls import Appended, EventLike, encode_event
from durable_sessions.client.outbox import Bounds, Outbox, body_of


class AsyncPending:
    """An event that a writer has queued; await it to wait until it is durable, or to get its error."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        """Say whether the outcome of the event is known."""
        return self._future.done()

    async def result(self) -> Appended:
        """Wait until the event is durable, or raise its error."""
        return await asyncio.shield(self._future)

    def __await__(self) -> Generator[Any, None, Appended]:
        return self.result().__await__()

    def resolve(self, outcome: Appended | Exception) -> None:
        """Set the outcome of the event; the writer calls this."""
        if isinstance(outcome, Exception):
            self._future.set_exception(outcome)
            self._future.exception()  # now retrieved: flush() raises it too, so nobody has to await it
        else:
            self._future.set_result(outcome)


class AsyncWriter:
    """Appends events in the background, in order, many per request. Use it in an ``async with`` block.

    An event is durable when its ``AsyncPending`` has a result, or when ``flush()`` or ``close()`` has
    returned; before that it is only in the memory of this process.
    """

    def __init__(self, append: Callable[[bytes], Awaitable[Appended]], bounds: Bounds) -> None:
        self._append = append
        self._bounds = bounds
        self._outbox: Outbox[AsyncPending] = Outbox(bounds)
        self._changed = asyncio.Condition()
        self._flushing = 0
        self._task: asyncio.Task[None] | None = None

    async def append(self, event: EventLike) -> AsyncPending:
        """Queue an event; waits only while the queue is full. Raises if the writer has failed or closed."""
        body = encode_event(event)
        async with self._changed:
            await self._changed.wait_for(lambda: self._outbox.has_room(len(body)))
            pending = AsyncPending()
            self._outbox.put(body, pending)
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="durable-sessions-writer")
            self._changed.notify_all()
        return pending

    async def flush(self) -> None:
        """Wait until all events queued so far are durable; raise the first error that was not raised yet."""
        async with self._changed:
            goal = self._outbox.taken
            self._flushing += 1
            self._changed.notify_all()
            try:
                await self._changed.wait_for(lambda: self._outbox.settled >= goal)
            finally:
                self._flushing -= 1
            self._outbox.raise_unreported()

    async def close(self) -> None:
        """Flush, and accept no more events; raise what ``flush()`` would."""
        async with self._changed:
            self._outbox.closing = True
            self._changed.notify_all()
        if self._task is not None:
            await asyncio.shield(self._task)
        self._outbox.raise_unreported()

    async def __aenter__(self) -> "AsyncWriter":
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            await self.close()
        except Exception as failure:
            if error is None:
                raise
            error.add_note(f"The writer has failed as well: {failure}")

    async def _run(self) -> None:
        outbox, changed = self._outbox, self._changed
        while True:
            async with changed:
                await changed.wait_for(lambda: not outbox.empty or outbox.closing)
                if outbox.empty:
                    return
                await self._linger()
                batch = outbox.next_batch()
            try:
                outcome: Appended | Exception = await self._append(body_of(batch))
            except Exception as error:
                outcome = error
            async with changed:
                outbox.sent(batch, outcome)
                changed.notify_all()

    async def _linger(self) -> None:
        """Wait for more events to share the request, but not while a flush or close waits."""
        outbox = self._outbox
        try:
            async with asyncio.timeout(self._bounds.linger_seconds):
                await self._changed.wait_for(
                    lambda: outbox.full_batch or outbox.closing or bool(self._flushing)
                )
        except TimeoutError:
            pass
