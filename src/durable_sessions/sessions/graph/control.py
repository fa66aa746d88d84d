"""What can refuse an append: lease, stops, outcome, approvals, budget, and who has generated.

It is kept in a few attributes of the session's stream, written in the same batch as the event that changes
them. :meth:`Control.step` is the only way in which an event changes them, at the tip as in a fold, so both
agree. An attribute is decoded when somebody needs it: most appends need one or two.
"""

from collections.abc import Callable, Container, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from durable_sessions.limits import Limits
from durable_sessions.sessions.graph import approvals, managed_outcomes, outcome, schemas, strict
from durable_sessions.sessions.graph.approvals import PendingApproval
from durable_sessions.sessions.graph.budget import MEASURED, CostLimit, Meter, Trip
from durable_sessions.sessions.graph.happened import Happened
from durable_sessions.sessions.graph.lease import Lease
from durable_sessions.sessions.graph.managed_outcomes import ManagedOutcomes
from durable_sessions.sessions.graph.outcome import DoneCondition
from durable_sessions.sessions.graph.schemas import See, StrictEvent

CONTROL = "control"
GENERATORS = "generators"
OUTCOME = "outcome"
APPROVALS = "approvals"
METER = "meter"
MANAGED_OUTCOMES = "their_outcomes"  # the name under which it is stored
GENERATED = ("agent.", "adk.", "agent-framework.", "claude.", "langgraph.", "openai.", "pydantic.")
"""What the types of an agent's work begin with, also where an adapter keeps it as its framework has it."""
ATTRIBUTES = (CONTROL, GENERATORS, OUTCOME, APPROVALS, METER, MANAGED_OUTCOMES)


class SessionRoute(msgspec.Struct, omit_defaults=True):
    """Who gets the session next, what must pass before, and what the context is narrowed to."""

    id: str
    to: str
    reason: str
    needs: list[str] = []
    see: See | None = None


class SessionStop(NamedTuple):
    """Why a session is stopped; ``id`` is the event that stopped it."""

    kind: Literal["paused", "approval", "budget"]
    id: str


class Core(msgspec.Struct, omit_defaults=True):
    """What most decisions need: small, so that it is cheap to decode and to write again.

    ``checked_from`` is the position of the first strict event that was checked; older ones count for nothing.
    ``through`` is the position behind the last event that changed anything here. ``worked`` says that there
    is a free event, ``lifted`` that a stop was lifted once.
    """

    checked_from: int = 0
    through: int = 0
    epoch: int = 0
    wakes: int = 0
    lease: Lease | None = None
    route: SessionRoute | None = None
    paused: str | None = None
    blocking: list[str] = []
    trip: Trip | None = None
    facts: int = 0
    facts_bytes: int = 0
    worked: bool = False
    lifted: bool = False

    @property
    def stops(self) -> list[SessionStop]:
        """Everything that stops the session now."""
        stops = [] if self.paused is None else [SessionStop("paused", self.paused)]
        stops += [SessionStop("approval", request) for request in self.blocking]
        return stops if self.trip is None else [*stops, SessionStop("budget", self.trip.id)]


_DECODERS: dict[str, "msgspec.json.Decoder[Any]"] = {
    CONTROL: msgspec.json.Decoder(Core),
    GENERATORS: msgspec.json.Decoder(dict[str, int]),
    OUTCOME: msgspec.json.Decoder(DoneCondition),
    APPROVALS: msgspec.json.Decoder(list[PendingApproval]),
    METER: msgspec.json.Decoder(Meter),
    MANAGED_OUTCOMES: msgspec.json.Decoder(ManagedOutcomes),
}


class Control:
    """The control of one session; changes stay here until :meth:`changes` is stored."""

    def __init__(self, attributes: Mapping[str, bytes], limits: Limits) -> None:
        self._stored = attributes
        self._limits = limits
        self._parts: dict[str, Any] = {}
        self.is_controlled = CONTROL in attributes
        """Whether a strict event was ever stored here; without one, nothing is kept but who generated."""

    @property
    def core(self) -> Core:
        """Lease, route, stops and counters."""
        return self._part(CONTROL, Core)  # type: ignore[no-any-return]

    @property
    def generators(self) -> dict[str, int]:
        """The principals that did the work, and the position of the first event of each."""
        return self._part(GENERATORS, dict)  # type: ignore[no-any-return]

    @property
    def outcome(self) -> DoneCondition | None:
        """The done-condition, None if none was defined."""
        return self._part(OUTCOME, _nothing)  # type: ignore[no-any-return]

    @property
    def approvals(self) -> list[PendingApproval]:
        """The requests that nobody has decided."""
        return self._part(APPROVALS, list)  # type: ignore[no-any-return]

    @property
    def meter(self) -> Meter | None:
        """What is counted for a budget, None without one."""
        return self._part(METER, _nothing)  # type: ignore[no-any-return]

    @property
    def managed_outcomes(self) -> ManagedOutcomes | None:
        """The outcomes in Managed Agents' words, None without any."""
        return self._part(MANAGED_OUTCOMES, _nothing)  # type: ignore[no-any-return]

    @property
    def done(self) -> bool | None:
        """Whether all features and all outcomes in Managed Agents' words pass; None without any."""
        outcome, managed = self.outcome, self.managed_outcomes
        if outcome is None and managed is None:
            return None
        return (outcome is None or outcome.done) and (managed is None or managed.done)

    @property
    def through(self) -> int:
        """The position behind the last event that changed control: a fork from there on copies it."""
        generated = max(self.generators.values(), default=-1) + 1
        metered = 0 if self.meter is None else self.meter.through
        managed = 0 if self.managed_outcomes is None else self.managed_outcomes.through
        return max(self.core.through, generated, metered, managed)

    def attributes(self) -> dict[str, bytes]:
        """Return everything as attributes."""
        kept = {name: self._stored[name] for name in ATTRIBUTES if name in self._stored}
        for name, value in self.changes().items():
            if value is None:
                kept.pop(name, None)
            else:
                kept[name] = value
        return kept

    def changes(self) -> dict[str, bytes | None]:
        """Return the attributes that differ from those that were given."""
        changed: dict[str, bytes | None] = {}
        for name, part in self._parts.items():
            is_empty = not self.is_controlled if name == CONTROL else not part
            # Compared as bytes: a part that was only looked at must not be written again with every append.
            value = None if is_empty else msgspec.json.encode(part)
            if value != self._stored.get(name):
                changed[name] = value
        return changed

    def step(self, happened: Happened) -> None:
        """Let an event that is stored, or about to be, change what can refuse later ones."""
        kind = happened.type
        if strict.is_strict(kind):
            event = happened.strict
            if event is not None:
                self._step_strict(event, happened)
            return
        # Who imports a run did not do its work, and may judge it.
        if happened.imported is None and kind.startswith(GENERATED):
            generators = self.generators
            if happened.actor not in generators:
                generators[happened.actor] = happened.position
        if self.is_controlled and not self.core.worked:
            self.core.worked = True
            self.core.through = happened.position + 1
        if kind in MEASURED and self.meter is not None:
            self.meter.count(happened)
        if kind in managed_outcomes.TYPES:
            self._parts[MANAGED_OUTCOMES] = managed_outcomes.stepped(
                self.managed_outcomes,
                happened,
                is_generator=happened.actor in self.generators,
                limits=self._limits,
            )

    def limit_cost(self, usd: float | None, position: int, at_ms: int) -> None:
        """Set or lift the limit on cost of the session's record, behind this many events."""
        meter = self.meter
        if meter is None:
            meter = self._parts[METER] = Meter(at_ms)
        meter.limit_cost(CostLimit(position, at_ms, usd))
        self._lift_trip(meter, at_ms)

    def _lift_trip(self, meter: Meter, at_ms: int) -> None:
        """Go on if no limit is reached any more; if another one still is, that one stops the session now."""
        trip = self.core.trip
        if trip is None:
            return
        reached = meter.reached(at_ms)
        if reached is None:
            self.core.trip, self.core.lifted = None, True
        elif not meter.is_reached(trip.limit, at_ms):
            self.core.trip = Trip(reached.limit, reached.max, reached.value, trip.id)

    def trip_due(self, now_ms: int) -> Trip | None:
        """Return the limit that was reached and has not tripped yet."""
        if METER not in self._stored and METER not in self._parts:
            return None
        meter = self.meter
        return None if meter is None or self.core.trip is not None else meter.reached(now_ms)

    def cross_fork(self) -> "Control":
        """Return what a fork begins with: no lease, route, pause or pending approvals of its source."""
        core = self.core
        begun = Control(self.attributes(), self._limits)
        # A budget that has tripped stays so: branching is no way round it. The epoch begins at 0 again, so
        # that no worker of the source can write here.
        begun._parts[CONTROL] = Core(
            checked_from=core.checked_from,
            through=core.through,
            trip=core.trip,
            facts=core.facts,
            facts_bytes=core.facts_bytes,
            worked=core.worked,
        )
        begun._parts[APPROVALS] = []
        return begun

    def _step_strict(self, event: StrictEvent, happened: Happened) -> None:
        if not self.is_controlled:
            self.is_controlled = True
            self.core.checked_from = happened.position
            # Free events that came before the first strict one are work, too.
            self.core.worked = happened.position > 0
        self.core.through = happened.position + 1
        if (step := _STEPS.get(type(event).__name__)) is not None:
            step(self, event, happened)

    def _paused(self, _event: schemas.Paused, happened: Happened) -> None:
        self.core.paused = happened.id

    def _resumed(self, _event: schemas.Resumed, _happened: Happened) -> None:
        if self.core.paused is not None:
            self.core.paused, self.core.lifted = None, True

    def _claimed(self, event: schemas.LeaseClaimed, happened: Happened) -> None:
        if happened.imported is not None:
            return  # a lease is of this server, and of nobody who brings one along
        core = self.core
        core.epoch, core.wakes = event.epoch, core.wakes + 1
        core.lease = Lease(
            event.epoch, event.worker, happened.actor, event.seconds, event.exclusive, happened.at_ms
        )

    def _released(self, event: schemas.LeaseReleased, happened: Happened) -> None:
        lease = self.core.lease
        if happened.imported is None and lease is not None and lease.epoch == event.epoch:
            lease.released = True

    def _routed(self, event: schemas.Routed, happened: Happened) -> None:
        route = SessionRoute(happened.id, event.to, event.reason, event.needs, event.see)
        self.core.route = None if event.to == "*" else route

    def _fact(self, event: schemas.Fact, _happened: Happened) -> None:
        # Counted and not kept: a list that grows would be written again with every event.
        self.core.facts += 1
        self.core.facts_bytes += len(event.key.encode()) + len(bytes(event.value))

    def _retracted(self, _event: schemas.FactRetracted, _happened: Happened) -> None:
        self.core.facts += 1

    def _defined(self, event: schemas.OutcomeDefined, happened: Happened) -> None:
        self._parts[OUTCOME] = outcome.defined(self.outcome, event, happened, self._limits)

    def _judged(self, event: schemas.Evaluation, happened: Happened) -> None:
        outcome.judged(self.outcome, event, happened)

    def _requested(self, event: schemas.ApprovalRequested, happened: Happened) -> None:
        self.approvals.append(approvals.requested(event, happened))
        if event.blocking:
            self.core.blocking.append(happened.id)

    def _decided(self, event: schemas.ApprovalDecided, _happened: Happened) -> None:
        self._parts[APPROVALS] = [one for one in self.approvals if one.id != event.request]
        if event.request in self.core.blocking:
            self.core.blocking.remove(event.request)
            self.core.lifted = True

    def _budget(self, event: schemas.BudgetSet, happened: Happened) -> None:
        meter = self.meter
        if meter is None:
            meter = self._parts[METER] = Meter(happened.at_ms)
        meter.set(event, happened.id)
        self._lift_trip(meter, happened.at_ms)

    def _tripped(self, event: schemas.BudgetTripped, happened: Happened) -> None:
        self.core.trip = Trip(event.limit, event.max, event.value, happened.id)

    def _adopted(self, event: schemas.Adopted, _happened: Happened) -> None:
        for fact in event.facts:
            self.core.facts += 1
            self.core.facts_bytes += len(fact.key.encode()) + len(bytes(fact.value))
        for verdict in event.verdicts:
            feature = None if self.outcome is None else self.outcome.feature(verdict.feature)
            if feature is not None:
                feature.judge(verdict.verdict, verdict.id, verdict.by)

    def _part(self, name: str, empty: Callable[[], Any]) -> Any:
        # Decoded when it is asked for: an append needs one or two of the six, and an outcome can be 256 KiB.
        if name not in self._parts:
            stored = self._stored.get(name)
            self._parts[name] = empty() if stored is None else _DECODERS[name].decode(stored)
        return self._parts[name]


def _nothing() -> None:
    return None


_STEPS: dict[str, Callable[[Control, Any, Happened], None]] = {
    "Paused": Control._paused,
    "Resumed": Control._resumed,
    "LeaseClaimed": Control._claimed,
    "LeaseReleased": Control._released,
    "Routed": Control._routed,
    "Fact": Control._fact,
    "FactRetracted": Control._retracted,
    "OutcomeDefined": Control._defined,
    "Evaluation": Control._judged,
    "ApprovalRequested": Control._requested,
    "ApprovalDecided": Control._decided,
    "BudgetSet": Control._budget,
    "BudgetTripped": Control._tripped,
    "Adopted": Control._adopted,
}
"""How each strict event changes control; the others change nothing that can refuse."""


def without_events(
    attributes: Mapping[str, bytes], erased: Container[str], limits: Limits
) -> dict[str, bytes]:
    """Return the attributes that hold texts of erased events, as a fold of what is left of these has them."""
    control = Control(attributes, limits)
    if CONTROL in attributes and (route := control.core.route) is not None and route.id in erased:
        route.reason = strict.ERASED_TEXT
    if (defined := control.outcome) is not None and defined.id in erased:
        defined.description = None
        for feature in defined.features:
            feature.text = strict.ERASED_TEXT
    for request in control.approvals:
        if request.id in erased:
            request.question = strict.ERASED_TEXT
    return {name: value for name, value in control.changes().items() if value is not None}
