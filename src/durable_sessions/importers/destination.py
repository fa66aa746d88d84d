"""Where imported events go: to a server, or nowhere in a dry run."""

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

from durable_sessions.client import Client
from durable_sessions.client.errors import ApiError, NotFoundError
from durable_sessions.client.offsets import position
from durable_sessions.importers import jsonl
from durable_sessions.importers.sources import ForkPoint
from durable_sessions.redaction import is_redacted


class Description(NamedTuple):
    """What an import says of a session; unless it ``renames``, a session that exists keeps its own."""

    title: str | None
    metadata: Mapping[str, Any]
    origin: ForkPoint | None = None
    renames: bool = True


class Described(NamedTuple):
    """The result of creating or updating a session: whether a fork's source exists, and how many events."""

    is_complete: bool = True
    new: int = 0


class BatchCounts(NamedTuple):
    """How many events of a batch are new, and how many have the id of a different stored event.

    ``known`` are the indexes of the events that are not new.
    """

    new: int
    differ: int = 0
    known: Collection[int] = ()


class Destination(Protocol):
    """Stores events; an event whose id exists already is not stored again."""

    def sessions_of(self, tool: str) -> Mapping[str, bool]:
        """Return the existing sessions of a tool, and whether each was imported without its secrets."""
        ...

    def is_redacted(self, session: str) -> bool | None:
        """Say whether the session was imported without its secrets; None if it does not exist."""
        ...

    def describe(self, session: str, description: Description) -> Described:
        """Create the session, or update its title and metadata."""
        ...

    def append(self, session: str, events: Sequence[bytes], source: str | None = None) -> BatchCounts:
        """Store events, each of them JSON; durable when this returns.

        With ``source`` they are stored as they are, and marked as imported from there.
        """
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

    def describe(self, session: str, description: Description) -> Described:
        """Create the session, or update its title and metadata."""
        title, metadata, origin, renames = description
        # Called before every batch of a session; only the first call, and changes, cost requests.
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
            title, changed = info.title, {}
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

    def append(self, session: str, events: Sequence[bytes], source: str | None = None) -> BatchCounts:
        """Store events, each of them JSON; durable when this returns.

        With ``source`` they are stored as they are, and marked as imported from there.
        """
        # How many events are new is seen from how far the session has grown: known ids are not stored again.
        before = self._ends.get(session, 0)
        appended = self._client.session(session).append_body(b"[" + b",".join(events) + b"]", source=source)
        after = self._ends[session] = position(appended.next_offset)
        return BatchCounts(max(0, after - before), len(appended.differ), frozenset(appended.repeated))

    def put_artifact(self, data: bytes, media_type: str) -> str:
        """Store bytes and return their SHA-256."""
        try:
            return self._client.artifacts.put(data, media_type).sha256
        except ApiError as error:
            if error.status != 400:
                raise
            # The media type comes from a foreign file, and the server does not accept it.
            return self._client.artifacts.put(data).sha256


class DryRun:
    """Counts events and stores nothing."""

    def sessions_of(self, tool: str) -> Mapping[str, bool]:
        """Return none."""
        return {}

    def is_redacted(self, session: str) -> bool | None:
        """Return None: nothing is known of what is there."""
        return None

    def describe(self, session: str, description: Description) -> Described:
        """Do nothing."""
        return Described()

    def append(self, session: str, events: Sequence[bytes], source: str | None = None) -> BatchCounts:
        """Return how many events there are; which of them are new is not known."""
        return BatchCounts(len(events))

    def put_artifact(self, data: bytes, media_type: str) -> str:
        """Return the SHA-256 of bytes."""
        return sha256(data).hexdigest()
