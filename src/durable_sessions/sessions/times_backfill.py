"""Marks sessions of earlier versions as imported and sets their original times, once, from their events."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import (
    SessionNotFoundError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.sessions import original_members, original_times
from durable_sessions.sessions.original_times import NONE, Times
from durable_sessions.sessions.record import FOLDER
from durable_sessions.sessions.session_lookup import existing
from durable_sessions.sessions.store import Sessions
from durable_sessions.streams.effects import Effect, StreamDescribed
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.times import parse_rfc3339

EVENTS_AT_A_TIME = 200
_STREAMS_AT_A_TIME = 50
_PREFIX = FOLDER + "/"
_SERVERS = ("session.updated", "session.status_terminated")
_GONE = (SessionNotFoundError, StreamNotFoundError, StreamGoneError)


class _Event(msgspec.Struct):
    type: str = ""
    created_at: str = ""
    original_created_at: msgspec.Raw = lenient.NULL
    original_processed_at: msgspec.Raw = lenient.NULL
    source: msgspec.Raw = lenient.NULL


_EVENT = msgspec.json.Decoder(_Event)
_EVENTS = msgspec.json.Decoder(list[msgspec.Raw])


class TimesBackfill:
    """Reads every older session once; the file ``mark`` records that this is done.

    Only sessions with ids from clients are read, which every import sets, and only their first events unless
    these have original times.
    """

    def __init__(self, sessions: Sessions, mark: Path) -> None:
        self._sessions = sessions
        self._streams = sessions.streams
        self._mark = mark

    async def run(self) -> None:
        """Read all sessions, unless that was done; appends made meanwhile set their times themselves."""
        if await asyncio.to_thread(self._mark.exists):
            return
        async for key in self._named():
            try:
                await self._backfill(key)
            except _GONE:
                continue  # deleted or expired meanwhile
        # Last: if the process ends before this, all of it is done again, which changes nothing twice.
        await asyncio.to_thread(self._mark.touch, 0o600)

    async def _named(self) -> AsyncIterator[Key]:
        turn = self._sessions.scans.turns.begin()
        for page in self._streams.stream_pages(_PREFIX, _STREAMS_AT_A_TIME):
            for stream, _ in page:
                if stream.named or stream.parent is not None:
                    yield stream.key
            await turn.rest()

    async def _backfill(self, key: Key) -> None:
        durable = self._sessions.find(key)
        found, position = NONE, 0
        while position < durable.tail:
            page = await self._sessions.events.page(durable, position, durable.tail, EVENTS_AT_A_TIME)
            found = await asyncio.to_thread(_widened, found, b"".join(page.pieces))
            if found.first_ms is None or page.next <= position:
                break
            position = page.next
        if found.is_imported:
            await self._streams.commit(lambda state, now: _decide(state, key, found, now), (key,))


def _widened(times: Times, events: bytes) -> Times:
    """Return times that also cover these events, which are joined by commas."""
    first, last, has_imports = times.first_ms, times.last_ms, times.has_imports
    for raw in lenient.decode(_EVENTS, b"[%b]" % events):
        try:
            event = lenient.decode(_EVENT, bytes(raw))
        except msgspec.MsgspecError:
            continue
        has_imports = has_imports or original_members.is_import(event.source)
        at_ms = original_members.instant_ms(event.original_created_at)
        if at_ms is None:
            at_ms = original_members.instant_ms(event.original_processed_at)
        if at_ms is not None and at_ms >= 0:
            first = at_ms if first is None else min(first, at_ms)
            last = at_ms if last is None else max(last, at_ms)
        elif first is not None and bytes(event.source)[:1] != b"{" and event.type not in _SERVERS:
            last = max(last or 0, parse_rfc3339(event.created_at) or 0)
    return Times(first, last, has_imports)


def _decide(state: State, key: Key, found: Times, now_ms: int) -> tuple[list[Effect], None]:
    """Return the effect of the times found, widened by those that appends have set meanwhile."""
    stream = existing(state, key, now_ms)
    known = original_times.of(stream.attributes)
    times = Times(
        min((at for at in (found.first_ms, known.first_ms) if at is not None), default=None),
        max((at for at in (found.last_ms, known.last_ms) if at is not None), default=None),
        found.has_imports or known.has_imports,
    )
    if times == known:
        return [], None
    # Nothing has happened in the session, so the time of its last change stays.
    return [StreamDescribed(stream.id, stream.changed_at_ms, {original_times.TIMES: times.encode()})], None
