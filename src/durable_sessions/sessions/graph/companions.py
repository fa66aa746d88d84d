"""What strict events mean in Managed Agents' words: events that the server appends behind their batch.

A client that knows only those words sees a session run, wait, stop and end in its own vocabulary.
"""

from collections.abc import Callable, Iterable
from typing import Any

from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.approvals import PendingApproval
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.happened import Happened

Word = dict[str, Any]
"""An event of theirs, without the members that the server gives to every event."""

_RESULT_BY_DECISION = {"approve": "allow", "reject": "deny"}
IsCall = Callable[[str], bool]
"""Says whether an event is a tool call; targets of refs never change, so this is known beforehand."""


def idle(reason: str, event_ids: Iterable[str] = ()) -> Word:
    """Return the word for a session that waits."""
    stop_reason: Word = {"type": reason}
    if reason == "requires_action":
        stop_reason["event_ids"] = list(event_ids)
    return {"type": "session.status_idle", "stop_reason": stop_reason}


class Companions:
    """Collects the words of one batch; ``status`` is what their words said before it."""

    def __init__(self, control: Control, status: str, is_call: IsCall) -> None:
        self._control = control
        self._was_stopped = bool(control.core.stops)
        self._status = status
        self._is_call = is_call
        self.words: list[Word] = []

    def before(self, event: schemas.StrictEvent | None) -> None:
        """Look at an event before control takes it: a decision ends the request that it answers."""
        if isinstance(event, schemas.ApprovalDecided):
            pending = next((one for one in self._control.approvals if one.id == event.request), None)
            if pending is not None:
                self._confirm(event, pending)

    def after(self, happened: Happened) -> None:
        """Look at an event that control has taken."""
        event = happened.strict
        if isinstance(event, schemas.BudgetTripped):
            self._say(idle("budget_reached"), "idle")
        elif isinstance(event, schemas.ApprovalRequested) and event.blocking:
            about = self._control.approvals[-1].about or happened.id
            self._say(idle("requires_action", [about]), "idle")
        elif isinstance(event, schemas.LeaseClaimed):
            if self._status != "running":
                self._say({"type": "session.status_running"}, "running")
        elif isinstance(event, schemas.Paused | schemas.LeaseReleased):
            if self._status != "idle":
                self._say(idle("end_turn"), "idle")
        elif isinstance(event, schemas.Ended):
            self._say({"type": "session.status_terminated"}, "terminated")

    def end(self) -> list[Word]:
        """Return the words; a lifted stop must be said, too, or their clients would wait for ever."""
        if self._was_stopped and not self._control.core.stops:
            lease = self._control.core.lease
            if lease is not None and not lease.released:
                self._say({"type": "session.status_running"}, "running")
            else:
                self._say(idle("end_turn"), "idle")
        return self.words

    def _confirm(self, event: schemas.ApprovalDecided, pending: PendingApproval) -> None:
        result = _RESULT_BY_DECISION.get(event.decision)
        if result is None or pending.about is None or not self._is_call(pending.about):
            return
        word = {"type": "user.tool_confirmation", "tool_use_id": pending.about, "result": result}
        self.words.append(word if result == "allow" else {**word, "deny_message": event.reason})

    def _say(self, word: Word, status: str) -> None:
        self.words.append(word)
        self._status = status
