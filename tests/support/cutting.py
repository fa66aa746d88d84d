"""A TCP proxy between a client and the server that cuts connections at the worst moments."""

import asyncio
import random
from collections import Counter

from tests.support.loopback import LoopbackServer

PIECE_BYTES = 65_536
LATE_SECONDS_MAX = 0.3
TRAILER_BYTES = 130
"""What an event stream says behind its data, near enough."""
MORE_SECONDS_MAX = 0.02
LIFE_BYTES = 8_000
"""How much a connection carries on average in either direction before it is cut there."""


class CuttingProxy(LoopbackServer):
    """Passes bytes on until it is time to cut; how and when is different for each connection.

    ``request``: while a request is on its way. ``answer``: while an answer is. ``swallowed``: the server has
    answered, and nobody hears it. ``late``: the client is cut off, and what it sent arrives later all the
    same.
    """

    def __init__(self, target_port: int) -> None:
        super().__init__()
        self._target_port = target_port
        self._chance = random.Random()
        self.cuts: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection on until it is cut."""
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
            connection = _Connection(self, reader, writer, there, back, self._chance)
            try:
                await connection.run()
            finally:
                back.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()


class _End:
    """How one direction of a connection ends, and after how many bytes."""

    def __init__(self, how: str, chance: random.Random) -> None:
        self.how = how
        self._left = int(chance.expovariate(1 / LIFE_BYTES))

    def comes_with(self, piece: bytes) -> bool:
        """Count a piece; say whether it is the last one."""
        self._left -= len(piece)
        return self._left < 0


class _Connection:
    """One connection, with the way in which it will end."""

    def __init__(
        self,
        proxy: CuttingProxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        chance: random.Random,
    ) -> None:
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._there, self._back = there, back
        self._chance = chance
        self._requests_end = _End(chance.choice(("request", "late")), chance)
        self._answers_end = _End(chance.choice(("answer", "swallowed")), chance)

    async def run(self) -> None:
        """Pass on in both directions until one of them ends."""
        ways = [asyncio.create_task(self._requests()), asyncio.create_task(self._answers())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _requests(self) -> None:
        while piece := await self._reader.read(PIECE_BYTES):
            if self._is_time(self._requests_end, piece):
                if self._requests_end.how == "request":
                    self._back.write(piece[: self._chance.randrange(len(piece))])
                else:
                    await self._deliver_late(piece)
                return
            self._back.write(piece)
            await self._back.drain()

    async def _answers(self) -> None:
        while piece := await self._there.read(PIECE_BYTES):
            if self._writer.is_closing():
                continue  # to a request that came late
            if self._is_time(self._answers_end, piece):
                if self._answers_end.how == "answer":
                    await self._deliver_part(piece)
                return
            self._writer.write(piece)
            await self._writer.drain()

    def _is_time(self, end: "_End", piece: bytes) -> bool:
        if not end.comes_with(piece):
            return False
        self._proxy.cuts[end.how] += 1
        return True

    async def _deliver_part(self, piece: bytes) -> None:
        first = self._chance.choice((0, max(0, len(piece) - TRAILER_BYTES)))
        self._writer.write(piece[: self._chance.randrange(first, len(piece))])
        if self._chance.random() < 0.5:  # an orderly end; otherwise a reset, which may overtake the data
            self._writer.write_eof()
            await asyncio.sleep(MORE_SECONDS_MAX)

    async def _deliver_late(self, piece: bytes) -> None:
        try:
            async with asyncio.timeout(MORE_SECONDS_MAX):
                while more := await self._reader.read(PIECE_BYTES):
                    piece += more
        except TimeoutError:
            pass
        self._writer.transport.abort()
        await asyncio.sleep(self._chance.random() * LATE_SECONDS_MAX)
        self._back.write(piece)
        await self._back.drain()
        await asyncio.sleep(LATE_SECONDS_MAX)
