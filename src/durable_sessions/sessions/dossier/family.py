"""The family of a session: what it was forked from, what was forked from those, and which events each has."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from durable_sessions.errors import DossierTooLargeError, ViewUnavailableError
from durable_sessions.limits import Limits
from durable_sessions.sessions import record
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.storage.turns import Turns

_FOLDER = record.path_of("")
"""What the paths of sessions begin with."""


class FamilyPart(NamedTuple):
    """Consecutive events; ``owner`` is the number of the stream that they were appended to."""

    owner: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FamilySession:
    """A session of the family, and the events that are told as its own.

    These were appended to it, or it inherited them from a session that was deleted.
    """

    session: str
    view: StreamView
    parts: Sequence[FamilyPart]

    @property
    def events(self) -> int:
        """How many events are told as its own."""
        return sum(part.stop - part.start for part in self.parts)


@dataclass(frozen=True, slots=True)
class SessionFamily:
    """The sessions of a family, in the order of their creation.

    ``lengths`` says of the session that was asked for, and of those that it inherits from, how many events
    of each it has.
    """

    members: Sequence[FamilySession]
    lengths: dict[int, int]

    def erasures(self, streams: Streams) -> list[int | None]:
        """Return how many events were erased of each stream that has some of the family; they only grow."""
        owners = {part.owner for member in self.members for part in member.parts}
        views = (streams.peek_id(number) for number in sorted(owners))
        return [None if view is None else view.erasures for view in views]

    def is_inherited(self, part: FamilyPart, position: int) -> bool:
        """Whether the session that was asked for has an event, as its own or inherited."""
        return position < self.lengths.get(part.owner, 0)


@dataclass(slots=True)
class _Found:
    views: dict[int, StreamView] = field(default_factory=dict)
    claimed: dict[int, int] = field(default_factory=dict)
    """Up to where the events of deleted sessions are told as those of another one."""


class Families:
    """Finds the families of the sessions of a partition; forks live with their source."""

    def __init__(self, streams: Streams, turns: Turns, limits: Limits) -> None:
        self._streams = streams
        self._turns = turns
        self._limits = limits

    async def of(self, durable: StreamView, at: int, now_ms: int) -> SessionFamily:
        """Return the family of a session as of its first ``at`` events.

        Forks that begin behind these are not in it. The other sessions are taken as they are now.
        """
        lengths, root = self._line(durable, at)
        found = _Found({root.stream.id: root})
        waiting = [root.stream.id]
        turn = self._turns.begin()
        while waiting:
            number = waiting.pop()
            for fork in self._streams.forks(number):
                if turn.over:
                    await turn.rest()
                view = self._streams.peek_id(fork)
                is_later = number == durable.stream.id and view is not None and view.stream.base > at
                if view is None or is_later:  # None: it is not durable yet
                    continue
                found.views[fork] = view
                waiting.append(fork)
                self._require(len(found.views), self._limits.dossier_sessions_max, "sessions")
        ends = {durable.stream.id: max(at, durable.stream.base)}
        members: list[FamilySession] = []
        for number, view in sorted(found.views.items()):
            if _lives(view, now_ms):
                members.append(self._member(view, ends.get(number, view.tail), found, now_ms))
            if turn.over:
                await turn.rest()
        self._require(sum(one.events for one in members), self._limits.dossier_events_max, "events")
        return SessionFamily(members, lengths)

    def _line(self, durable: StreamView, at: int) -> tuple[dict[int, int], StreamView]:
        """Return how much the session has of each that it inherits from, and the first of these."""
        lengths = {durable.stream.id: at}
        holder = durable
        while holder.stream.parent is not None:
            at = min(at, holder.stream.base)
            holder = self._parent(holder)
            lengths[holder.stream.id] = at
        return lengths, holder

    def _parent(self, view: StreamView) -> StreamView:
        assert view.stream.parent is not None
        parent = self._streams.peek_id(view.stream.parent)
        if parent is None:
            name = session_of(view.stream.key)
            raise ViewUnavailableError(problem=f"The session that {name} was forked from is missing.")
        return parent

    def _member(self, view: StreamView, end: int, found: _Found, now_ms: int) -> FamilySession:
        parts = [FamilyPart(view.stream.id, view.stream.base, end)]
        holder = view
        while holder.stream.parent is not None and not _lives(parent := self._parent(holder), now_ms):
            number = parent.stream.id
            # A fork of a fork may begin before its source does.
            stop = min(holder.stream.base, parts[0].start)
            start = max(parent.stream.base, found.claimed.get(number, 0))
            if start < stop:
                parts.insert(0, FamilyPart(number, start, stop))
                found.claimed[number] = stop
            holder = parent
        return FamilySession(session_of(view.stream.key), view, parts)

    def _require(self, count: int, most: int, what: str) -> None:
        if count > most:
            raise DossierTooLargeError(what=f"more than {most:,} {what}")


def _lives(view: StreamView, now_ms: int) -> bool:
    """Whether a stream is a session that can be read."""
    is_session = view.stream.key.path.startswith(_FOLDER)
    return is_session and not view.removed and not view.stream.expired(now_ms)
