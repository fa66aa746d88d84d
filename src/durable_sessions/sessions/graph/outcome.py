"""The done-condition of a session: its features, and what judges have said of them."""

from collections.abc import Sequence

import msgspec

from durable_sessions.errors import InvalidEventError, RatchetError
from durable_sessions.limits import Limits
from durable_sessions.sessions.graph.happened import Happened
from durable_sessions.sessions.graph.schemas import Evaluation, Feature, FileDigest, OutcomeDefined, Verdict


class FeatureState(msgspec.Struct, omit_defaults=True):
    """A feature and the last verdict on it; without one it does not pass."""

    id: str
    text: str
    check: str | None = None
    files: list[FileDigest] | None = None
    verdict: Verdict | None = None
    evaluation: str | None = None
    evaluated_by: str | None = None
    iterations: int = 0

    @property
    def passing(self) -> bool:
        """Whether the last verdict was a pass."""
        return self.verdict == "pass"

    def judge(self, verdict: Verdict, evaluation: str, by: str) -> None:
        """Take a verdict; the last one counts."""
        self.verdict, self.evaluation, self.evaluated_by = verdict, evaluation, by
        self.iterations += 1


class DoneCondition(msgspec.Struct, omit_defaults=True):
    """What must be so before the session is done."""

    id: str
    defined_by: str
    features: list[FeatureState]
    description: str | None = None
    amendments: int = 0
    removed: list[str] = []

    @property
    def done(self) -> bool:
        """Whether all features pass."""
        return all(feature.passing for feature in self.features)

    def feature(self, name: str) -> FeatureState | None:
        """Return a feature by its id."""
        return next((feature for feature in self.features if feature.id == name), None)

    def failing(self, names: Sequence[str]) -> list[str]:
        """Return which of these features do not pass, those that are gone included."""
        passing = {feature.id for feature in self.features if feature.passing}
        return [name for name in names if name not in passing]


def defined(
    before: DoneCondition | None, event: OutcomeDefined, happened: Happened, limits: Limits
) -> DoneCondition:
    """Return the outcome after it was defined or amended.

    An amendment keeps verdicts only of features whose check and files are the same.
    """
    known = {} if before is None else {feature.id: feature for feature in before.features}
    features = [_amended(known.get(feature.id), feature) for feature in event.features]
    outcome = DoneCondition(happened.id, happened.actor, features, event.description)
    if before is not None:
        kept = {feature.id for feature in features}
        gone = [name for name in known if name not in kept]
        removed = [name for name in before.removed if name not in kept] + gone
        outcome.removed = removed[-limits.state_list_max :]
        outcome.amendments = before.amendments + 1
    return outcome


def changed_checks(before: DoneCondition | None, event: OutcomeDefined) -> list[str]:
    """Return the features whose check or files an amendment changes."""
    known = {} if before is None else {feature.id: feature for feature in before.features}
    return [
        feature.id
        for feature in event.features
        if (old := known.get(feature.id)) is not None and not _same_check(old, feature)
    ]


def require_feature(outcome: DoneCondition | None, event: Evaluation, index: int | None) -> None:
    """Refuse a verdict on a feature that is not there, or one that goes round its files."""
    if event.feature is None:
        return
    feature = None if outcome is None else outcome.feature(event.feature)
    if feature is None:
        raise InvalidEventError(
            problem=f"The outcome has no feature {event.feature}; see the outcome in the session's state.",
            index=index,
            member="feature",
        )
    if event.verdict == "pass" and feature.files and _digests(event.files) != _digests(feature.files):
        raise RatchetError(feature=feature.id, index=index)


def judged(outcome: DoneCondition | None, event: Evaluation, happened: Happened) -> None:
    """Take a verdict into the outcome."""
    feature = None if outcome is None or event.feature is None else outcome.feature(event.feature)
    if feature is not None:
        feature.judge(event.verdict, happened.id, happened.actor)


def _amended(old: FeatureState | None, feature: Feature) -> FeatureState:
    new = FeatureState(feature.id, feature.text, feature.check, feature.files)
    if old is not None and _same_check(old, feature):
        new.verdict, new.evaluation = old.verdict, old.evaluation
        new.evaluated_by, new.iterations = old.evaluated_by, old.iterations
    return new


def _same_check(old: FeatureState, new: Feature) -> bool:
    return old.check == new.check and _digests(old.files) == _digests(new.files)


def _digests(files: list[FileDigest] | None) -> set[tuple[str, str]]:
    return {(file.path, file.sha256) for file in files or ()}
