"""Where imported events go: a server, or memory for tests and dry runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

from durable_sessions import lenient
from durable_sessions.client import Client
from durable_sessions.client.errors import ApiError, NotFoundError
from durable_sessions.client.offsets import position
from durable_sessions.importers import jsonl
from durable_sessions.importers.events import Event
from durable_sessions.importers.redaction import is_redacted
from durable_sessions.importers.sources import ForkPoint


class Described(NamedTuple):
    """The result of creating or updating a session: whether a fork's source exists, and how many events."""

    is_complete: bool = True
    new: int = 0


class BatchCounts(NamedTuple):
    """How many events of a batch are new, and how many have the id of a different stored event."""

    new: int
    differ: int = 0


class Destination(Protocol):
    """Stores events; an event whose id exists already is not stored again."""

    def sessions_of(self, tool: str) -> Mapping[str, bool]:
        """Return the existing sessions of a tool, and whether each was imported without its secrets."""
        ...

    def is_redacted(self, session: str) -> bool | None:
        """Say whether the session was imported without its secrets; None if it does not exist."""
        ...

    def describe(
        self,
        session: str,
        title: str | None,
        metadata: Mapping[str, Any],
        origin: ForkPoint | None = None,
        *,
        renames: bool = True,
    ) -> Described:
        """Create the session, or update its title and metadata.

        Unless it ``renames``, an existing title and metadata are kept.
        """
        ...

    def append(self, session: str, events: Sequence[bytes]) -> BatchCounts:
        """Store events, each of them JSON; durable when this returns."""
        ...

    def put_artifact(self, data: bytes, media_type: str) -> str:
        """Store bytes and return their SHA-256."""
        ...


class ServerDestination:
    """A server, through the client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ends: dict[str, int] = {}
        self._said: dict[str, tuple[str | None, dict[str, Any]]] = {}

    def sessions_of(self, tool: str) -> Mapping[str, bool]:
        """Return the existing sessions of a tool, and whether each was imported without its secrets."""
        metadata = None if tool == jsonl.TOOL else {"tool": tool}
        listed = self._client.sessions.list(metadata=metadata, include_archived=True)
        return {info.id: is_redacted(info.title, info.metadata) for info in listed}

    def is_redacted(self, session: str) -> bool | None:
        """Say whether the session was imported without its secrets; None if it does not exist."""
        try:
            info = self._client.sessions.get(session)
        except NotFoundError:
            return None
        return is_redacted(info.title, info.metadata)

    def describe(
        self,
        session: str,
        title: str | None,
        metadata: Mapping[str, Any],
        origin: ForkPoint | None = None,
        *,
        renames: bool = True,
    ) -> Described:
        """Create the session, or update its title and metadata."""
        said = (title, dict(metadata))
        if self._said.get(session) == said:
            return Described()
        handle = self._client.session(session)
        complete, new = True, 0
        try:
            info = handle.info()
        except NotFoundError:
            complete = self._create(session, title, metadata, origin)
            info = handle.info()
        changed = {name: value for name, value in metadata.items() if info.metadata.get(name) != value}
        if not renames:
            changed = {name: value for name, value in changed.items() if name not in info.metadata}
            title = title if info.title is None else info.title
        if changed or (title is not None and title != info.title):
            before = position(info.next_offset)
            info = handle.update(title=title if title is not None else info.title, metadata=changed)
            new = position(info.next_offset) - before
        self._ends[session] = position(info.next_offset)
        self._said[session] = said
        return Described(complete, new)

    def _create(
        self, session: str, title: str | None, metadata: Mapping[str, Any], origin: ForkPoint | None
    ) -> bool:
        if origin is not None:
            source = self._client.session(origin.session)
            try:
                at = None if origin.behind is None else source.event(origin.behind).next_offset
                source.fork(session, at=at, title=title, metadata=dict(metadata))
            except NotFoundError:
                self._client.sessions.create(session, title=title, metadata=dict(metadata))
                return False
            return True
        self._client.sessions.create(session, title=title, metadata=dict(metadata))
        return True

    def append(self, session: str, events: Sequence[bytes]) -> BatchCounts:
        """Store events, each of them JSON; durable when this returns."""
        before = self._ends.get(session, 0)
        appended = self._client.session(session).append_body(b"[" + b",".join(events) + b"]")
        after = self._ends[session] = position(appended.next_offset)
        return BatchCounts(max(0, after - before), len(appended.differ))

    def put_artifact(self, data: bytes, media_type: str) -> str:
        """Store bytes and return their SHA-256."""
        try:
            return self._client.artifacts.put(data, media_type).sha256
        except ApiError as error:
            if error.status != 400:
                raise
            return self._client.artifacts.put(data).sha256


@dataclass(slots=True)
class MemorySession:
    """A session as a test sees it."""

    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    events: dict[str, Event] = field(default_factory=dict)
    origin: ForkPoint | None = None


@dataclass
class MemoryDestination:
    """Keeps everything in memory."""

    sessions: dict[str, MemorySession] = field(default_factory=dict)
    artifacts: dict[str, tuple[bytes, str]] = field(default_factory=dict)

    def sessions_of(self, tool: str) -> Mapping[str, bool]:
        """Return the existing sessions of a tool, and whether each was imported without its secrets."""
        return {
            name: is_redacted(one.title, one.metadata)
            for name, one in self.sessions.items()
            if one.metadata.get("tool", jsonl.TOOL) == tool
        }

    def is_redacted(self, session: str) -> bool | None:
        """Say whether the session was imported without its secrets; None if it does not exist."""
        found = self.sessions.get(session)
        return None if found is None else is_redacted(found.title, found.metadata)

    def describe(
        self,
        session: str,
        title: str | None,
        metadata: Mapping[str, Any],
        origin: ForkPoint | None = None,
        *,
        renames: bool = True,
    ) -> Described:
        """Create the session, or update its title and metadata."""
        found = self.sessions.get(session)
        complete = True
        if found is None:
            found = self.sessions[session] = MemorySession(origin=origin)
            if origin is not None:
                complete = origin.session in self.sessions
                found.events |= _before(self.sessions.get(origin.session), origin.behind)
        found.title = title if title is not None and (renames or found.title is None) else found.title
        found.metadata = {**found.metadata, **metadata} if renames else {**metadata, **found.metadata}
        return Described(complete)

    def append(self, session: str, events: Sequence[bytes]) -> BatchCounts:
        """Store events, each of them JSON."""
        stored = self.sessions[session].events
        before, differ = len(stored), 0
        for data in events:
            event: dict[str, Any] = lenient.loads(data)
            differ += stored.setdefault(event["id"], event) != event
        return BatchCounts(len(stored) - before, differ)

    def put_artifact(self, data: bytes, media_type: str) -> str:
        """Store bytes and return their SHA-256."""
        digest = sha256(data).hexdigest()
        self.artifacts[digest] = (data, media_type)
        return digest


def _before(source: MemorySession | None, behind: str | None) -> dict[str, Event]:
    shared: dict[str, Event] = {}
    for name, event in (source.events if source else {}).items():
        shared[name] = event
        if name == behind:
            break
    return shared


class DryRun:
    """Counts events and stores nothing."""

    def sessions_of(self, tool: str) -> Mapping[str, bool]:
        """Return none."""
        return {}

    def is_redacted(self, session: str) -> bool | None:
        """Return None: nothing is known of what is there."""
        return None

    def describe(
        self,
        session: str,
        title: str | None,
        metadata: Mapping[str, Any],
        origin: ForkPoint | None = None,
        *,
        renames: bool = True,
    ) -> Described:
        """Do nothing."""
        return Described()

    def append(self, session: str, events: Sequence[bytes]) -> BatchCounts:
        """Return how many events there are; which of them are new is not known."""
        return BatchCounts(len(events))

    def put_artifact(self, data: bytes, media_type: str) -> str:
        """Return the SHA-256 of bytes."""
        return sha256(data).hexdigest()
