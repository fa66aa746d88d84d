"""A session in memory that takes events as a server does: shape, rules, control, then the stored bytes."""

from typing import Any

import msgspec

from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.sessions.graph import lease, rules, strict
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.happened import Happened
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.streams import offsets
from durable_sessions.times import rfc3339

Event = dict[str, Any]
CODER = Appender("coder", False)
JUDGE = Appender("judge", True)


class Ledger:
    """One session: its stored events, and the attributes that control has at the tip."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.events: list[bytes] = []
        self.attributes: dict[str, bytes] = {}
        self.now_ms = 1_700_000_000_000
        self.base: int | None = None
        self.closed = False

    @property
    def control(self) -> Control:
        """What can refuse the next event."""
        return Control(self.attributes, self.limits)

    def append(self, *events: Event, by: Appender = CODER, epoch: int | None = None) -> list[str]:
        """Append a batch, all or nothing; return the ids."""
        bodies = [msgspec.json.encode(event) for event in events]
        parsed = [
            strict.parse(event["type"], body, index, self.limits) if strict.is_strict(event["type"]) else None
            for index, (event, body) in enumerate(zip(events, bodies, strict=True))
        ]
        control = self.control
        lease.require(control.core.lease, [event["type"] for event in events], epoch, by.principal)
        stored: list[bytes] = []
        for index, (event, body, said) in enumerate(zip(events, bodies, parsed, strict=True)):
            position = len(self.events) + len(stored)
            rules.require(control, event["type"], said, by, position, index, self.limits)
            stored.append(self._step(control, event, body, by.principal, position))
        trip = control.trip_due(self.now_ms)
        if trip is not None:
            tripped = {"type": "ds.budget.tripped", "limit": trip.limit, "max": trip.max, "value": trip.value}
            body = msgspec.json.encode(tripped)
            position = len(self.events) + len(stored)
            stored.append(self._step(control, tripped, body, by.principal, position))
        self._store(control, stored)
        return [msgspec.json.decode(one)["id"] for one in stored[: len(events)]]

    def write(self, *events: Event, by: str = "server") -> list[str]:
        """Append what only the server writes."""
        control = self.control
        stored: list[bytes] = []
        for event in events:
            position = len(self.events) + len(stored)
            stored.append(self._step(control, event, msgspec.json.encode(event), by, position))
        self._store(control, stored)
        return [msgspec.json.decode(one)["id"] for one in stored]

    def wake(self, by: str = "coder", *, exclusive: bool = True) -> int:
        """Give the session to a worker; return the epoch."""
        epoch = self.control.core.epoch + 1
        claim = {"epoch": epoch, "worker": "host", "seconds": 60, "exclusive": exclusive}
        self.write({"type": "ds.lease.claimed", **claim}, by=by)
        return epoch

    def fork(self, at: int) -> "Ledger":
        """Return a fork; the prefix is folded, as a server does it if control has changed since."""
        forked = Ledger(self.limits)
        forked.now_ms = self.now_ms
        forked.events = self.events[:at]
        forked.base = at
        fold = self.fold(at)
        forked.attributes = fold.control.cross_fork().attributes()
        return forked

    def fold(self, at: int | None = None) -> Fold:
        """Fold from zero."""
        fold = Fold(self.limits)
        self.advance(fold, len(self.events) if at is None else at)
        return fold

    def advance(self, fold: Fold, to: int) -> None:
        """Fold on; the boundary of a fork belongs to its last inherited event."""
        if to and fold.folded.position == 0 == self.base:
            fold.cross_fork()
        while fold.folded.position < to:
            fold.step(self.happened(fold.folded.position))
            if fold.folded.position == self.base:
                fold.cross_fork()

    def happened(self, position: int) -> Happened:
        """Return a stored event as a fold reads it."""
        return happened(self.events[position], position, self.checked_from)

    @property
    def checked_from(self) -> int | None:
        """The position of the first strict event that was checked."""
        control = self.control
        return control.core.checked_from if control.is_controlled else None

    def _step(self, control: Control, event: Event, body: bytes, actor: str, position: int) -> bytes:
        at = rfc3339(self.now_ms)
        front = {"id": event.get("id", f"e{position}"), "offset": offsets.encode(position)}
        front |= {"created_at": at, "processed_at": at, "actor": actor}
        members = {name: value for name, value in event.items() if name != "id"}
        control.step(Happened(event["type"], front["id"], position, actor, self.now_ms, body))
        return msgspec.json.encode({**front, **members})

    def _store(self, control: Control, stored: list[bytes]) -> None:
        for name, value in control.changes().items():
            if value is None:
                self.attributes.pop(name, None)
            else:
                self.attributes[name] = value
        self.events += stored
        self.now_ms += 1_000
