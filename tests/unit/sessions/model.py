"""What sessions should do, as simply as it can be said: lists and dictionaries.

A fork copies what it inherits. Nothing here is shared with the implementation.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Answer = tuple[object, ...]
Event = dict[str, Any]


@dataclass
class ModelSession:
    """One session; an event is its number, and the id that a client gave it."""

    events: list[tuple[int, str | None]] = field(default_factory=list)
    own: int = 0
    closed: bool = False
    closed_by: tuple[str, int, int] | None = None
    archived: bool = False
    title: str | None = None
    status: str = "idle"
    keys: dict[str, tuple[list[Event], list[int], int]] = field(default_factory=dict)
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    source: str | None = None
    forks: int = 0
    deleted: bool = False


class Model:
    """All sessions; every method returns the answer as a tuple that begins with a word."""

    def __init__(self) -> None:
        self.sessions: dict[str, ModelSession] = {}
        self.order: list[str] = []

    def copy(self) -> "Model":
        return deepcopy(self)

    def create(self, name: str, title: str | None, source: str | None, anchor: int | None) -> Answer:
        there = self.sessions.get(name)
        if there is not None:
            if there.deleted:
                return ("path_blocked",)
            differs = title is not None and title != there.title
            differs |= source is not None and (source != there.source or anchor not in (None, there.own))
            return ("session_exists",) if differs else ("confirmed",)
        made = ModelSession(title=title)
        if source is not None:
            origin = self.sessions.get(source)
            if origin is None:
                return ("stream_not_found",)
            if origin.deleted:
                return ("path_blocked",)
            if anchor is not None and anchor > len(origin.events):
                return ("invalid_fork",)
            origin.forks += 1
            made.source = source
            made.own = len(origin.events) if anchor is None else anchor
            made.events = origin.events[: made.own]
            made.keys = {key: known for key, known in origin.keys.items() if known[2] <= made.own}
            made.title = origin.title if title is None else title
        self._add(name, made)
        return ("created",)

    def _add(self, name: str, made: ModelSession) -> None:
        self.sessions[name] = made
        self.order.append(name)

    def append(
        self,
        name: str,
        events: list[Event],
        key: str | None,
        producer: tuple[str, int, int] | None,
        close: bool,
        if_tail: int | None,
    ) -> Answer:
        session = self.sessions.get(name)
        if session is not None and session.deleted:
            return ("path_blocked",)
        made = session is None
        session = session or ModelSession()
        if session.archived:
            return ("session_archived",)
        if key is not None and key in session.keys:
            body, places, tail = session.keys[key]
            if body != events:
                return ("idempotency_mismatch",)
            return ("stored", tail, [session.events[place][0] for place in places])
        tail = len(session.events)
        if session.closed:
            repeats = producer is not None and producer == session.closed_by
            if not repeats and (events or producer is not None):
                return ("stream_closed",)
            return ("stored", tail, [])
        if producer is not None:
            verdict = _producer(session, *producer)
            if verdict == "duplicate":
                return ("stored", tail, [])
            if verdict is not None:
                return (verdict,)
        if if_tail is not None and if_tail != tail:
            return ("precondition_failed",)
        if made:
            self._add(name, session)
        places = [self._place(session, event) for event in events]
        if key is not None and len(session.events) > tail:
            session.keys[key] = (events, places, len(session.events))
        if producer is not None:
            session.producers[producer[0]] = producer[1:]
        if close:
            session.closed, session.closed_by = True, producer
        return ("stored", len(session.events), [session.events[place][0] for place in places])

    @staticmethod
    def _place(session: ModelSession, event: Event) -> int:
        name = event.get("id")
        for place, (_, known) in enumerate(session.events):
            if name is not None and known == name:
                return place
        session.events.append((event["n"], name))
        if event["type"].startswith("session.status_"):
            session.status = event["type"].removeprefix("session.status_")
        return len(session.events) - 1

    def archive(self, name: str) -> Answer:
        session = self.sessions.get(name)
        if session is None:
            return ("session_not_found",)
        if session.deleted:
            return ("stream_gone",)
        if not session.archived:
            if session.status != "terminated" and not session.closed:
                session.events.append((-1, None))
            session.archived, session.status = True, "terminated"
        return ("done",)

    def delete(self, name: str) -> Answer:
        session = self.sessions.get(name)
        if session is None:
            return ("session_not_found",)
        if session.deleted:
            return ("stream_gone",)
        if session.forks:
            session.deleted = True
        else:
            self._drop(name)
        return ("done",)

    def _drop(self, name: str) -> None:
        source = self.sessions.pop(name).source
        self.order.remove(name)
        if source is not None:
            origin = self.sessions[source]
            origin.forks -= 1
            if origin.deleted and not origin.forks:
                self._drop(source)

    def read(self, name: str) -> Answer:
        session = self.sessions.get(name)
        if session is None or session.deleted:
            return ("session_not_found",)
        numbers = [number for number, _ in session.events]
        return ("read", numbers, session.closed, session.archived, session.title, session.status)

    def listed(self) -> list[str]:
        """Return the sessions that a list shows, newest first, archived ones too."""
        return [name for name in reversed(self.order) if not self.sessions[name].deleted]


def _producer(session: ModelSession, name: str, epoch: int, seq: int) -> str | None:
    if name not in session.producers:
        return None if seq == 0 else "producer_gap"
    known, last = session.producers[name]
    if epoch != known:
        return "stale_epoch" if epoch < known else None if seq == 0 else "new_epoch_sequence"
    if seq <= last:
        return "duplicate"
    return None if seq == last + 1 else "producer_gap"
