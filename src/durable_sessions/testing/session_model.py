"""A model of sessions: what appends, forks, deletions, drops and redactions leave, at every offset.

An engine or a server is compared with it, operation by operation. It has lists and dictionaries only, nothing
is cleverer than it must be, and an operation changes either all that it should or nothing.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

Outcome = tuple[object, ...]
"""What an operation answers: a word and numbers, or the code of a refusal."""
GivenEvent = Mapping[str, object]
"""An event as it is sent; ``text`` tells it from all others."""

RECORD_TYPE = "ds.redacted"
KEPT_TYPES = ("agent.", "user.", "span.", "session.", "system.", "ds.")
"""Events of these types are not dropped."""


@dataclass(slots=True)
class ModelEvent:
    """An event; a session and its forks share it, so that a redaction reaches them all."""

    type: str
    text: str | None = None
    id: str | None = None
    slots: tuple[str, ...] = ()
    redacted: bool = False


@dataclass(slots=True)
class ModelEntry:
    """An event at its place in one session, which alone can have dropped it."""

    event: ModelEvent
    dropped: bool = False

    @property
    def shown(self) -> tuple[str, str | None]:
        """How it is read: its type, and its text or what became of it."""
        if self.event.redacted:
            return self.event.type, "redacted"
        return self.event.type, "dropped" if self.dropped else self.event.text


@dataclass(slots=True)
class ModelSession:
    """A session: its events, and for each offset which position holds each slot.

    ``base`` is where its own events begin, ``used`` are the slots that these have named.
    """

    life: int
    base: int = 0
    entries: list[ModelEntry] = field(default_factory=list)
    held: list[dict[str, int]] = field(default_factory=lambda: [{}])
    used: set[str] = field(default_factory=set)

    def copy(self) -> "ModelSession":
        """Return a session that changes apart from this one, with the same events."""
        entries = [ModelEntry(entry.event, entry.dropped) for entry in self.entries]
        return ModelSession(self.life, self.base, entries, list(self.held), set(self.used))

    @property
    def ids(self) -> set[str]:
        """The ids that clients gave to its events."""
        return {entry.event.id for entry in self.entries if entry.event.id is not None}

    @property
    def shown(self) -> list[tuple[str, str | None]]:
        """All events, as they are read."""
        return [entry.shown for entry in self.entries]

    def erasable(self, positions: Collection[int]) -> list[int]:
        """Return those of these positions whose events can be redacted and are not yet."""
        return [
            at
            for at, entry in enumerate(self.entries)
            if at in positions and not entry.event.redacted and entry.event.type != RECORD_TYPE
        ]


class SessionModel:
    """All sessions by name; ``slots_max`` is how many slots a session's own events may name."""

    def __init__(self, slots_max: int) -> None:
        self.sessions: dict[str, ModelSession] = {}
        self._slots_max = slots_max
        self._lives = 0

    def copy(self) -> "SessionModel":
        """Return a model that changes apart from this one."""
        return deepcopy(self)

    def create(self, name: str, source: str | None = None, anchor: int | None = None) -> Outcome:
        """Create a session, or a fork of another at an offset; None is its end."""
        if name in self.sessions:
            return ("session_exists",)
        made = self._new()
        if source is not None:
            origin = self.sessions.get(source)
            if origin is None:
                return ("stream_not_found",)
            end = len(origin.entries) if anchor is None else anchor
            if end > len(origin.entries):
                return ("invalid_fork",)
            # A fork reads what its source shows at that moment; what the source drops later, it goes on to
            # show.
            made.entries, made.held = origin.copy().entries[:end], origin.held[: end + 1]
            made.base = end
        self.sessions[name] = made
        return ("created",)

    def append(
        self, name: str, sent: Sequence[GivenEvent], wanted: Mapping[str, object] | None = None, life: int = 0
    ) -> Outcome:
        """Append events if all conditions hold, and drop what they drop.

        ``wanted`` may have ``slots`` (positions of holders), ``tail``, ``exists`` and ``same_life``, which
        says whether the session must be the one of the number ``life``, or must not be.
        """
        session = self.sessions.get(name)
        known = set() if session is None else session.ids
        is_repeat = session is not None and bool(sent) and all(one.get("id") in known for one in sent)
        if wanted is not None and not is_repeat and not _holds(session, wanted, life):
            return ("precondition_failed",)
        if not sent:
            return ("appended", 0 if session is None else len(session.entries))
        session = self._new() if session is None else session.copy()
        dropping = [
            (len(session.entries) - 1, one)
            for one in sent
            if _place(session, one) and one.get("slot_empty") == "drop"
        ]
        if len(session.used) > self._slots_max:
            return ("too_many_slots",)
        for position, one in dropping:
            _drop(session, one, position)
        self.sessions[name] = session
        return ("appended", len(session.entries))

    def delete(self, name: str) -> Outcome:
        """Delete a session; its forks keep what they show."""
        return ("deleted",) if self.sessions.pop(name, None) is not None else ("session_not_found",)

    def redact(self, name: str, positions: Sequence[int]) -> Outcome:
        """Redact events that are there and not redacted yet, in all sessions that show them."""
        session = self.sessions.get(name)
        if session is None:
            return ("session_not_found",)
        for position in positions:
            session.entries[position].event.redacted = True
        _place(session, {"type": RECORD_TYPE})
        return ("redacted", len(session.entries))

    def holders(self, slot: str) -> list[str]:
        """Return the sessions in which a slot is held."""
        return sorted(name for name, one in self.sessions.items() if slot in one.held[-1])

    def erased_texts(self) -> set[str]:
        """Return the texts that were erased, and that no session shows any more."""
        entries = [entry for session in self.sessions.values() for entry in session.entries]
        shown = {entry.shown[1] for entry in entries}
        erased = {entry.event.text for entry in entries if entry.dropped or entry.event.redacted}
        return {text for text in erased if text is not None and text not in shown}

    def _new(self) -> ModelSession:
        self._lives += 1
        return ModelSession(self._lives)


def _place(session: ModelSession, event: GivenEvent) -> bool:
    """Put an event at the end of a session, unless its id is there; say whether it was put."""
    given = event.get("id")
    if given is not None and given in session.ids:
        return False
    position, held = len(session.entries), dict(session.held[-1])
    slot = event.get("slot", [])
    taken = tuple(str(one) for one in (slot if isinstance(slot, list) else [slot]))
    session.used.update(taken)
    empties = "slot_empty" in event
    for name in taken:
        held.pop(name, None)
        if not empties:
            held[name] = position
    prefix = event.get("slot_prefix")
    if isinstance(prefix, str):
        held = {name: holder for name, holder in held.items() if not name.startswith(prefix)}
    text = event.get("text")
    made = ModelEvent(
        str(event["type"]),
        None if text is None else str(text),
        None if given is None else str(given),
        () if empties else taken,
    )
    session.entries.append(ModelEntry(made))
    session.held.append(held)
    return True


def _drop(session: ModelSession, dropping: GivenEvent, end: int) -> None:
    """Drop the session's own events before ``end`` that held a dropped slot, and now hold none."""
    slot = dropping.get("slot", [])
    names = [str(name) for name in (slot if isinstance(slot, list) else [slot])]
    prefix = dropping.get("slot_prefix")
    prefixes = (prefix,) if isinstance(prefix, str) else ()
    holding = set(session.held[-1].values())
    for position in range(session.base, end):
        entry = session.entries[position]
        held = any(slot in names or slot.startswith(prefixes) for slot in entry.event.slots)
        is_kept = entry.event.type.startswith(KEPT_TYPES) or entry.event.redacted
        if held and position not in holding and not is_kept:
            entry.dropped = True


def _holds(session: ModelSession | None, wanted: Mapping[str, object], life: int) -> bool:
    if wanted.get("exists") not in (None, session is not None):
        return False
    if wanted.get("same_life") is not None and (
        session is None or (session.life == life) != wanted["same_life"]
    ):
        return False
    held = {} if session is None else session.held[-1]
    tail = 0 if session is None else len(session.entries)
    if wanted.get("tail") not in (None, tail):
        return False
    asked = wanted.get("slots", {})
    assert isinstance(asked, Mapping)
    return all(held.get(slot) == holder for slot, holder in asked.items())
