"""Threads that take large bodies apart, so that the event loop goes on meanwhile."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

AT_ONCE_BYTES = 64 * 1024
"""Bodies up to this size are taken apart where they are: a thread would cost more than it spares."""
_THREADS = ThreadPoolExecutor(2, thread_name_prefix="parser")


def is_large(body: bytes) -> bool:
    """Say whether a body is to be taken apart in a thread."""
    return len(body) > AT_ONCE_BYTES


async def parsed(body: bytes, parse: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what ``parse`` makes of a body, in a thread if it is large."""
    if not is_large(body):
        return parse(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(parse, *args, **kwargs))
