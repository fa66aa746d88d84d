"""Runs what waits in a thread of its own, for programs with an event loop."""

import asyncio
from collections.abc import Callable
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(
    function: Callable[..., T], *arguments: Any, unwanted: Callable[[T], object] | None = None
) -> T:
    """Return what a function gives that runs in a new thread.

    Commands may take hours: in the loop's own few threads they would keep out look-ups of addresses, and with
    them the renewal of leases. A cancelled wait does not end the function; closing the sandbox does. What it
    returns when nobody waits any more is given to ``unwanted``, in a thread, too.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            if error is None and unwanted is not None:
                Thread(target=unwanted, args=(result,), daemon=True).start()
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def work() -> None:
        try:
            outcome: tuple[Any, BaseException | None] = (function(*arguments), None)
        except BaseException as error:
            outcome = (None, error)
        try:
            loop.call_soon_threadsafe(settle, *outcome)
        except RuntimeError:  # the loop was closed: nobody waits any more
            if outcome[1] is None and unwanted is not None:
                unwanted(outcome[0])

    Thread(target=work, name=f"sandbox {getattr(function, '__name__', '')}", daemon=True).start()
    return await done
