"""Outcomes that were asked for in Managed Agents' words: they count for whether a session is done."""

import msgspec

from durable_sessions.limits import Limits
from durable_sessions.sessions.graph.happened import Happened

DEFINED = "user.define_outcome"
EVALUATED = "span.outcome_evaluation_end"
TYPES = frozenset({DEFINED, EVALUATED})
_SATISFIED = "satisfied"


class ManagedOutcomes(msgspec.Struct):
    """By its id whether each passes; ``through`` is behind the last event that said so."""

    passing: dict[str, bool] = {}
    through: int = 0

    @property
    def done(self) -> bool:
        """Whether all of them pass."""
        return all(self.passing.values())


def stepped(
    outcomes: ManagedOutcomes | None, happened: Happened, *, is_generator: bool, limits: Limits
) -> ManagedOutcomes | None:
    """Return the outcomes after an event; a verdict of who did the work counts for nothing."""
    name = happened.members.text("outcome_id")
    if name is None:
        return outcomes
    if happened.type == DEFINED:
        outcomes = ManagedOutcomes() if outcomes is None else outcomes
        if name not in outcomes.passing and len(outcomes.passing) < limits.session_outcomes_max:
            outcomes.passing[name] = False
            outcomes.through = happened.position + 1
    elif outcomes is not None and name in outcomes.passing and not is_generator:
        outcomes.passing[name] = happened.members.text("result") == _SATISFIED
        outcomes.through = happened.position + 1
    return outcomes
