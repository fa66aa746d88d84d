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
from durable_sessions.client.handle import HandleAppend, SessionHandle
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.outbox import Bounds
from durable_sessions.client.pages import EventFilters
from durable_sessions.client.producer import ProducerCache
from durable_sessions.client.search import EventSearchFilters, SearchPage
from durable_sessions.client.session_tail import SILENCE_SECONDS_MAX, SessionTail
from durable_sessions.client.signatures import keywords_of


class AsyncSession(SessionHandle[asyncio.Lock]):
    """A handle of one session. Making one sends nothing; the first append creates the session.

    A handle is bound to the session that first answers it. When that one is deleted and another is created
    under its id, every call raises SessionReplacedError; a new handle binds to the new one.
    The appends of a client to one session are sent one after the other.
    """

    def __init__(
        self,
        id: str,  # noqa: A002
        transport: AsyncTransport,
        producers: ProducerCache[asyncio.Lock],
        incarnation: str | None = None,
    ) -> None:
        super().__init__(id, producers, incarnation)
        self._transport = transport

    # Properties and lifecycle -----------------------------------------------------------

    async def info(self) -> SessionInfo:
        """Return the session as the server describes it."""
        return await self._transport.send(self._pinned.pin(calls.info(self.id)))

    async def update(
        self, *, title: str | Unset | None = UNSET, metadata: Mapping[str, Any] | Unset = UNSET
    ) -> SessionInfo:
        """Change the title, or some of the metadata; a value of None removes a key."""
        return await self._transport.send(
            self._pinned.pin(calls.update(self.id, title=title, metadata=metadata))
        )

    async def close(self) -> SessionInfo:
        """Refuse further events; the session stays readable."""
        return await self._transport.send(self._pinned.pin(calls.close(self.id)))

    async def archive(self) -> SessionInfo:
        """End the session for good: it is terminated, read-only, and left out of lists."""
        return await self._transport.send(self._pinned.pin(calls.archive(self.id)))

    async def delete(self) -> None:
        """Remove the session and all its events; a later append to this handle creates a new one."""
        await self._transport.send(self._pinned.pin(calls.delete(self.id)))
        self._deleted()

    async def fork(
        self,
        id: str | None = None,  # noqa: A002
        *,
        at: str | int | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> "AsyncSession":
        """Create a session that begins with the events before ``at``: an offset or position, None for all."""
        made = await self._transport.send(self._fork(id, at, title, metadata))
        return AsyncSession(made.id, self._transport, self._cache, made.incarnation)

    # Appending --------------------------------------------------------------------------

    async def append(
        self, events: EventLike | Iterable[EventLike], *, if_match: str | None = None
    ) -> Appended:
        """Append one event or several: durably, all or none, and exactly once despite retries.

        ``if_match`` appends only if the session still ends at that offset. After an error whose
        ``outcome_unknown`` is true, calling this again with the same events is safe: they are stored once.
        """
        return await self.append_body(calls.encode_events(events), if_match)

    async def append_body(self, body: bytes, if_match: str | None = None) -> Appended:
        """Append events that are already encoded, as a JSON list."""
        # The lock is held until the outcome is known: a later append must not be sent under the number of one
        # that may have been stored. If this task is cancelled, the number stays unresolved.
        async with self._producers.lock:
            operation = HandleAppend(self.id, self._producers, self._pinned, body, if_match)
            try:
                return operation.stored(await self._transport.send(operation.call))
            except ClientError as error:
                raise operation.failed(error)  # noqa: B904 - the same error, or one that has its cause

    def writer(
        self,
        *,
        batch_events: int = 500,
        batch_bytes: int = 4 * 1024 * 1024,
        linger_seconds: float = 0.02,
        queue_events: int = 10_000,
        queue_bytes: int = 64 * 1024 * 1024,
    ) -> AsyncWriter:
        """Return a writer that appends in the background, in order, many events per request."""
        bounds = Bounds(batch_events, batch_bytes, linger_seconds, queue_events, queue_bytes)
        return AsyncWriter(self.append_body, bounds)

    # Reading ----------------------------------------------------------------------------

    @keywords_of(pages.events, "pinned")
    def events(self, **filters: Unpack[EventFilters]) -> AsyncIterator[Event]:
        """Yield the events up to the current end; only one page at a time is in memory.

        Begins at an ``offset``, at the event number ``from_``, at the last ``tail`` events, or ``window``
        events on each side of number ``around``. ``types`` are exact or end in ``.*``. With ``pairs="keep"``
        a page never separates a tool call from its result.
        """
        return self._transport.paginate(pages.events(self.id, pinned=self._pinned, **filters))

    async def event(self, event_id: str) -> Event:
        """Return one event."""
        return await self._transport.send(self._pinned.pin(calls.event(self.id, event_id)))

    async def tail(
        self,
        *,
        offset: str | int | None = None,
        types: str | Iterable[str] | None = None,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
    ) -> AsyncGenerator[Event, None]:
        """Yield events as they are appended, each once and in order, across lost connections.

        Begins at the first event, or at an ``offset``: a saved ``event.next_offset``, or ``"now"``. Ends when
        the session is closed or archived. Raises NotFoundError when it is deleted, and SessionReplacedError
        when another one was created under its id.
        """
        tail = SessionTail(self.id, offset, types, self._transport.attempts(), self._pinned)
        while not tail.is_over():
            if tail.needs_page():
                for event in tail.take_page(await self._transport.send(tail.page())):
                    yield event
                continue
            # Without aclosing, the connection of a caller that stops iterating would stay open until the
            # garbage collector finds the inner generator.
            async with aclosing(self._transport.receive(tail, silence_seconds_max)) as received:
                async for event in received:
                    yield event

    @keywords_of(search.within)
    async def search(self, q: str, **filters: Unpack[EventSearchFilters]) -> SearchPage:
        """Return the events of the session that match ``q`` best, up to ``limit`` of them."""
        return await self._transport.send(self._pinned.pin(search.within(self.id, q, **filters)))
