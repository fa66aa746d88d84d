"""The rules for the work on sessions that every history must keep; each yields descriptions of violations.

A session is judged by its log, as it was read in the end, and by what each call was answered. A history has
such a read of every session.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from durable_sessions.testing.history import (
    AppendAcknowledged,
    CallRefused,
    Done,
    LeaseGranted,
    ReadSessionOperation,
    RecordedCall,
    ReleaseOperation,
    RenewOperation,
    SessionShown,
    ShownWork,
    WakeOperation,
    WorkOperation,
)

_CLAIMED, _RELEASED = "ds.lease.claimed", "ds.lease.released"
_PAUSED, _RESUMED = "ds.session.paused", "ds.session.resumed"
_WORK = ("agent.", "span.")
_SIGNS_OF_LIFE = WorkOperation, RenewOperation
_REPORTS = frozenset({"agent.tool_result", "agent.mcp_tool_result", "span.model_request_end"})


@dataclass(slots=True)
class WorkAttempts:
    """One append of a worker and its retries."""

    request: WorkOperation
    calls: list[RecordedCall] = field(default_factory=list)

    @property
    def is_acknowledged(self) -> bool:
        """Whether some call was told that it is stored."""
        return any(isinstance(call.outcome, AppendAcknowledged) for call in self.calls)

    @property
    def is_refused(self) -> bool:
        """Whether it certainly never happened."""
        return all(isinstance(call.outcome, CallRefused) for call in self.calls)


class WorkedSession:
    """The calls on one session, and its log."""

    def __init__(self, session: str, calls: Sequence[RecordedCall]) -> None:
        self.calls = sorted(calls, key=lambda call: call.started)
        self.reads = [call.outcome.events for call in self.calls if isinstance(call.outcome, SessionShown)]
        asked = [call.outcome for call in self.calls if isinstance(call.request, ReadSessionOperation)]
        if not self.reads and CallRefused("session_not_found") not in asked:
            raise ValueError(f"nobody has read the session {session} in the end")
        self.log: tuple[ShownWork, ...] = self.reads[-1] if self.reads else ()
        self.attempts: dict[str, WorkAttempts] = {}
        for call in self.calls:
            if isinstance(call.request, WorkOperation):
                first = call.request.events[0].id
                group = self.attempts.setdefault(first, WorkAttempts(call.request))
                if group.request != call.request:
                    raise ValueError(f"an append is no retry, but not distinct from another: {call}")
                group.calls.append(call)

    def sent(self) -> dict[str, WorkOperation]:
        """Return by the id of each event how it was sent."""
        return {
            event.id: attempts.request
            for attempts in self.attempts.values()
            for event in attempts.request.events
        }


WorkRule = Callable[[WorkedSession], Iterator[str]]


def no_work_of_an_older_epoch(session: WorkedSession) -> Iterator[str]:
    """What a worker sent under an epoch stands behind the claim of that epoch, and before the next one."""
    sent = session.sent()
    epoch, holder, is_held = 0, "", False
    for position, event in enumerate(session.log):
        if event.type == _CLAIMED:
            epoch, holder, is_held = event.epoch or 0, event.actor, True
        elif event.type == _RELEASED:
            is_held = False
        request = sent.get(event.id)
        if request is None:
            continue
        if request.epoch is not None:
            if not is_held or request.epoch != epoch or request.principal != holder:
                held = f"epoch {epoch} of {holder}" if is_held else "no lease"
                yield f"{event.id} of epoch {request.epoch} is at {position}, where there is {held}"
        elif is_held and event.type.startswith(_WORK):
            yield f"{event.id} without an epoch is at {position}, where {holder} has epoch {epoch}"


def epochs_count_up(session: WorkedSession) -> Iterator[str]:
    """Each claim has the next epoch, and who was told an epoch has claimed it."""
    claims = [event for event in session.log if event.type == _CLAIMED]
    for number, claim in enumerate(claims, 1):
        if claim.epoch != number:
            yield f"the claim number {number} has the epoch {claim.epoch}"
    workers = {claim.epoch: claim.worker for claim in claims}
    for call in session.calls:
        if not isinstance(call.request, WakeOperation) or not isinstance(call.outcome, LeaseGranted):
            continue
        if workers.get(call.outcome.epoch) != call.request.worker:
            yield f"it is claimed by {workers.get(call.outcome.epoch)}: {call}"


def acknowledged_work_is_there(session: WorkedSession) -> Iterator[str]:
    """Of an append all events are there once, one after the other, or none; none if it was refused."""
    places: dict[str, list[int]] = {}
    for position, event in enumerate(session.log):
        places.setdefault(event.id, []).append(position)
    for attempts in session.attempts.values():
        found = [places.get(event.id, []) for event in attempts.request.events]
        if any(len(one) > 1 for one in found):
            yield f"{attempts.request.events} is at {found}"
        flat = [one[0] for one in found if one]
        is_whole = len(flat) == len(found) and flat == list(range(flat[0], flat[0] + len(flat)))
        if attempts.is_acknowledged and not is_whole:
            yield f"{attempts.request.events} was acknowledged and is at {found}"
        elif attempts.is_refused and flat:
            yield f"{attempts.request.events} was refused and is at {found}: {attempts.calls[-1]}"
        elif flat and not is_whole:
            yield f"only a part of {attempts.request.events} is there: {found}"


def nothing_works_behind_a_stop(session: WorkedSession) -> Iterator[str]:
    """While a session is paused, its worker's events are not taken, but for reports of what was running."""
    paused: int | None = None
    for position, event in enumerate(session.log):
        if event.type in (_PAUSED, _RESUMED):
            if (event.type == _PAUSED) == (paused is not None):
                yield f"{event.type} is at {position}, and the pause before it at {paused}"
            paused = position if event.type == _PAUSED else None
        elif paused is not None and (
            event.type == _CLAIMED or (event.type.startswith(_WORK) and event.type not in _REPORTS)
        ):
            yield f"{event.type} is at {position}, and the session was paused at {paused}"


def logs_only_grow(session: WorkedSession) -> Iterator[str]:
    """Every read shows what the one before it has shown, and more behind it."""
    for read in session.reads:
        if session.log[: len(read)] != read:
            yield f"a read had {len(read)} events that are not those of the last one"


WORK_RULES: tuple[WorkRule, ...] = (
    no_work_of_an_older_epoch,
    epochs_count_up,
    acknowledged_work_is_there,
    nothing_works_behind_a_stop,
    logs_only_grow,
)


def live_leases_are_kept(session: WorkedSession) -> Iterator[str]:
    """Nobody is given a lease that another principal has renewed so shortly before, unless by force.

    It holds as long as no clock jumps: so it is none of the rules that every history must keep.
    """
    owners: dict[int, WakeOperation] = {}
    alive: list[tuple[int, float]] = []
    for call in session.calls:
        request, outcome = call.request, call.outcome
        if isinstance(request, WakeOperation) and isinstance(outcome, LeaseGranted):
            owners[outcome.epoch] = request
            alive.append((outcome.epoch, call.started))
        elif isinstance(outcome, AppendAcknowledged | Done) and isinstance(request, _SIGNS_OF_LIFE):
            is_repeat = isinstance(outcome, AppendAcknowledged) and outcome.duplicate
            if request.epoch is not None and not is_repeat:
                alive.append((request.epoch, call.started))
    released = {event.epoch for event in session.log if event.type == _RELEASED}
    unknown = {
        call.request.epoch
        for call in session.calls
        if isinstance(call.request, ReleaseOperation) and not isinstance(call.outcome, CallRefused)
    }
    for call in session.calls:
        request, outcome = call.request, call.outcome
        if not isinstance(request, WakeOperation) or not isinstance(outcome, LeaseGranted) or request.force:
            continue
        before = outcome.epoch - 1
        if before not in owners or before in released | unknown or call.ended is None:
            continue
        owner = owners[before]
        latest = max(at for epoch, at in alive if epoch == before and at < call.ended)
        if owner.principal != request.principal and call.ended < latest + owner.seconds:
            yield f"{owner.principal} was alive at {latest:.3f}, for {owner.seconds} s: {call}"
