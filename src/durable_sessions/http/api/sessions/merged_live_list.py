"""The changed sessions of several partitions, followed together; if one cannot be followed, all end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from struct import Struct

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import LinkDownError
from durable_sessions.http.api.sessions.merged_listing import Ask
from durable_sessions.http.api.sessions.session_changes import ChangedSessions
from durable_sessions.http.carrier.handler_failures import close_iterator
from durable_sessions.http.carrier.message import Request, StreamingResponse
from durable_sessions.limits import Limits

PATH = b"/internal/session-changes"
"""Where each partition answers with its changes: a stream of portions, each with its length in front."""
_LENGTH = Struct("<I")
_PORTION = msgspec.msgpack.Decoder(ChangedSessions)


def framed(portion: ChangedSessions) -> bytes:
    """Return a portion as it is sent to another process."""
    payload = msgspec.msgpack.encode(portion)
    return _LENGTH.pack(len(payload)) + payload


async def portions(chunks: AsyncIterator[bytes]) -> AsyncIterator[ChangedSessions]:
    """Yield the portions of a stream, whose chunks may begin and end anywhere."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        while len(buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
            if len(buffer) < end:
                break
            yield _PORTION.decode(bytes(memoryview(buffer)[_LENGTH.size : end]))
            del buffer[:end]


class MergedChanges:
    """Follows the changes of several partitions for a workspace; ``ask`` asks one of them."""

    def __init__(self, ask: Ask, partitions: Sequence[int], limits: Limits) -> None:
        self._ask = ask
        self._partitions = partitions
        self._limits = limits

    async def follow(self, caller: Caller) -> AsyncIterator[ChangedSessions]:
        """Return the changes of the caller's workspace; refuse if a partition cannot be followed."""
        opened: list[AsyncIterator[bytes]] = []
        try:
            for number in self._partitions:
                request = Request(b"GET", PATH, b"", {}, b"")
                request.caller = caller
                answer = await self._ask(number, request)
                if not isinstance(answer, StreamingResponse):
                    raise LinkDownError(reason=f"partition {number} cannot be followed now")
                opened.append(answer.chunks)
        except BaseException:
            for chunks in opened:
                await close_iterator(chunks)
            raise
        return self._merged(opened)

    async def _merged(self, opened: Sequence[AsyncIterator[bytes]]) -> AsyncIterator[ChangedSessions]:
        # One portion of each partition waits at most: more would only be kept here instead of there.
        waiting: asyncio.Queue[ChangedSessions | None] = asyncio.Queue(len(opened))
        readers = [asyncio.create_task(_read(chunks, waiting), name="live list part") for chunks in opened]
        pending = ChangedSessions()
        try:
            while True:
                if not pending.more:
                    found = await waiting.get()
                    if found is None:
                        return
                    _add(pending, found)
                while not waiting.empty():
                    found = waiting.get_nowait()
                    if found is None:
                        return
                    _add(pending, found)
                yield self._taken(pending)
                await asyncio.sleep(self._limits.live_list_seconds)
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)

    def _taken(self, pending: ChangedSessions) -> ChangedSessions:
        """Take as much as one frame may have; ``pending.more`` says whether something is left."""
        portion = ChangedSessions(gone=pending.gone)
        size = 0
        for name, encoded in pending.changed[: self._limits.live_list_sessions_max]:
            size += len(encoded)
            if portion.changed and size > self._limits.live_list_frame_bytes_max:
                break
            portion.changed.append((name, encoded))
        pending.gone = []
        pending.changed = pending.changed[len(portion.changed) :]
        pending.more = portion.more = bool(pending.changed)
        return portion


async def _read(chunks: AsyncIterator[bytes], waiting: "asyncio.Queue[ChangedSessions | None]") -> None:
    """Pass on the portions of one partition; None when they end, for whatever reason."""
    try:
        async for portion in portions(chunks):
            await waiting.put(portion)
    finally:
        await close_iterator(chunks)
        while waiting.full():  # the end must be seen, however much waits before it
            waiting.get_nowait()
        waiting.put_nowait(None)


def _add(pending: ChangedSessions, found: ChangedSessions) -> None:
    """Add a portion to what is pending; a session that changes again moves to the end."""
    names = {name for name, _ in found.changed} | set(found.gone)
    pending.changed = [one for one in pending.changed if one[0] not in names] + found.changed
    pending.gone = [one for one in pending.gone if one not in names] + found.gone
