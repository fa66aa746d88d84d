"""What a worker and the supervisor of workers tell each other, over the worker's standard input.

The worker says that it serves; the end of the channel tells it that the supervisor is gone, however it died.
"""

import asyncio
import os
import sys
from collections.abc import Callable

READY = b"ready"


class WorkerChannel:
    """The worker's end."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()

    def tell_ready(self) -> None:
        """Tell the supervisor that this worker serves."""
        try:
            os.write(self._descriptor, READY)
        except OSError:
            pass  # it is gone, which the reader of the channel notices

    def when_gone(self, call: Callable[[], None]) -> None:
        """Call a function, once, when the supervisor is gone."""
        loop = asyncio.get_running_loop()

        def readable() -> None:
            try:
                if os.read(self._descriptor, 64):
                    return
            except BlockingIOError:
                return
            except OSError:
                pass
            loop.remove_reader(self._descriptor)
            call()

        os.set_blocking(self._descriptor, False)
        loop.add_reader(self._descriptor, readable)
