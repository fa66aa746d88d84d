"""A TCP connection that can be cut as a network is: nothing is refused or closed, it only does not arrive."""

import asyncio
import itertools
import threading
from collections.abc import Coroutine
from typing import Any

from tests.support.loopback import LoopbackServer


class Cable(LoopbackServer):
    """Passes connections on to ports of this machine in turn, in a thread of its own, for any process.

    While it is cut, both directions keep what was sent; mending it lets all of that arrive, as TCP does.
    """

    def __init__(self, *target_ports: int) -> None:
        super().__init__()
        self._targets = itertools.cycle(target_ports)
        self._loop = asyncio.new_event_loop()
        self._whole = asyncio.Event()
        self._whole.set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self.start())

    def cut(self) -> None:
        """Let nothing arrive from now on."""
        self._loop.call_soon_threadsafe(self._whole.clear)

    def mend(self) -> None:
        """Let everything arrive again, what was sent meanwhile too."""
        self._loop.call_soon_threadsafe(self._whole.set)

    def close(self) -> None:
        """End all connections."""
        self._run(self.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection on until either side ends it."""
        try:
            await self._whole.wait()
            there, back = await asyncio.open_connection("127.0.0.1", next(self._targets))
        except OSError:
            writer.close()
            return
        ends = (reader, back), (there, writer)
        pumps = [asyncio.create_task(self._pump(source, target)) for source, target in ends]
        try:
            await asyncio.gather(*pumps)
        finally:
            for pump in pumps:
                pump.cancel()
            writer.close()
            back.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
            await self._whole.wait()
        except OSError:
            pass
        writer.close()
