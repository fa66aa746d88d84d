"""Registries: named objects with versions, each a stream whose messages are its versions.

The newest version is an attribute of the stream, too, so that it can be returned without a read. The streams
are in folders whose names begin with ``__``, which no client can use.

Documents are returned as they are stored, because decoding a large one would block the event loop. Documents
from before there was a size limit may exceed it; they can be read, archived and deleted.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from durable_sessions.clock import Clock
from durable_sessions.errors import (
    DocumentTooLargeError,
    ObjectArchivedError,
    RegisteredObjectNotFoundError,
    VersionConflictError,
)
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.managed_agents.object_kind import Document, Kind
from durable_sessions.storage.companions import Companion, accompanied
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.storage.turns import Turns
from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated, StreamDescribed
from durable_sessions.streams.readonly import StreamRecord, as_created
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.times import rfc3339

Revise = Callable[[Document], Document]
_DOCUMENT = "document"
_JSON = "application/json"
_STEP = 20
"""How many objects are loaded at a time from memory and catalog."""


@dataclass(slots=True)
class Registered:
    """A page of a registry, as JSON; ``next`` is where the next one begins, None at the end."""

    documents: list[bytes]
    next: int | None


class Head(msgspec.Struct):
    """The members of a document that filters need."""

    version: int
    created_at: str
    archived_at: str | None


class StoredObject(NamedTuple):
    """A version of an object as it is stored, and whether the object is archived."""

    document: bytes
    archived: bool


_HEAD = msgspec.json.Decoder(Head)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Registry:
    """The objects of one kind, in every workspace."""

    def __init__(
        self,
        streams: Streams,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        turns: Turns,
        kind: Kind[Any],
    ) -> None:
        self._streams = streams
        self._clock = clock
        self._ids = ids
        self.limits = limits
        self._turns = turns
        self.kind = kind
        self._kind = kind.name.replace("_", " ")
        self.folder = f"__{kind.name}s"

    def require_small(self, size: int) -> None:
        """Refuse a document, or a request body, that is larger than the limit."""
        most = self.limits.registered_document_bytes_max
        if size > most:
            raise DocumentTooLargeError(kind=self._kind, size=size, registered_document_bytes_max=most)

    def create(self, workspace: str, document: Document) -> "asyncio.Future[bytes]":
        """Register an object durably; it gets an id, version 1 and its times."""
        key = self._key(workspace, self._ids.token(self.kind.prefix))
        self._streams.admit_document(self.limits.registered_document_bytes_max)

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], bytes]:
            created = StreamCreated(state.next_id, *key, _JSON, now_ms)
            at = rfc3339(now_ms)
            times = {"created_at": at, "updated_at": at, "archived_at": None}
            whole = {
                "id": key.path.partition("/")[2],
                "type": self.kind.name,
                "version": 1,
                **document,
                **times,
            }
            effects, encoded = self._version(as_created(created), whole, now_ms)
            return [created, *effects], encoded

        return self._streams.commit(decide)

    def get(self, workspace: str, name: str) -> bytes:
        """Return the newest version of an object."""
        return self._find(workspace, name).attributes[_DOCUMENT]

    def head(self, workspace: str, name: str) -> Head:
        """Return the head of an object without decoding the rest."""
        return _head(self.get(workspace, name))

    def tip_head(self, state: State, workspace: str, name: str, now_ms: int = 0) -> Head:
        """Return the head of an object as it is at the tip, for a decision that rests on it."""
        return _head(self._tip(state, workspace, name, now_ms).attributes[_DOCUMENT])

    async def find(self, workspace: str, name: str, version: int | None = None) -> StoredObject | None:
        """Return an object, the newest version unless one is given; None if there is no such object."""
        try:
            found = self.get(workspace, name)
        except RegisteredObjectNotFoundError:
            return None
        head = _head(found)
        if version is not None and version != head.version:
            found = await self.version(workspace, name, version)
        return StoredObject(found, head.archived_at is not None)

    def decoded(self, document: bytes) -> Document:
        """Return a stored document for use in a session."""
        self.require_small(len(document))
        return _decoded(document)

    async def version(self, workspace: str, name: str, version: int) -> bytes:
        """Return one version of an object."""
        durable = self._find(workspace, name)
        if not 1 <= version <= durable.tail:
            raise RegisteredObjectNotFoundError(kind=self._kind, name=f"{name}, version {version}")
        found = await self._streams.read(durable, version - 1, 1, version)
        return found.data[:-1]

    def update(
        self, workspace: str, name: str, revise: Revise, *, expected: int | None = None
    ) -> "asyncio.Future[bytes]":
        """Store a new version of an object durably; ``expected`` is the version to be replaced."""
        self._streams.admit_document(self.limits.registered_document_bytes_max)

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], bytes]:
            stream = self._tip(state, workspace, name, now_ms)
            stored = stream.attributes[_DOCUMENT]
            head = _head(stored)
            if head.archived_at is not None:
                raise ObjectArchivedError(kind=self._kind, name=name)
            if expected is not None and expected != head.version:
                raise VersionConflictError(kind=self._kind, name=name, version=head.version)
            self.require_small(len(stored))
            old = _decoded(stored)
            new = revise(old)
            if new == old:
                return [], stored  # nothing changes, so there is no new version
            whole = {**new, "version": stream.tail + 1, "updated_at": rfc3339(now_ms)}
            return self._version(stream, whole, now_ms)

        return self._streams.commit(decide)

    def archive(self, workspace: str, name: str) -> "asyncio.Future[bytes]":
        """Archive an object durably: it stays readable, and can no longer be changed."""

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], bytes]:
            stream = self._tip(state, workspace, name, now_ms)
            stored = stream.attributes[_DOCUMENT]
            if _head(stored).archived_at is not None:
                return [], stored
            at = msgspec.Raw(msgspec.json.encode(rfc3339(now_ms)))
            whole = msgspec.json.encode({**members(stored), "archived_at": at, "updated_at": at})
            return [StreamDescribed(stream.id, now_ms, {_DOCUMENT: whole})], whole

        return self._streams.commit(decide)

    def delete(
        self, workspace: str, name: str, companion: Companion | None = None, also: Key | None = None
    ) -> "asyncio.Future[None]":
        """Remove an object durably, and the stream ``also`` with it if there is one."""
        key = self._key(workspace, name)

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], None]:
            self._tip(state, workspace, name, now_ms)
            removed = lifetime.delete(state, key, now_ms)
            if also is not None and state.get(also) is not None:
                removed += lifetime.delete(state, also, now_ms)
            return accompanied(removed, companion, state, now_ms), None

        return self._streams.commit(decide)

    async def list(
        self,
        workspace: str,
        after: int | None,
        limit: int,
        wanted: Callable[[Head], bool],
    ) -> Registered:
        """Return the next matching objects, newest first, as clients see them.

        A page ends at the limit, or before the object that would make it too large.
        """
        found: list[bytes] = []
        size = 0
        # Each step below can take milliseconds: loading from the catalog, decoding the head of a large
        # document, making its shown form. So the turn is checked before each of them.
        turn = self._turns.begin()
        while True:
            if turn.over:
                await turn.rest()
            page = self._streams.folders.page(workspace, self.folder, after, _STEP, newest_first=True)
            for durable in page.streams:
                if turn.over:
                    await turn.rest()
                document = durable.attributes[_DOCUMENT]
                if wanted(_head(document)):
                    if len(found) == limit:
                        return Registered(found, after)
                    if turn.over:
                        await turn.rest()
                    shown = self.kind.shown(document)
                    size += len(shown) + 1
                    if found and size > self.limits.page_bytes_max:
                        return Registered(found, after)
                    found.append(shown)
                after = durable.stream.id
            if turn.over:
                await turn.rest()
            if not page.more:
                return Registered(found, None)

    async def versions(self, workspace: str, name: str, after: int | None, limit: int) -> Registered:
        """Return the next versions of an object, newest first, as clients see them."""
        durable = self._find(workspace, name)
        number = durable.tail if after is None else min(after, durable.tail)
        found: list[bytes] = []
        size = 0
        turn = self._turns.begin()
        while number and len(found) < limit:
            shown = self.kind.shown(await self.version(workspace, name, number))
            size += len(shown) + 1
            if found and size > self.limits.page_bytes_max:
                break
            found.append(shown)
            number -= 1
            if turn.over:
                await turn.rest()
        return Registered(found, number or None)

    def _version(
        self, stream: StreamRecord, document: Document, now_ms: int
    ) -> tuple[Sequence[Effect], bytes]:
        encoded = msgspec.json.encode(document)
        self.require_small(len(encoded))
        data = encoded + b","  # messages of JSON streams are stored with the comma that separates them
        effects: Sequence[Effect] = [
            RecordsAppended(stream.id, stream.tail, now_ms, (len(data),), None, None, False, data),
            StreamDescribed(stream.id, now_ms, {_DOCUMENT: encoded}),
        ]
        return effects, encoded

    def _key(self, workspace: str, name: str) -> Key:
        return Key(workspace, f"{self.folder}/{name}")

    def _find(self, workspace: str, name: str) -> StreamView:
        durable = self._streams.peek(self._key(workspace, name))
        if durable is None or durable.removed:
            raise RegisteredObjectNotFoundError(kind=self._kind, name=name)
        return durable

    def _tip(self, state: State, workspace: str, name: str, now_ms: int) -> StreamRecord:
        stream = state.get(self._key(workspace, name))
        if stream is None:
            raise RegisteredObjectNotFoundError(kind=self._kind, name=name)
        return stream


def members(document: bytes) -> dict[str, msgspec.Raw]:
    """Return the members of a document, undecoded."""
    return _MEMBERS.decode(document)


def _head(document: bytes) -> Head:
    return _HEAD.decode(document)


def _decoded(data: bytes) -> Document:
    document: Document = msgspec.json.decode(data)
    return document
