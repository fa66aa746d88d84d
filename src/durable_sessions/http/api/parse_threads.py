"""Threads that parse large bodies, so that the event loop is not blocked."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from durable_sessions.errors import OverloadedError, ShareExceededError
from durable_sessions.limits import Limits
from durable_sessions.shares import CURRENT_HOLDER, LOCAL, Shares

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE_BYTES = 64 * 1024
"""Bodies up to this size are parsed in the event loop: a thread would cost more than it saves."""
_THREADS = ThreadPoolExecutor(2, thread_name_prefix="parser")


def is_large(body: bytes) -> bool:
    """Say whether a body is large enough to be parsed in a thread."""
    return len(body) > AT_ONCE_BYTES


class BodyParser:
    """Parses bodies; the bytes that wait for a thread or are in one are limited, in total and per key.

    A key that has none there is admitted one body if that fits, and while there are none at all, any body is.
    """

    def __init__(self, limits: Limits) -> None:
        self._bodies = Shares(limits.parsing_bytes_max)

    @property
    def held(self) -> int:
        """How many bytes of bodies wait for a thread or are in one."""
        return self._bodies.held

    async def parsed(self, body: bytes, parse: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the parsed body, using a thread if it is large, or shed the request."""
        if not is_large(body):
            return parse(*args, **kwargs)
        holder, size = CURRENT_HOLDER.get(), len(body)
        self._take(holder, size)
        running = asyncio.get_running_loop().run_in_executor(_THREADS, partial(parse, *args, **kwargs))

        def done(future: "asyncio.Future[T]") -> None:
            self._bodies.give(holder, size)
            if not future.cancelled():
                future.exception()  # retrieved: the client may have disconnected

        running.add_done_callback(done)
        # Shielded and counted to the end: a body stays in memory while a thread has it, even if cancelled.
        return await asyncio.shield(running)

    def _take(self, holder: str, size: int) -> None:
        bodies = self._bodies
        if bodies.try_take(holder, size):
            return
        fits = bodies.held + size <= bodies.most
        if not bodies.held or (fits and (holder == LOCAL or not bodies.of(holder))):
            bodies.take(holder, size)
        elif fits:
            raise ShareExceededError(what="the memory for large bodies", limit="parsing_bytes_max")
        else:
            raise OverloadedError(what="large bodies that wait to be taken apart")
