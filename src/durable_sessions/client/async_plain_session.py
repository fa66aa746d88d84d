"""A session as a plain log, for programs with an event loop: its properties, appending and reading."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Unpack

from durable_sessions.client import calls, pages, search, slots
from durable_sessions.client import outline as outline_calls
from durable_sessions.client.async_transport import AsyncTransport
from durable_sessions.client.async_writer import AsyncWriter
from durable_sessions.client.calls import UNSET, Appended, EventLike, Unset
from durable_sessions.client.errors import ClientError, PreconditionFailedError
from durable_sessions.client.event import Event
from durable_sessions.client.handle import HandleAppend, SessionHandle
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.outbox import Bounds
from durable_sessions.client.outline import Outline, OutlinedEvents
from durable_sessions.client.pages import EventFilters, Order
from durable_sessions.client.producer import ProducerCache
from durable_sessions.client.search import EventSearchFilters, PositionFilters, SearchPage, SearchPositions
from durable_sessions.client.session_tail import SILENCE_SECONDS_MAX, SessionTail
from durable_sessions.client.signatures import keywords_of
from durable_sessions.client.slots import HeldSlot


class AsyncPlainSession(SessionHandle[asyncio.Lock]):
    """What a session is without its work: a log that is created, appended to, read and deleted."""

    def __init__(
        self,
        id: str,  # noqa: A002
        transport: AsyncTransport,
        producers: ProducerCache[asyncio.Lock],
        incarnation: str | None = None,
        epoch: int | None = None,
    ) -> None:
        super().__init__(id, producers, incarnation, epoch)
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

    async def redact(
        self,
        events: str | Event | Iterable[str | Event],
        *,
        reason: str,
        artifacts: Iterable[str] = (),
        digest: bool = True,
    ) -> Event | None:
        """Erase events for good, here, in the source and in all forks, and return the record of it.

        This needs a key with the role admin. ``artifacts`` are erased with them. Without ``digest`` no
        SHA-256 is kept, for texts that could be guessed from it. Returns None if the session takes no events.
        """
        chosen = [events] if isinstance(events, str | Event) else events
        call = calls.redact(self.id, chosen, reason, artifacts, digest=digest)
        return await self._transport.send(self._pinned.pin(call))

    async def delete(self, *, if_match: str | None = None) -> None:
        """Remove the session and all its events; a later append to this handle creates a new one.

        ``if_match`` removes it only if it still ends at that offset.
        """
        await self._transport.send(self._pinned.pin(calls.delete(self.id, if_match)))
        self._deleted()

    # Appending --------------------------------------------------------------------------

    async def append(
        self,
        events: EventLike | Iterable[EventLike],
        *,
        if_match: str | None = None,
        if_: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
    ) -> Appended:
        """Append one event or several: durably, all or none, and exactly once despite retries.

        ``if_match`` appends only if the session still ends at that offset. ``if_`` are conditions that must
        all hold, such as ``{"slots": {"head": event.id, "lock": None}}``; ``exists``, ``tail`` and
        ``incarnation`` are further ones. If one fails, PreconditionFailedError has the current values in
        ``details``. ``session`` has title, metadata and so on, for a session that this very append creates.
        After an error whose ``outcome_unknown`` is true, it is safe to call this again with the same events:
        they are stored once.
        """
        return await self.append_body(calls.encode_append(events, if_, session), if_match)

    async def holds(self, if_: Mapping[str, Any]) -> bool:
        """Say whether conditions hold, such as ``{"slots": {"head": event.id}}``; nothing is written."""
        try:
            await self._transport.send(calls.test_conditions(self.id, if_))
        except PreconditionFailedError:
            return False
        return True

    async def append_body(
        self, body: bytes, if_match: str | None = None, *, source: str | None = None
    ) -> Appended:
        """Append events that are already encoded, as a JSON list.

        With ``source`` they are marked as imported from there.
        """
        # The lock is held until the outcome is known: a later append must not be sent under the number of one
        # that may have been stored. If this task is cancelled, the number stays unresolved.
        async with self._producers.lock:
            operation = HandleAppend(
                self.id, self._producers, self._pinned, body, if_match, source, self._epoch
            )
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
        events on each side of ``around``, a number or an id. ``types`` are exact or end in ``.*``. With
        ``pairs="keep"`` a page never separates a tool call from its result. Events of more than ``clip``
        bytes come as copies with long texts cut in the middle; with ``lens`` those of adapters have a member
        that says what they mean. ``thread`` reads the events of one thread.
        """
        return self._transport.paginate(pages.events(self.id, pinned=self._pinned, **filters))

    def slots(
        self,
        names: str | Iterable[str] = (),
        *,
        prefix: str | None = None,
        at: str | int | None = None,
        order: Order = "asc",
        limit: int | None = None,
        values: bool = True,
        after: str | None = None,
    ) -> AsyncIterator[HeldSlot]:
        """Yield the slots that events hold: those named, in this order, then those with a prefix, by name.

        All of them are as of one moment: now, or ``at`` a position or an offset. Without names or a prefix
        they are all slots of the session. Slots that no event holds are left out. With ``values=False`` the
        events have only id, offset, type and size in bytes. ``after`` leaves out names up to this one.
        """
        asked = slots.slots(
            self.id,
            names,
            prefix=prefix,
            at=at,
            order=order,
            limit=limit,
            values=values,
            after=after,
            pinned=self._pinned,
        )
        return self._transport.paginate(asked)

    async def slot(self, name: str, *, at: str | int | None = None) -> Event | None:
        """Return the event that holds a slot, None if none does."""
        async for held in self.slots(name, at=at):
            return held.event
        return None

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

    async def outline(self, *, points: int | None = None) -> Outline:
        """Return a summary of what the events are, without their bodies; ask again until it is complete."""
        return await self._transport.send(self._pinned.pin(outline_calls.outline(self.id, points=points)))

    async def outline_block(self, position: int) -> OutlinedEvents:
        """Return the block of the outline that holds the event at a position."""
        return await self._transport.send(self._pinned.pin(outline_calls.outline_block(self.id, position)))

    @keywords_of(search.positions)
    async def search_positions(self, q: str, **filters: Unpack[PositionFilters]) -> SearchPositions:
        """Return the positions of events that match ``q``, ascending, 10,000 at most, without the events."""
        return await self._transport.send(self._pinned.pin(search.positions(self.id, q, **filters)))

    @keywords_of(search.within)
    async def search(self, q: str, **filters: Unpack[EventSearchFilters]) -> SearchPage:
        """Return the events of the session that match ``q`` best, up to ``limit`` of them."""
        return await self._transport.send(self._pinned.pin(search.within(self.id, q, **filters)))
