"""A destination of imports that keeps everything in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from durable_sessions import lenient
from durable_sessions.importers import jsonl
from durable_sessions.importers.destination import BatchCounts, Described, Description
from durable_sessions.importers.events import Event
from durable_sessions.importers.sources import ForkPoint
from durable_sessions.redaction import is_redacted


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

    def describe(self, session: str, description: Description) -> Described:
        """Create the session, or update its title and metadata."""
        title, metadata, origin, renames = description
        found = self.sessions.get(session)
        complete = True
        if found is not None and not renames:
            return Described()
        if found is None:
            found = self.sessions[session] = MemorySession(origin=origin)
            if origin is not None:
                complete = origin.session in self.sessions
                found.events |= _before(self.sessions.get(origin.session), origin.behind)
        found.title = title if title is not None else found.title
        found.metadata = {**found.metadata, **metadata}
        return Described(complete)

    def append(self, session: str, events: Sequence[bytes], source: str | None = None) -> BatchCounts:
        """Store events, each of them JSON."""
        stored = self.sessions[session].events
        before, differ, known = len(stored), 0, set()
        for index, data in enumerate(events):
            event: dict[str, Any] = lenient.loads(data)
            if event["id"] in stored:
                known.add(index)
            differ += stored.setdefault(event["id"], event) != event
        return BatchCounts(len(stored) - before, differ, known)

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
