"""Registries: named objects with versions, each a stream whose messages are its versions.

The newest version is an attribute too, so that it is known without a read. The streams lie in
folders that begin with ``__``, which no stream of a client can.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from durable_sessions.clock import Clock
from durable_sessions.errors import (
    ObjectArchivedError,
    RegisteredObjectNotFoundError,
    VersionConflictError,
)
from durable_sessions.ids import Ids
from durable_sessions.storage.durable import DurableStream
from durable_sessions.storage.partition import Partition
from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import Appended, Effect, StreamCreated, StreamDescribed
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.times import rfc3339

Document = dict[str, Any]
Revise = Callable[[Document], Document]
_DOCUMENT = "document"
_JSON = "application/json"


@dataclass(slots=True)
class Registered:
    """A page of a registry; ``next`` is where the next one begins, None at the end."""

    documents: list[Document]
    next: int | None


class Registry:
    """The objects of one kind, in every workspace; ``prefix`` is what their ids begin with."""

    def __init__(self, partition: Partition, clock: Clock, ids: Ids, kind: str, prefix: str) -> None:
        self._partition = partition
        self._clock = clock
        self._ids = ids
        self._kind = kind
        self._folder = f"__{kind}s"
        self._prefix = prefix

    def create(self, workspace: str, document: Document) -> "asyncio.Future[Document]":
        """Register an object durably; it gets an id, version 1 and its times."""
        key = self._key(workspace, self._ids.token(self._prefix))

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], Document]:
            created = StreamCreated(state.next_id, *key, _JSON, now_ms)
            at = rfc3339(now_ms)
            times = {"created_at": at, "updated_at": at, "archived_at": None}
            whole = {"id": key.path.partition("/")[2], "type": self._kind, "version": 1, **document, **times}
            return [created, *_version(Stream.of(created), whole, now_ms)], whole

        return self._partition.commit(decide)

    def get(self, workspace: str, name: str) -> Document:
        """Return the newest version of an object."""
        return _document(self._find(workspace, name).attributes)

    async def version(self, workspace: str, name: str, version: int) -> Document:
        """Return one version of an object."""
        durable = self._find(workspace, name)
        if not 1 <= version <= durable.tail:
            raise RegisteredObjectNotFoundError(kind=self._kind, name=f"{name}, version {version}")
        found = await self._partition.reader.read(durable, version - 1, 1, version)
        return _decoded(found.data[:-1])

    def update(
        self, workspace: str, name: str, revise: Revise, *, expected: int | None = None
    ) -> "asyncio.Future[Document]":
        """Make a new version of an object durably; ``expected`` is the version that is to be replaced."""

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], Document]:
            stream = self._tip(state, workspace, name, now_ms)
            old = _document(stream.attributes)
            if old["archived_at"] is not None:
                raise ObjectArchivedError(kind=self._kind, name=name)
            if expected is not None and expected != old["version"]:
                raise VersionConflictError(kind=self._kind, name=name, version=old["version"])
            new = revise(old)
            if new == old:
                return [], old
            whole = {**new, "version": stream.tail + 1, "updated_at": rfc3339(now_ms)}
            return _version(stream, whole, now_ms), whole

        return self._partition.commit(decide)

    def archive(self, workspace: str, name: str) -> "asyncio.Future[Document]":
        """Archive an object durably: it stays readable, and is no longer changed."""

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], Document]:
            stream = self._tip(state, workspace, name, now_ms)
            old = _document(stream.attributes)
            if old["archived_at"] is not None:
                return [], old
            at = rfc3339(now_ms)
            whole = {**old, "archived_at": at, "updated_at": at}
            return [StreamDescribed(stream.id, now_ms, {_DOCUMENT: msgspec.json.encode(whole)})], whole

        return self._partition.commit(decide)

    def delete(self, workspace: str, name: str) -> "asyncio.Future[None]":
        """Remove an object durably."""
        key = self._key(workspace, name)

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], None]:
            self._tip(state, workspace, name, now_ms)
            return lifetime.delete(state, key, now_ms), None

        return self._partition.commit(decide)

    def list(
        self, workspace: str, after: int | None, limit: int, wanted: Callable[[Document], bool]
    ) -> Registered:
        """Return the next objects that are wanted, newest first."""
        found: list[Document] = []
        while True:
            streams = self._partition.page(workspace, self._folder, after, limit + 1, newest_first=True)
            for durable in streams:
                document = _document(durable.attributes)
                if wanted(document):
                    if len(found) == limit:
                        return Registered(found, after)
                    found.append(document)
                after = durable.stream.id
            if len(streams) <= limit:
                return Registered(found, None)

    async def versions(self, workspace: str, name: str, after: int | None, limit: int) -> Registered:
        """Return the next versions of an object, newest first."""
        durable = self._find(workspace, name)
        stop = durable.tail if after is None else min(after, durable.tail)
        start = max(0, stop - limit)
        found = [await self.version(workspace, name, number) for number in range(stop, start, -1)]
        return Registered(found, start or None)

    def _key(self, workspace: str, name: str) -> Key:
        return Key(workspace, f"{self._folder}/{name}")

    def _find(self, workspace: str, name: str) -> DurableStream:
        durable = self._partition.published.get(self._key(workspace, name))
        if durable is None or durable.removed:
            raise RegisteredObjectNotFoundError(kind=self._kind, name=name)
        return durable

    def _tip(self, state: State, workspace: str, name: str, now_ms: int) -> Stream:
        stream = state.get(self._key(workspace, name))
        if stream is None:
            raise RegisteredObjectNotFoundError(kind=self._kind, name=name)
        return stream


def _version(stream: Stream, document: Document, now_ms: int) -> list[Effect]:
    encoded = msgspec.json.encode(document)
    data = encoded + b","
    return [
        Appended(stream.id, stream.tail, now_ms, (len(data),), None, None, False, data),
        StreamDescribed(stream.id, now_ms, {_DOCUMENT: encoded}),
    ]


def _document(attributes: dict[str, bytes]) -> Document:
    return _decoded(attributes[_DOCUMENT])


def _decoded(data: bytes) -> Document:
    document: Document = msgspec.json.decode(data)
    return document
