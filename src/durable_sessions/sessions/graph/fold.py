"""The fold of one session: its state after each event, incrementally, from any snapshot or from zero.

A fold imports neither storage nor time: the same code runs in the server, in tests, and over an exported
file. It is total: an event that does not fit changes nothing, or leaves a warning.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from durable_sessions import lenient
from durable_sessions.limits import Limits
from durable_sessions.rendering import lenses
from durable_sessions.sessions.graph import lensed, outcome, schemas, strict
from durable_sessions.sessions.graph.budget import CostLimit
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.folded_session import (
    AttachedArtifact,
    CompactedRange,
    Decided,
    FoldedSession,
    Goal,
    KnownFact,
    LastCheckpoint,
    OpenCall,
    PlacedSandbox,
    Warned,
)
from durable_sessions.sessions.graph.happened import (
    CALLS,
    EFFECTS,
    MODEL_REQUEST_END,
    RESULTS,
    Happened,
    ModelUsage,
)
from durable_sessions.sessions.summary import STATUS_BY_TYPE

FORMAT = 600 + lenses.VERSION
"""Of snapshots: one of another number is not used. What adapters have stored counts by what it means."""
_REASON_MAX = 128
_ACTIVE = frozenset({"requested", "ready", "suspended"})
_WAITING = frozenset({"requires_action", "budget_reached"})


_SNAPSHOT = msgspec.json.Decoder(FoldedSession)


class Fold:
    """Steps through the events of a session."""

    def __init__(self, limits: Limits, folded: FoldedSession | None = None) -> None:
        self._limits = limits
        self.folded = FoldedSession() if folded is None else folded
        self.control = Control(self.folded.control, limits)

    @classmethod
    def restore(cls, snapshot: bytes, limits: Limits) -> "Fold":
        """Go on from a snapshot."""
        return cls(limits, _SNAPSHOT.decode(snapshot))

    def snapshot(self) -> bytes:
        """Return what is needed to go on from here."""
        self.folded.control = self.control.attributes()
        return msgspec.json.encode(self.folded)

    def step(self, happened: Happened) -> None:
        """Take the next event."""
        folded = self.folded
        kind = happened.type
        if strict.is_strict(kind):
            self._strict(happened)
        else:
            folded.is_open = False
            if (read := _READ.get(kind)) is not None:
                read(self, happened)
            elif lensed.is_of_adapter(happened.body):
                self._adapters(happened)
        self.control.step(happened)
        folded.position = happened.position + 1
        folded.at_ms = happened.at_ms
        self._look_for_checkpoint(happened)

    def limit_cost(self, limits: Sequence[CostLimit]) -> None:
        """Set the limits on cost, of all that the session's record ever had, that are due here."""
        meter = self.control.meter
        done = 0 if meter is None else len(meter.cost_limits)
        for limit in limits[done:]:
            if limit.position > self.folded.position:
                return
            self.control.limit_cost(limit.usd, limit.position, limit.at_ms)

    def cross_fork(self) -> None:
        """Cross the boundary between what a fork inherits and its own events."""
        folded = self.folded
        self.control = self.control.cross_fork()
        # What the source spent is shown apart, or a family would be billed for it twice.
        folded.inherited.add(folded.own)
        folded.own = ModelUsage()
        folded.last_request, folded.last_used = None, ModelUsage()
        # Results of these calls arrive in the source, and two sessions in a sandbox overwrite each other.
        folded.open_calls, folded.sandboxes, folded.sandbox = {}, {}, None
        folded.status, folded.stop_reason, folded.is_resumed = "idle", None, False
        folded.leased_since, folded.is_overdue = None, False
        folded.memory_writes, folded.memory_reads, folded.rolled_back = [], [], []

    def _strict(self, happened: Happened) -> None:
        event = happened.strict
        if event is None:
            self._warn(
                "imported_untrusted",
                f"{happened.type[:128]} counts for nothing: it was imported by who may not vouch for it, or "
                "stored before such events were checked.",
                happened,
            )
        elif (step := _STEPS.get(type(event).__name__)) is not None:
            step(self, event, happened)

    # Strict events ---------------------------------------------------------------------

    def _fact(self, event: schemas.Fact, happened: Happened) -> None:
        self._know(event.key, event.value, event.kind, happened.id, happened)
        if event.kind == "goal":
            text = lenient.text(event.value) or strict.ERASED_TEXT
            if self.folded.goal is None:
                self.folded.goal = Goal(text, happened.id)
            else:
                self._keep(self.folded.goal.changes, happened.id)
                self._warn("goal_changed", "The goal was set again; the first one counts.", happened)

    def _retracted(self, event: schemas.FactRetracted, happened: Happened) -> None:
        if self.folded.facts.pop(event.key, None) is None:
            self._warn("nothing_retracted", f"There was no fact {event.key} to retract.", happened)

    def _defined(self, event: schemas.OutcomeDefined, happened: Happened) -> None:
        before = self.control.outcome
        generators = self.control.generators
        if before is None and generators:
            self._warn("outcome_defined_late", "The outcome was defined after the work had begun.", happened)
        if happened.actor in generators:
            self._warn(
                "outcome_self_defined",
                f"The outcome was defined by {happened.actor}, who does the work.",
                happened,
            )
        for name in outcome.changed_checks(before, event):
            self._warn("check_changed", f"The check of {name} was changed; it starts anew.", happened)
        kept = {feature.id for feature in event.features}
        for feature in [] if before is None else before.features:
            if feature.id not in kept:
                self._warn("feature_removed", f"The feature {feature.id} was removed.", happened)

    def _decision(self, event: schemas.ApprovalDecided, happened: Happened) -> None:
        decided = Decided(happened.id, event.request, event.decision, happened.actor, event.reason)
        self.folded.decided = [*self.folded.decided, decided][-self._limits.state_decided_max :]

    def _placed(self, event: schemas.SandboxReported, happened: Happened) -> None:
        folded = self.folded
        known = folded.sandboxes.pop(event.sandbox, None)
        history = [] if known is None else known.history
        self._keep(history, (happened.id, event.status))
        # Behind all others: the order is that of the last word on each.
        folded.sandboxes[event.sandbox] = PlacedSandbox(said(event), event.status, history)
        if event.status in _ACTIVE:
            folded.sandbox = event.sandbox
        elif folded.sandbox == event.sandbox:
            folded.sandbox = None
        self._bound_sandboxes(event.sandbox)

    def _bound_sandboxes(self, newest: str) -> None:
        """Forget the oldest sandboxes beyond the bounds, but not the present one, nor what was just told."""
        folded = self.folded
        size = sum(one.size for one in folded.sandboxes.values())
        for name in list(folded.sandboxes):
            is_many = len(folded.sandboxes) > self._limits.state_list_max
            if not is_many and size <= self._limits.state_sandboxes_bytes_max:
                return
            if name not in (folded.sandbox, newest):
                size -= folded.sandboxes.pop(name).size

    def _checkpointed(self, event: schemas.Checkpoint, happened: Happened) -> None:
        folded = self.folded
        folded.checkpoint = LastCheckpoint(
            happened.id, happened.position, happened.at_ms, happened.actor, said(event)
        )
        folded.checkpoints += 1
        if folded.leased_since is not None:
            folded.leased_since = happened.position + 1
        folded.is_overdue = False

    def _compacted(self, event: schemas.ContextCompacted, happened: Happened) -> None:
        folded = self.folded
        folded.compactions += 1
        # Trusted imports may say anything: nobody has compared their range with their position.
        made = CompactedRange(happened.id, happened.position, event.from_, min(event.to, happened.position))
        if made.start < made.stop:
            folded.compacted = [one for one in folded.compacted if not made.covers(one)]
            self._keep(folded.compacted, made)

    def _reset(self, event: schemas.ContextReset, happened: Happened) -> None:
        folded = self.folded
        folded.resets += 1
        folded.context_from = happened.position + 1
        folded.reset_to, folded.compacted = event.checkpoint, []

    def _attached(self, event: schemas.ArtifactAttached, happened: Happened) -> None:
        self._keep(self.folded.artifacts, AttachedArtifact(happened.id, event.sha256, event.name, event.role))

    def _remembered(self, _event: schemas.MemoryWritten, happened: Happened) -> None:
        self._keep(self.folded.memory_writes, happened.id)

    def _recalled(self, _event: schemas.MemoryRead, happened: Happened) -> None:
        self._keep(self.folded.memory_reads, happened.id)

    def _undone(self, _event: schemas.MemoryRolledBack, happened: Happened) -> None:
        self._keep(self.folded.rolled_back, happened.id)

    def _adopted(self, event: schemas.Adopted, happened: Happened) -> None:
        for fact in event.facts:
            self._know(fact.key, fact.value, fact.kind, fact.id, happened)
        for artifact in event.artifacts:
            adopted = AttachedArtifact(artifact.id, artifact.sha256, artifact.name, artifact.role)
            self._keep(self.folded.artifacts, adopted)

    def _claimed(self, _event: schemas.LeaseClaimed, happened: Happened) -> None:
        if happened.imported is None:
            self.folded.leased_since, self.folded.is_overdue = happened.position + 1, False
            if self.control.core.wakes == 0 and self.control.done is None:
                self._warn("no_outcome", "The session was woken without a done-condition.", happened)

    def _released(self, event: schemas.LeaseReleased, happened: Happened) -> None:
        if happened.imported is None and self.control.core.epoch == event.epoch:
            self.folded.leased_since = None

    # Free events -----------------------------------------------------------------------

    def _message(self, happened: Happened) -> None:
        if self.folded.first_message is None:
            text = _message_text(happened.members.content)
            if text:
                self.folded.first_message = Goal(text[: self._limits.graph_text_max], happened.id)

    def _call(self, happened: Happened) -> None:
        folded, members = self.folded, happened.members
        folded.calls_total += 1
        effect = members.text("effect")
        folded.open_calls[happened.id] = OpenCall(
            happened.id,
            (members.text("name") or "")[: self._limits.graph_name_max],
            self._shown_input(members.input),
            effect if effect in EFFECTS else "unknown",
            self._shown_key(members.text("idempotency_key")),
            happened.position,
            happened.actor,
            members.text("evaluated_permission") == "ask",
        )
        # A harness that never reports results must not make its snapshots grow for ever.
        while len(folded.open_calls) > self._limits.state_list_max:
            del folded.open_calls[next(iter(folded.open_calls))]

    def _shown_input(self, given: msgspec.Raw) -> msgspec.Raw:
        """Return the input of a call, null if it is large: then it is in the event only."""
        is_large = len(bytes(given)) > self._limits.open_call_input_bytes_max
        return lenient.NULL if is_large else msgspec.Raw(bytes(given))

    def _shown_key(self, key: str | None) -> str | None:
        """Return the key of a call; one that is too long to be one does not make a repeat harmless."""
        return key if key is not None and len(key) <= self._limits.idempotency_key_max else None

    def _result(self, happened: Happened) -> None:
        folded, call = self.folded, happened.members.call
        if happened.members.failed:
            folded.calls_failed += 1
        if call is None:
            return
        if folded.open_calls.pop(call, None) is not None:
            self._keep(folded.closed_calls, call)
        elif call in folded.closed_calls:
            self._keep(folded.repeated_calls, call)
        else:
            self._warn("orphan_result", f"A result names the call {call[:200]}, which is not open.", happened)

    def _confirmed(self, happened: Happened) -> None:
        call = self.folded.open_calls.get(happened.members.call or "")
        if call is not None:
            call.asks = False

    def _requested_model(self, happened: Happened) -> None:
        self.folded.own.add(happened.usage())

    def _status(self, happened: Happened) -> None:
        folded = self.folded
        waited = folded.status == "idle" and folded.stop_reason in _WAITING
        folded.status = STATUS_BY_TYPE[happened.type]
        folded.stop_reason = _stop_reason(happened.members.stop_reason)
        if waited and not (folded.status == "idle" and folded.stop_reason in _WAITING):
            folded.is_resumed = True

    def _adapters(self, happened: Happened) -> None:
        """Take an event of an adapter as what it means; control does not."""
        event = lensed.LensedEvent(happened)
        for one in event.steps():
            _READ[one.type](self, one)
        if (used := event.usage()) is not None:
            self._used(used, event.request)

    def _used(self, used: ModelUsage, request: str | None) -> None:
        """Add what a model request used; of several events that tell of one request the last counts."""
        folded = self.folded
        if request is not None and request == folded.last_request:
            folded.own.take_back(folded.last_used)
        folded.own.add(used)
        folded.last_request, folded.last_used = request, used

    # Shared ----------------------------------------------------------------------------

    def _look_for_checkpoint(self, happened: Happened) -> None:
        folded = self.folded
        if folded.leased_since is None or folded.is_overdue:
            return
        if folded.position - folded.leased_since >= self._limits.checkpoint_due_events:
            folded.is_overdue = True
            self._warn(
                "checkpoint_overdue",
                f"{self._limits.checkpoint_due_events} events in a lease without a checkpoint.",
                happened,
            )

    def _know(
        self, key: str, value: msgspec.Raw, kind: schemas.FactKind, event: str, happened: Happened
    ) -> None:
        # A copy: the value is a view of the event's bytes, which would stay in memory with it.
        kept = msgspec.Raw(bytes(value))
        self.folded.facts[key] = KnownFact(kept, kind, event, happened.position, happened.actor)

    def _warn(self, code: str, message: str, happened: Happened) -> None:
        self._keep(self.folded.warnings, Warned(code, message, happened.id))

    def _keep(self, kept: list[Any], item: Any) -> None:
        """Add to a list that holds the newest only."""
        kept.append(item)
        if len(kept) > self._limits.state_list_max:
            del kept[0]


class _Reason(msgspec.Struct):
    type: msgspec.Raw = lenient.NULL


class _Block(msgspec.Struct):
    text: msgspec.Raw = lenient.NULL


_REASON = msgspec.json.Decoder(_Reason)
_BLOCKS = msgspec.json.Decoder(list[_Block])


def _stop_reason(raw: msgspec.Raw) -> str | None:
    try:
        reason = lenient.text(lenient.decode(_REASON, bytes(raw)).type)
        return reason[:_REASON_MAX] if reason else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def _message_text(raw: msgspec.Raw) -> str:
    """Return the text of a message: a text itself, or blocks of which some have a text."""
    if (text := lenient.text(raw)) is not None:
        return text
    try:
        blocks = lenient.decode(_BLOCKS, bytes(raw))
    except (msgspec.MsgspecError, RecursionError):
        return ""
    texts = (lenient.text(block.text) for block in blocks)
    return "\n".join(text for text in texts if text)


def said(event: schemas.StrictEvent) -> msgspec.Raw:
    """Return the members of an event without those that every event may have."""
    members = msgspec.to_builtins(event, builtin_types=(msgspec.Raw,))
    for common in ("type", "id", "refs", "metadata", "session_thread_id"):
        members.pop(common, None)
    return msgspec.Raw(msgspec.json.encode(members))


_STEPS: dict[str, Callable[[Fold, Any, Happened], None]] = {
    "Fact": Fold._fact,
    "FactRetracted": Fold._retracted,
    "OutcomeDefined": Fold._defined,
    "ApprovalDecided": Fold._decision,
    "SandboxReported": Fold._placed,
    "Checkpoint": Fold._checkpointed,
    "ContextCompacted": Fold._compacted,
    "ContextReset": Fold._reset,
    "ArtifactAttached": Fold._attached,
    "Adopted": Fold._adopted,
    "MemoryWritten": Fold._remembered,
    "MemoryRead": Fold._recalled,
    "MemoryRolledBack": Fold._undone,
    "LeaseClaimed": Fold._claimed,
    "LeaseReleased": Fold._released,
}
"""What views keep of each strict event, beyond what control does."""
_READ: dict[str, Callable[[Fold, Happened], None]] = {
    "user.message": Fold._message,
    "user.tool_confirmation": Fold._confirmed,
    MODEL_REQUEST_END: Fold._requested_model,
    **dict.fromkeys(CALLS, Fold._call),
    **dict.fromkeys(RESULTS, Fold._result),
    **dict.fromkeys(STATUS_BY_TYPE, Fold._status),
}
"""What views read of free events."""
