"""Appending in the background, with a task."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from durable_sessions.client.calls import Appended, EventLike, encode_event
from durable_sessions.client.outbox import Bounds, Outbox, body_of


class AsyncPending:
    """An event that was given to a writer; awaiting it waits until it is durable, or raises why not."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        """Say whether it is known what became of the event."""
        return self._future.done()

    async def result(self) -> Appended:
        """Wait until the event is durable, or raise why it is not."""
        return await asyncio.shield(self._future)

    def __await__(self) -> Generator[Any, None, Appended]:
        return self.result().__await__()

    def resolve(self, outcome: Appended | Exception) -> None:
        """Tell what became of the event; the writer does this."""
        if isinstance(outcome, Exception):
            self._future.set_exception(outcome)
            self._future.exception()  # it is raised by flush() as well, so nobody has to ask here
        else:
            self._future.set_result(outcome)


class AsyncWriter:
    """Appends events in the background, in order, many at a time. Use it in an ``async with`` block.

    An event counts when its ``AsyncPending`` says so, or when ``flush()`` or ``close()`` has returned: before
    that it is in the memory of this process only.
    """

    def __init__(self, append: Callable[[bytes], Awaitable[Appended]], bounds: Bounds) -> None:
        self._append = append
        self._bounds = bounds
        self._outbox: Outbox[AsyncPending] = Outbox(bounds)
        self._changed = asyncio.Condition()
        self._hurried = 0
        self._task: asyncio.Task[None] | None = None

    async def append(self, event: EventLike) -> AsyncPending:
        """Take an event; waits only while the queue is full. Raises if the writer has failed."""
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
        """Wait until all events taken so far are durable; raise the first error that was not raised yet."""
        async with self._changed:
            goal = self._outbox.taken
            self._hurried += 1
            self._changed.notify_all()
            try:
                await self._changed.wait_for(lambda: self._outbox.settled >= goal)
            finally:
                self._hurried -= 1
            self._outbox.tell()

    async def close(self) -> None:
        """Flush, and take no more events; raise what ``flush()`` would."""
        async with self._changed:
            self._outbox.closing = True
            self._changed.notify_all()
        if self._task is not None:
            await asyncio.shield(self._task)
        self._outbox.tell()

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
        """Wait a moment for more events."""
        outbox = self._outbox
        try:
            async with asyncio.timeout(self._bounds.linger_seconds):
                await self._changed.wait_for(
                    lambda: outbox.full_batch or outbox.closing or bool(self._hurried)
                )
        except TimeoutError:
            pass
