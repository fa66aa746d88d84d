"""Fills a dossier from the events of a family, one by one: no I/O, no clock, and the same each time."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import NamedTuple

import msgspec

from durable_sessions.errors import DossierTooLargeError
from durable_sessions.limits import Limits
from durable_sessions.sessions.dossier.items import PAIRED, TAKEN, Said
from durable_sessions.sessions.dossier.kinds import (
    EVENTS_OF_QUESTIONS,
    MAY_BE_EMPTY,
    OPTIONAL,
    QUESTIONS,
    REQUIRED,
    DossierKind,
)
from durable_sessions.sessions.dossier.trials import TrialRun
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.folded_session import Goal
from durable_sessions.sessions.graph.happened import RESULTS, Happened
from durable_sessions.sessions.tombstones import is_tombstone

_ITEM_BYTES = 160
"""What an item takes beside its members, about."""


class FamilyEvent(NamedTuple):
    """An event of a family, and the session that it is told as one of.

    ``inherited`` says that the session of the dossier has it, as its own or inherited.
    """

    session: str
    happened: Happened
    inherited: bool


@dataclass(slots=True)
class DossierItem:
    """What one or several events say about a matter."""

    said: Said
    refs: list[tuple[str, str]]

    def encoded(self) -> bytes:
        """Return the item as JSON."""
        return msgspec.json.encode({**self.said, "refs": [_ref(*ref) for ref in self.refs]})


@dataclass(slots=True)
class _Branch:
    """What was said of one session: the verdicts given there, and whether its findings were taken over."""

    evaluations: list[str] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)
    is_adopted: bool = False


class DossierBuilder:
    """Takes the events of a family in order, and returns the sections and questions of a dossier."""

    def __init__(
        self, kind: DossierKind, goal: Goal | None, limits: Limits, watched: Sequence[str] = ()
    ) -> None:
        self.kind = kind
        self._goal = goal
        self._goals = [] if goal is None else [goal.id, *goal.changes]
        # They may be events of sessions that this one inherits from.
        self.places: dict[str, str | None] = dict.fromkeys([*self._goals, *watched])
        """Of the goals, and of the events in ``watched``, the session that each is told as one of."""
        self._limits = limits
        self._bytes = 0
        self.began_at_ms: int | None = None
        """When the oldest event of the family was stored; None as long as there is none."""
        self.sections: dict[str, list[DossierItem]] = {
            name: [] for name in (*REQUIRED[kind], *OPTIONAL[kind])
        }
        self.questions: dict[str, list[tuple[str, str]]] = {name: [] for name in QUESTIONS}
        self.artifacts: dict[str, tuple[str, str]] = {}
        """The digests of all artifacts that the family names, each with the first event that does."""
        self.family: Collection[str] = ()
        """The sessions of the family."""
        self.redacted: Collection[str] = ()
        """The digests of those artifacts whose bytes were erased."""
        self._taken = [(name, TAKEN[name]) for name in self.sections if name in TAKEN]
        self._open: dict[tuple[str, str], list[DossierItem]] = {}
        self._tools: dict[bytes, DossierItem] = {}
        self._branches: dict[str, _Branch] = {}

    def step(self, event: FamilyEvent) -> None:
        """Take the next event."""
        happened, ref = event.happened, (event.session, event.happened.id)
        kind = happened.type
        if self.began_at_ms is None or happened.at_ms < self.began_at_ms:
            self.began_at_ms = happened.at_ms
        if happened.strict is None and kind.startswith(schemas.PREFIX):
            return  # nobody vouches for it
        for question in EVENTS_OF_QUESTIONS.get(kind, ()):
            self._count(len(ref[0]) + len(ref[1]) + 24)
            self.questions[question].append(ref)
        for section, take in self._taken:
            said = take(happened, self._limits)
            if said is not None:
                self._add(section, said, event)
        if kind in RESULTS:
            self._answer(event)
        self._look(event)

    def finish(self, trials: Mapping[str, Sequence[TrialRun]] | None = None) -> None:
        """Take what single events do not say: the goal, branches that were rejected, and trials."""
        goals = [(session, name) for name in self._goals if (session := self.places[name]) is not None]
        self.questions["task"] = goals
        if self._goal is not None and "task" in self.sections:
            self.sections["task"].append(DossierItem({"text": self._goal.text}, goals))
        if "rejected_branches" in self.sections:
            self.sections["rejected_branches"] += [
                DossierItem(
                    {"session": session, "evaluations": one.failing, "adopted": one.is_adopted},
                    [(session, name) for name in one.failing],
                )
                for session, one in self._branches.items()
                if one.failing
            ]
        if "reliability" in self.sections:
            self.sections["reliability"] += self._reliability(trials or {})
        if self.kind == "report" and not self.sections["failure_analysis"]:
            self.sections["failure_analysis"].append(DossierItem({"none": True}, []))

    @property
    def missing(self) -> list[str]:
        """The required sections and questions without an item."""
        empty = [name for name in REQUIRED[self.kind] if not self.sections[name]]
        unanswered = [name for name in QUESTIONS if name not in MAY_BE_EMPTY and not self.questions[name]]
        return list(dict.fromkeys([*empty, *unanswered]))

    def _add(self, section: str, said: Said, event: FamilyEvent) -> None:
        ref = (event.session, event.happened.id)
        if section == "domain_tools":
            tool = self._tools.get(name := msgspec.json.encode(said))
            if tool is not None:
                self._count(_ITEM_BYTES)
                tool.refs.append(ref)
                return
            item = self._tools[name] = DossierItem(said, [ref])
        else:
            item = DossierItem(said, [ref])
        if is_tombstone(event.happened.body):
            said["redacted"] = True
        self._count(
            _ITEM_BYTES + sum(len(bytes(one)) for one in said.values() if isinstance(one, msgspec.Raw))
        )
        self._count(sum(len(one) for one in said.values() if isinstance(one, str)))
        self.sections[section].append(item)
        if section in PAIRED:
            self._open.setdefault(ref, []).append(item)

    def items(self, section: str) -> Iterator[DossierItem]:
        """Yield the items of a section; those about artifacts whose bytes were erased say so."""
        for item in self.sections[section]:
            if item.said.get("sha256") in self.redacted:
                item.said["redacted"] = True
            yield item

    def _answer(self, event: FamilyEvent) -> None:
        """Let the items of a call rest on its result, too."""
        call = event.happened.members.call
        for item in self._open.pop((event.session, call), ()) if call is not None else ():
            item.refs.append((event.session, event.happened.id))
            if "is_error" in item.said:
                item.said["is_error"] = event.happened.members.failed

    def _look(self, event: FamilyEvent) -> None:
        """Note what is said about branches, the goal and artifacts."""
        happened, said = event.happened, event.happened.strict
        if event.inherited and happened.id in self.places:
            self.places[happened.id] = event.session
        if isinstance(said, schemas.Evaluation):
            branch = self._branches.setdefault(event.session, _Branch())
            branch.evaluations.append(happened.id)
            if said.verdict == "fail":
                branch.failing.append(happened.id)
        elif isinstance(said, schemas.Adopted):
            self._branches.setdefault(said.session, _Branch()).is_adopted = True
        elif isinstance(said, schemas.ArtifactAttached):
            self._name_artifact(said.sha256, event)
        for ref in () if said is None else said.refs:
            if ref.artifact is not None:
                self._name_artifact(ref.artifact, event)

    def _name_artifact(self, digest: str, event: FamilyEvent) -> None:
        self.artifacts.setdefault(digest, (event.session, event.happened.id))
        if len(self.artifacts) > self._limits.dossier_artifacts_max:
            raise DossierTooLargeError(what=f"more than {self._limits.dossier_artifacts_max:,} artifacts")

    def _reliability(self, trials: Mapping[str, Sequence[TrialRun]]) -> Iterator[DossierItem]:
        """Yield how reliable each thing is that was tried several times.

        ``pass_k`` has, for each k from 1 on, how likely k tries out of those made are all passes.
        """
        for name, tried in trials.items():
            passed = sum(run.passed for run in tried)
            likely = [comb(passed, k) / comb(len(tried), k) for k in range(1, len(tried) + 1)]
            refs = [(run.session, event) for run in tried for event in self._verdicts(run)]
            sessions = [run.session for run in tried]
            said = {"trial_of": name, "trials": len(tried), "passed": passed, "pass_k": likely}
            yield DossierItem({**said, "sessions": sessions}, refs)

    def _verdicts(self, run: TrialRun) -> Sequence[str]:
        """Return the verdicts on a trial; of one in the family, those that were given there."""
        if run.session in self.family:
            return self._branches.get(run.session, _Branch()).evaluations
        return run.evaluations

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.dossier_bytes_max:
            raise DossierTooLargeError(what=f"more than {self._limits.dossier_bytes_max:,} bytes of items")


def _ref(session: str, name: str) -> dict[str, str]:
    return {"session": session, "id": name}
