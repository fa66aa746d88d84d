"""A TCP proxy that misbehaves on command: between the server and its object store."""

import asyncio
import random

from tests.support.loopback import LoopbackServer


class FaultProxy(LoopbackServer):
    """Passes bytes on; in other modes it drops, delays, truncates or corrupts answers.

    Modes: ``pass``, ``drop`` (close at once), ``delay``, ``truncate`` (cut an answer short), ``corrupt``
    (change one byte of an answer behind its head), ``hang`` (never answer).
    """

    def __init__(self, target_port: int, seed: int = 0) -> None:
        super().__init__()
        self._target_port = target_port
        self._chance = random.Random(seed)
        self.mode = "pass"
        self.faults = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection on."""
        try:
            if self.mode == "drop":
                self.faults += 1
                return
            there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
            try:
                await asyncio.gather(self._pump(reader, back), self._answer(there, writer))
            finally:
                back.close()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self.mode != "pass":
                self.faults += 1
            if self.mode == "delay":
                await asyncio.sleep(self._chance.random() * 0.3)
            elif self.mode == "hang":
                await asyncio.sleep(3600)
            elif self.mode in ("truncate", "drop"):
                writer.write(data[: len(data) // 2])
                writer.transport.abort()
                return
            elif self.mode == "corrupt":
                data = self._corrupted(data)
            writer.write(data)
            await writer.drain()
        writer.close()

    def _corrupted(self, data: bytes) -> bytes:
        head = data.find(b"\r\n\r\n")
        begin = head + 4 if data.startswith(b"HTTP/") else 0
        if begin >= len(data):
            return data
        at = self._chance.randrange(begin, len(data))
        return data[:at] + bytes([data[at] ^ (1 << self._chance.randrange(8))]) + data[at + 1 :]
