"""An event loop without threads, sockets or waiting: virtual time advances when no callback is ready."""

import asyncio
import gc
import heapq
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

from durable_sessions.testing.simulation.life import LIFE, Crash, Life
from durable_sessions.threads import Pool

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STEPS_MAX = 400_000
"""After this many steps a run counts as an endless loop."""


class StuckError(Exception):
    """A deadlock, or an endless loop."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs callbacks in the order of asyncio, and timers in virtual time.

    What would run in another thread runs here as one step, some virtual time after it was asked
    for, and is answered some time after that. Callbacks that belong to a dead life are dropped.
    ``delay`` gives the next such time; ``problems`` are exceptions that nobody has caught.
    """

    def __init__(self, delay: Callable[[], float], coin: Callable[[], bool]) -> None:
        self.problems: list[str] = []
        self.steps = 0
        self._delay = delay
        self._coin = coin
        self._now = 0.0
        self._serial = 0
        self._ready: deque[tuple[asyncio.Handle, Life | None]] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Life | None]] = []
        self._busy_until: dict[object, float] = {}
        self._closed = False
        self._collecting = False

    # Running ----------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run until ``main`` is done, and return its result."""
        task = self.create_task(main)
        before = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._finalize)
        asyncio._set_running_loop(self)
        try:
            while not task.done():
                self._step()
        finally:
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*before)
        return task.result()

    def _step(self) -> None:
        if self._ready:
            handle, life = self._ready.popleft()
        elif self._timers:
            when, _, handle, life = heapq.heappop(self._timers)
            if handle.cancelled():
                return
            self._now = max(self._now, when)
        else:
            raise StuckError("everybody waits, and nothing is left that could happen")
        if handle.cancelled() or (life is not None and life.dead):
            return
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise StuckError(f"no end after {STEPS_MAX} steps")
        handle._run()
        if life is not None:
            life.step()

    def _finalize(self, generator: "AsyncGenerator[object, None]") -> None:
        life = LIFE.get()
        if not self._collecting and (life is None or not life.dead):
            self.call_soon(self.create_task, generator.aclose())

    def collect(self) -> None:
        """Free the remains of a dead process without running any of its code."""
        self._collecting = True
        gc.collect()
        self._collecting = False

    # The interface of an event loop -----------------------------------------------------

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call after everything that was to be called soon before."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((handle, _life(context)))
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call when so much virtual time has passed."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call at a virtual time."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._serial += 1
        heapq.heappush(self._timers, (when, self._serial, handle, _life(context)))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is passed over when its time comes."""

    def create_future(self) -> "asyncio.Future[Any]":
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        """Return a task that belongs to the life in whose context it is made."""
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        life = _life(context)
        if life is not None:
            life.tasks.append(task)
        return task

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """Run ``func`` as one step; an executor that is given has one thread, the default one has many.

        A job whose future is cancelled before it begins may or may not run, as with threads.
        """
        if isinstance(executor, Pool):
            executor = None
        point = "" if executor is None else f"catalog.{getattr(func, '__name__', 'next').strip('_')}"
        return self.work(executor, lambda: func(*args), point=point)

    def work(
        self, worker: object, function: Callable[[], T], *, point: str = "", surely: bool = False
    ) -> "asyncio.Future[T]":
        """Run ``function`` later, after what the same ``worker`` was given before; None is many workers."""
        begins = max(self._now + self._delay(), self._busy_until.get(worker, 0.0))
        ends = begins + self._delay()
        if worker is not None:
            self._busy_until[worker] = ends
        future: asyncio.Future[T] = self.create_future()

        def begin() -> None:
            if future.cancelled() and not surely and self._coin():
                return
            life = LIFE.get()
            answer: Callable[[], None]
            try:
                if life is not None and point:
                    life.reach(f"before {point}")
                result = function()
                if life is not None and point:
                    life.reach(f"after {point}")
            except Crash:
                return
            except Exception as error:
                raised = error
                answer = lambda: None if future.done() else future.set_exception(raised)  # noqa: E731
            else:
                answer = lambda: None if future.done() else future.set_result(result)  # noqa: E731
            self.call_at(ends, answer)

        self.call_at(begins, begin)
        return future

    async def finished(self, worker: object) -> None:
        """Wait until a worker has done all that it was given."""
        while self._busy_until.get(worker, 0.0) >= self._now:  # noqa: ASYNC110 (time is virtual)
            await asyncio.sleep(self._busy_until[worker] - self._now + 0.001)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Note an exception that a callback has let through; a future that nobody looks at is no fault."""
        error = context.get("exception")
        if "handle" in context and not isinstance(error, Crash):
            self.problems.append(f"{context.get('message')}: {error!r}")

    def get_debug(self) -> bool:
        """Return False."""
        return False

    def is_running(self) -> bool:
        """Say whether the loop runs now."""
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        """Say whether the loop was closed."""
        return self._closed

    def close(self) -> None:
        """Let go of everything that was still to come."""
        self._closed = True
        self._ready.clear()
        self._timers.clear()


class SimulatedWriter:
    """What the log's own thread does, as steps of a simulated loop."""

    def __init__(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self._loop = loop
        self._name = name

    def call(self, function: Callable[[], int]) -> "asyncio.Future[int]":
        """Run ``function`` in its turn; it runs even if the future is cancelled."""
        return self._loop.work(self, function, surely=True)

    async def stop(self, last_call: Callable[[], None]) -> None:
        """Let the call in flight finish, then run ``last_call``."""
        await self._loop.work(self, last_call, surely=True)


def _life(context: Context | None) -> Life | None:
    return LIFE.get() if context is None else context.get(LIFE)
