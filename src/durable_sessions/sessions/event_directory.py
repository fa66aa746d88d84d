"""How a graph learns of events, artifacts and memories, wherever in the workspace they are."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from durable_sessions.sessions.memory.directory import ReplacedWrites
from durable_sessions.sessions.memory.records import NamedEvent
from durable_sessions.sessions.placed_events import EventQuestion, PlacedEvent

ArtifactState = Literal["stored", "redacted", "missing"]


class Referral(NamedTuple):
    """An event that leads to one that was asked for, and how.

    ``target`` is the number of that one. Nobody checked an ``unchecked`` one; ``is_local`` if both are events
    of one session.
    """

    event: PlacedEvent
    target: int
    rel: str
    unchecked: bool = False
    is_local: bool = False


class Referrals(NamedTuple):
    """The events that lead to others; ``more`` if there are too many.

    ``is_complete`` says that everything durable was searched.
    """

    found: list[Referral]
    is_complete: bool
    more: bool


class EventDirectory(Protocol):
    """Looks things up in all partitions; refuses if one of them cannot answer."""

    async def find(self, workspace: str, asked: Sequence[EventQuestion]) -> list[PlacedEvent | None]:
        """Look events up; None for those that are nowhere."""
        ...

    async def referring(self, workspace: str, events: Sequence[PlacedEvent]) -> Referrals:
        """Return the events that lead to these ones."""
        ...

    async def artifact(self, workspace: str, digest: str) -> ArtifactState:
        """Say what became of an artifact."""
        ...

    async def replaced(
        self, workspace: str, scope: str, writes: Sequence[NamedEvent]
    ) -> list[ReplacedWrites]:
        """Return what writes of a memory scope replaced, and which ones replaced them."""
        ...
