"""A session, for programs with an event loop."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Unpack

from durable_sessions.client import calls, pages, search
from durable_sessions.client.async_transport import AsyncTransport
from durable_sessions.client.async_writer import AsyncWriter
from durable_sessions.client.calls import UNSET, Appended, EventLike, Unset
from durable_sessions.client.errors import ClientError
from durable_sessions.client.event import Event
from durable_sessions.client.following import SILENCE_SECONDS_MAX, Following
from durable_sessions.client.handle import Appending, SessionHandle
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.outbox import Bounds
from durable_sessions.client.pages import EventFilters
from durable_sessions.client.producer import Lines
from durable_sessions.client.search import EventSearchFilters, SearchPage


class AsyncSession(SessionHandle[asyncio.Lock]):
    """A handle of one session. To have one costs nothing: the first append creates the session.

    It means one session for good: once one has answered, and is deleted, and another gets its id, every call
    raises SessionReplacedError. A new handle takes whatever is there.
    Appends of one client to one session wait for each other.
    """

    def __init__(
        self,
        id: str,  # noqa: A002
        transport: AsyncTransport,
        lines: Lines[asyncio.Lock],
        incarnation: str | None = None,
    ) -> None:
        super().__init__(id, lines, incarnation)
        self._transport = transport

    # What is said of it ---------------------------------------------------------------

    async def info(self) -> SessionInfo:
        """Return what the server knows of the session."""
        return await self._transport.send(self._life.meant(calls.info(self.id)))

    async def update(
        self, *, title: str | Unset | None = UNSET, metadata: Mapping[str, Any] | Unset = UNSET
    ) -> SessionInfo:
        """Change the title, or some of the metadata; a value of None removes a key."""
        return await self._transport.send(
            self._life.meant(calls.update(self.id, title=title, metadata=metadata))
        )

    async def close(self) -> SessionInfo:
        """Let the session take no more events; it can be read for ever."""
        return await self._transport.send(self._life.meant(calls.close(self.id)))

    async def archive(self) -> SessionInfo:
        """End the session for good: it is terminated, read-only and no longer listed."""
        return await self._transport.send(self._life.meant(calls.archive(self.id)))

    async def delete(self) -> None:
        """Remove the session and all its events; what is appended to this handle later begins a new one."""
        await self._transport.send(self._life.meant(calls.delete(self.id)))
        self._deleted()

    async def fork(
        self,
        id: str | None = None,  # noqa: A002
        *,
        at: str | int | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> "AsyncSession":
        """Return a new session that shares all events before ``at``: an offset or a position, or the end."""
        made = await self._transport.send(self._fork(id, at, title, metadata))
        return AsyncSession(made.id, self._transport, self._lines, made.incarnation)

    # Appending --------------------------------------------------------------------------

    async def append(
        self, events: EventLike | Iterable[EventLike], *, if_match: str | None = None
    ) -> Appended:
        """Append one event or several, durably, all or none, and exactly once however often it is sent.

        With ``if_match`` only if the session still ends at that offset. After an error whose
        ``outcome_unknown`` is true, calling this again with the same events is safe: they are stored once.
        """
        return await self.append_body(calls.encode_events(events), if_match)

    async def append_body(self, body: bytes, if_match: str | None = None) -> Appended:
        """Append events that are JSON already, a list."""
        async with self._line.lock:
            appending = Appending(self.id, self._line, self._life, body, if_match)
            try:
                return appending.stored(await self._transport.send(appending.call))
            except ClientError as error:
                raise appending.failed(error)  # noqa: B904 - it is the same error, or tells its cause

    def writer(
        self,
        *,
        batch_events: int = 500,
        batch_bytes: int = 4 * 1024 * 1024,
        linger_seconds: float = 0.02,
        queue_events: int = 10_000,
        queue_bytes: int = 64 * 1024 * 1024,
    ) -> AsyncWriter:
        """Return a writer that appends in the background, many events at a time, in order."""
        bounds = Bounds(batch_events, batch_bytes, linger_seconds, queue_events, queue_bytes)
        return AsyncWriter(self.append_body, bounds)

    # Reading ----------------------------------------------------------------------------

    def events(self, **filters: Unpack[EventFilters]) -> AsyncIterator[Event]:
        """Yield events up to the present end; of a session of any length one page is in memory.

        Begins at an ``offset``, at the event number ``from_``, at the last ``tail`` events, or ``window``
        events on each side of number ``around``. ``types`` are exact or end in ``.*``. With ``pairs="keep"``
        no tool call is parted from its result.
        """
        return self._transport.walk(pages.events(self.id, life=self._life, **filters))

    async def event(self, event_id: str) -> Event:
        """Return one event."""
        return await self._transport.send(self._life.meant(calls.event(self.id, event_id)))

    async def tail(
        self,
        *,
        offset: str | int | None = None,
        types: str | Iterable[str] | None = None,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
    ) -> AsyncGenerator[Event, None]:
        """Yield events as they are appended, each once and in order, across all disconnects.

        Begins at the first event, or at an ``offset``: a saved ``event.next_offset``, or ``"now"``. Ends when
        the session is closed or archived; raises NotFoundError when it is deleted, SessionReplacedError when
        another one has its id since.
        """
        following = Following(self.id, offset, types, self._transport.attempts(), self._life)
        while not following.is_over():
            if following.needs_page():
                for event in following.take_page(await self._transport.send(following.page())):
                    yield event
                continue
            async with aclosing(self._transport.receive(following, silence_seconds_max)) as received:
                async for event in received:
                    yield event

    async def search(self, q: str, **filters: Unpack[EventSearchFilters]) -> SearchPage:
        """Return the events of the session that match best, up to ``limit``: 20 unless said otherwise."""
        return await self._transport.send(self._life.meant(search.within(self.id, q, **filters)))
