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
    """One session; an event is its number, the id that a client gave it, and its type.

    ``life`` tells it from all others, also those of the same name.
    """

    life: int
    events: list[tuple[int, str | None, str]] = field(default_factory=list)
    own: int = 0
    closed: bool = False
    closed_by: tuple[str, int, int] | None = None
    archived: bool = False
    title: str | None = None
    status: str = "idle"
    keys: dict[str, tuple[list[Event], list[int], int]] = field(default_factory=dict)
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    source: str | None = None
    origin: int | None = None


class Model:
    """All sessions; every method returns the answer as a tuple that begins with a word."""

    def __init__(self) -> None:
        self.sessions: dict[str, ModelSession] = {}
        self.order: list[str] = []
        self.lives = 0

    def copy(self) -> "Model":
        return deepcopy(self)

    def _new(self) -> ModelSession:
        self.lives += 1
        return ModelSession(self.lives)

    def create(self, name: str, title: str | None, source: str | None, anchor: int | None) -> Answer:
        there = self.sessions.get(name)
        if there is not None:
            differs = title is not None and title != there.title
            differs |= source is not None and (source != there.source or anchor not in (None, there.own))
            differs |= source in self.sessions and self.sessions[source].life != there.origin
            return ("session_exists",) if differs else ("confirmed",)
        made = self._new()
        made.title = title
        if source is not None:
            origin = self.sessions.get(source)
            if origin is None:
                return ("stream_not_found",)
            if anchor is not None and anchor > len(origin.events):
                return ("invalid_fork",)
            made.source, made.origin = source, origin.life
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
        life: int | None,
    ) -> Answer:
        session = self.sessions.get(name)
        if life is not None and (session is None or session.life != life):
            return ("precondition_failed",)
        made = session is None
        session = session or self._new()
        told = _told(session, events)
        if key is not None and key in session.keys:
            body, places, tail = session.keys[key]
            if body != events:
                return ("idempotency_mismatch",)
            numbers = [session.events[place][0] for place in places]
            return ("stored", tail, numbers, list(range(len(events))), told[1])
        tail = len(session.events)
        if session.closed or session.archived:
            if events and told[0] == list(range(len(events))) and all("id" in event for event in events):
                return ("stored", tail, [_find(session, event)[0] for event in events], *told)
            if session.archived:
                return ("session_archived",)
            repeats = producer is not None and producer == session.closed_by
            if not repeats and (events or producer is not None):
                return ("stream_closed",)
            return ("stored", tail, [], *told)
        if producer is not None:
            verdict = _producer(session, *producer)
            if verdict == "duplicate":
                return ("stored", tail, [], *told)
            if verdict is not None:
                return (verdict,)
        if if_tail is not None and if_tail != tail:
            return ("precondition_failed",)
        if made:
            self._add(name, session)
        told = [], []
        places = []
        for index, event in enumerate(events):
            found = _told(session, [event])
            told[0].extend(index for _ in found[0])
            told[1].extend(index for _ in found[1])
            places.append(self._place(session, event))
        if key is not None and len(session.events) > tail:
            session.keys[key] = (events, places, len(session.events))
        if producer is not None:
            session.producers[producer[0]] = producer[1:]
        if close:
            session.closed, session.closed_by = True, producer
            if session.status == "running":
                session.status = "terminated"
        return ("stored", len(session.events), [session.events[place][0] for place in places], *told)

    def echo(self, name: str, place: int, altered: bool) -> Answer:
        """What is answered to an event that is sent back as it was shown, or altered."""
        session = self.sessions.get(name)
        if session is None:
            return ("session_not_found",)
        if not session.events:
            return ("nothing",)
        number = session.events[min(place, len(session.events) - 1)][0]
        return ("stored", len(session.events), [number], [0], [0] if altered else [])

    @staticmethod
    def _place(session: ModelSession, event: Event) -> int:
        name = event.get("id")
        for place, (_, known, _) in enumerate(session.events):
            if name is not None and known == name:
                return place
        session.events.append((event["n"], name, event["type"]))
        if event["type"].startswith("session.status_"):
            session.status = event["type"].removeprefix("session.status_")
        return len(session.events) - 1

    def archive(self, name: str) -> Answer:
        session = self.sessions.get(name)
        if session is None:
            return ("session_not_found",)
        if not session.archived:
            if session.status != "terminated" and not session.closed:
                session.events.append((-1, None, "session.status_terminated"))
            session.archived, session.closed, session.status = True, True, "terminated"
        return ("done",)

    def delete(self, name: str) -> Answer:
        session = self.sessions.get(name)
        if session is None:
            return ("session_not_found",)
        del self.sessions[name]
        self.order.remove(name)
        return ("done",)

    def read(self, name: str) -> Answer:
        session = self.sessions.get(name)
        if session is None:
            return ("session_not_found",)
        numbers = [number for number, _, _ in session.events]
        return ("read", numbers, session.closed, session.archived, session.title, session.status)

    def listed(self) -> list[str]:
        """Return the sessions that a list shows, newest first, archived ones too."""
        return self.order[::-1]


def _find(session: ModelSession, event: Event) -> tuple[int, str | None, str]:
    return next(known for known in session.events if known[1] == event["id"])


def _told(session: ModelSession, events: list[Event]) -> tuple[list[int], list[int]]:
    """Return which events a session has under their ids, and which of these are others."""
    repeated, differ = [], []
    for index, event in enumerate(events):
        if "id" in event and any(known == event["id"] for _, known, _ in session.events):
            number, _, kind = _find(session, event)
            repeated.append(index)
            if (number, kind) != (event["n"], event["type"]):
                differ.append(index)
    return repeated, differ


def _producer(session: ModelSession, name: str, epoch: int, seq: int) -> str | None:
    if name not in session.producers:
        return None if seq == 0 else "producer_gap"
    known, last = session.producers[name]
    if epoch != known:
        return "stale_epoch" if epoch < known else None if seq == 0 else "new_epoch_sequence"
    if seq <= last:
        return "duplicate"
    return None if seq == last + 1 else "producer_gap"
