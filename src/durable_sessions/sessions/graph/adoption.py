"""What a session takes over from a branch: facts changed there, verdicts given, artifacts attached."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from durable_sessions.errors import AdoptConflictError
from durable_sessions.sessions.graph.difference import is_same
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.schemas import Adopted, AdoptedArtifact, AdoptedFact, AdoptedVerdict

TYPE = "ds.adopted"
OnConflict = Literal["refuse", "theirs", "ours"]


@dataclass(frozen=True, slots=True)
class Sides:
    """The branch, the session that adopts it, and both of them where the branch begins.

    ``taken`` are events of the branch that the session has adopted facts from before.
    """

    branch: Fold
    session: Fold
    base: Fold
    taken: Container[str] = ()


def adopted(sides: Sides, name: str, on_conflict: OnConflict) -> Adopted:
    """Return the event that says what is taken over, or refuse if both sides changed a fact."""
    return Adopted(
        type=TYPE,
        session=name,
        position=sides.branch.folded.position,
        facts=_facts(sides, on_conflict),
        verdicts=_verdicts(sides),
        artifacts=_artifacts(sides),
    )


def _facts(sides: Sides, on_conflict: OnConflict) -> list[AdoptedFact]:
    base, ours = sides.base.folded.facts, sides.session.folded.facts
    taken: list[AdoptedFact] = []
    conflicts: list[str] = []
    for key, fact in sorted(sides.branch.folded.facts.items()):
        before, here = base.get(key), ours.get(key)
        if (before is not None and before.id == fact.id) or (here is not None and here.id == fact.id):
            continue
        is_changed_here = (None if here is None else here.id) != (None if before is None else before.id)
        is_own = here is None or here.id not in sides.taken
        if is_changed_here and is_own and not is_same(here, fact):
            conflicts.append(key)
            if on_conflict == "ours":
                continue
        taken.append(AdoptedFact(key, fact.value, fact.kind, fact.id))
    if conflicts and on_conflict == "refuse":
        raise AdoptConflictError(conflicts=conflicts)
    return taken


def _verdicts(sides: Sides) -> list[AdoptedVerdict]:
    """Return verdicts on the same checks, by principals that have not worked on the session, either."""
    theirs, ours = sides.branch.control.outcome, sides.session.control.outcome
    before = sides.base.control.outcome
    taken: list[AdoptedVerdict] = []
    if theirs is None or ours is None:
        return taken
    for feature in theirs.features:
        here = ours.feature(feature.id)
        base = None if before is None else before.feature(feature.id)
        if here is None or (here.check, here.files) != (feature.check, feature.files):
            continue
        is_new = base is None or base.evaluation != feature.evaluation
        if feature.verdict is None or feature.evaluation is None or feature.evaluated_by is None:
            continue
        is_independent = feature.evaluated_by not in sides.session.control.generators
        if is_new and is_independent and here.evaluation != feature.evaluation:
            taken.append(
                AdoptedVerdict(feature.id, feature.verdict, feature.evaluation, feature.evaluated_by)
            )
    return taken


def _artifacts(sides: Sides) -> list[AdoptedArtifact]:
    known = {one.id for side in (sides.base, sides.session) for one in side.folded.artifacts}
    return [
        AdoptedArtifact(one.id, one.sha256, one.name, one.role)
        for one in sides.branch.folded.artifacts
        if one.id not in known
    ]
