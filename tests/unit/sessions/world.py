"""Sessions over a bucket in memory, driven by hand."""

from typing import Any, Self

import msgspec

from durable_sessions.limits import Limits
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.sessions import drafts
from durable_sessions.sessions.batch import Batch, Stored
from durable_sessions.sessions.event_ids import body_check, names_of
from durable_sessions.sessions.indexing import index_of
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.indexed import IndexOf
from durable_sessions.streams.append import Append
from durable_sessions.streams.stream import Key, Producer
from durable_sessions.tier.catalog_rebuild import NamesOf
from tests.unit.storage.world import World

Event = dict[str, Any]


class SessionWorld(World):
    """Everything below the faces; records are read from the bucket once they are flushed."""

    sessions: Sessions

    async def open(self, names: NamesOf = names_of, index: IndexOf = index_of) -> Self:
        await super().open(names, index)
        self.sessions = Sessions(self.partition, self.clock, self.ids, self.limits, ONLY_PARTITION)
        return self

    async def send(self, session: str, *events: Event, **options: Any) -> Stored:
        """Append events to a session."""
        return await self.sessions.append_named(key(session), batch(self.limits, *events, **options), 0)

    def find(self, session: str) -> DurableStream:
        """Return a session as its readers see it, and what they do not see of it."""
        found = self.sessions.find(key(session))
        assert isinstance(found, DurableStream)
        return found

    async def events(self, session: str) -> list[Event]:
        """Return all events of a session."""
        durable = self.find(session)
        page = await self.sessions.events.page(durable, 0, durable.tail, 1_000_000)
        return decoded(b"".join(page.pieces))


def batch(
    limits: Limits,
    *events: Event,
    idempotency: str | None = None,
    producer: tuple[str, int, int] | None = None,
    seq: str | None = None,
    close: bool = False,
    if_tail: int | None = None,
    creates: bool = True,
    actor: str = "me",
    unique: bool = False,
    if_exists: bool = False,
    incarnation: str | None = None,
) -> Batch:
    """Return a request to append, as the face makes it of a body and headers."""
    body = msgspec.json.encode(list(events))
    terms = Append(
        body,
        "application/json",
        None if producer is None else Producer(*producer),
        seq,
        close,
        None if if_tail is None else frozenset({if_tail}),
        if_exists,
        incarnation,
    )
    made = drafts.parse(body, limits) if events else []
    check = 0 if idempotency is None else body_check(body)
    return Batch(made, actor, terms, idempotency, check, creates, unique)


def key(session: str) -> Key:
    """Return what names a session."""
    return session_key("default", session)


def decoded(data: bytes) -> list[Event]:
    """Return events that are joined by commas."""
    events: list[Event] = msgspec.json.decode(b"[%b]" % data)
    return events
