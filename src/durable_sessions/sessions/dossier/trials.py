"""Trials: sessions that are tries at the same thing, and how each has ended."""

from typing import Protocol

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import DossierTooLargeError
from durable_sessions.limits import Limits
from durable_sessions.sessions import record
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView

TRIAL_OF = "trial_of"
"""The member of a session's metadata that says what it is a trial of."""


class TrialRun(msgspec.Struct, array_like=True, frozen=True, order=True):
    """A trial, whether it is done, and the last verdicts on its features."""

    session: str
    passed: bool
    evaluations: list[str]


class TrialDirectory(Protocol):
    """Finds the trials of a workspace, wherever they are; refuses if one of them cannot be known now."""

    async def of(self, workspace: str, name: str) -> list[TrialRun]:
        """Return the trials of something."""
        ...


class PartitionTrials:
    """Finds the trials of a workspace in one partition."""

    def __init__(self, sessions: Sessions, limits: Limits) -> None:
        self._sessions = sessions
        self._limits = limits

    async def of(self, workspace: str, name: str) -> list[TrialRun]:
        """Return the trials of something, as each stands now."""
        most = self._limits.dossier_trials_max
        numbers = await self._sessions.lists.numbers(
            workspace, lambda view: trial_of(view) == name, most, {TRIAL_OF: name}
        )
        require_few(len(numbers), self._limits)
        views = (self._sessions.streams.peek_id(number) for number in numbers)
        return [await self._run(view) for view in views if view is not None]

    async def _run(self, view: StreamView) -> TrialRun:
        control = (await self._sessions.folds.at(view, view.tail)).control
        features = [] if control.outcome is None else control.outcome.features
        judged = [one.evaluation for one in features if one.evaluation is not None]
        return TrialRun(session_of(view.stream.key), control.done is True, judged)


def trial_of(view: StreamView) -> str | None:
    """Return what a session is a trial of; None if it does not say so."""
    named = record.of(view.attributes).metadata.get(TRIAL_OF)
    return None if named is None else lenient.text(named) or bytes(named).decode(errors="replace")


def require_few(count: int, limits: Limits) -> None:
    """Refuse if there are more trials than a dossier counts."""
    if count > limits.dossier_trials_max:
        raise DossierTooLargeError(what=f"more than {limits.dossier_trials_max:,} trials")
