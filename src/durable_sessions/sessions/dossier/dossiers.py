"""Dossiers of sessions, made on demand from the events of the whole family, in short turns."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from durable_sessions.errors import ArtifactRedactedError, ViewUnavailableError
from durable_sessions.evidence.statement import ARTIFACTS, OutcomeResult, Sign
from durable_sessions.limits import Limits
from durable_sessions.sessions.dossier.archiving import DossierArchive
from durable_sessions.sessions.dossier.builder import DossierBuilder, FamilyEvent
from durable_sessions.sessions.dossier.family import Families, FamilyPart, FamilySession, SessionFamily
from durable_sessions.sessions.dossier.kinds import DossierKind
from durable_sessions.sessions.dossier.made import MadeDossier
from durable_sessions.sessions.dossier.spool import Spool
from durable_sessions.sessions.dossier.trials import TrialDirectory, TrialRun, trial_of
from durable_sessions.sessions.family_graphs import question_of
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.graph_builder import GraphBuilder, WantedTarget
from durable_sessions.sessions.graph.graph_nodes import SessionLife
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.sessions.placed_events import PlacedEvents
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.artifacts import ArtifactInfo, Artifacts
from durable_sessions.storage.door import StreamView
from durable_sessions.streams import offsets

REDACTED_MEANWHILE = "Something of the family was redacted while the dossier was made."
_LOOKED_UP_AT_ONCE = 16


class Dossiers:
    """Makes dossiers of the sessions of a partition, which has whole families."""

    def __init__(
        self,
        sessions: Sessions,
        artifacts: Artifacts,
        trials: TrialDirectory,
        directory: Path,
        low_space: Callable[[], str | None],
        kid: str,
        sign: Sign,
        limits: Limits,
    ) -> None:
        self._trials = trials
        self._sessions = sessions
        self._streams = sessions.streams
        self._reader = sessions.events
        self._folds = sessions.folds
        self._turns = sessions.scans.turns
        self._families = Families(sessions.streams, self._turns, limits)
        self._placed = PlacedEvents(sessions)
        self._artifacts = artifacts
        self._one_artifact = asyncio.Lock()
        self._directory = directory
        self._low_space = low_space
        self._kid = kid
        self._sign = sign
        self._limits = limits

    def spool(self) -> Spool:
        """Return what a dossier is written to."""
        return Spool(self._directory, self._limits.dossier_spool_bytes_max, self._turns, self._low_space)

    async def make(
        self, durable: StreamView, at: int, kind: DossierKind, *, keys_since_ms: int | None
    ) -> MadeDossier:
        """Return the dossier of a session after its first ``at`` events; the same for the same family.

        Principals are proven by keys if the whole family is younger than the first key of the server.
        """
        return await self._make(durable, at, kind, None, keys_since_ms=keys_since_ms)

    async def archive(
        self, durable: StreamView, at: int, kind: DossierKind, spool: Spool, *, keys_since_ms: int | None
    ) -> MadeDossier:
        """Write a dossier with all that proves it; the same bytes for the same family."""
        archive = DossierArchive(spool, self._turns, self._limits)
        made = await self._make(durable, at, kind, archive, keys_since_ms=keys_since_ms)
        await archive.close(made, self._kid, self._sign)
        return made

    async def _make(
        self,
        durable: StreamView,
        at: int,
        kind: DossierKind,
        archive: DossierArchive | None,
        *,
        keys_since_ms: int | None,
    ) -> MadeDossier:
        family = await self._families.of(durable, at, self._sessions.now_ms())
        erased, erasures = self._streams.erased_records, family.erasures(self._streams)

        def is_current() -> bool:
            # Nearly always nothing was erased in the whole partition, and the family need not be asked.
            return self._streams.erased_records == erased or family.erasures(self._streams) == erasures

        fold = await self._folds.at(durable, at)
        outcome = fold.control.outcome
        goal = fold.folded.goal or fold.folded.first_message
        builder = DossierBuilder(kind, goal, self._limits, [] if outcome is None else [outcome.id])
        graph, through = GraphBuilder(self._limits), dict[str, SessionLife]()
        turn = self._turns.begin()
        for member in family.members:
            await self._take(member, family, builder, graph, through, archive)
            if turn.over:  # sessions without events of their own are read without a rest
                await turn.rest()
        workspace = durable.stream.key.workspace
        stored = await self._stored(workspace, sorted(builder.artifacts))
        builder.redacted = {digest for digest, info in stored.items() if info is None}
        for digest, info in stored.items() if archive is not None else ():
            if info is not None and archive is not None:
                await self._archive_artifact(archive, workspace, digest, info)
        builder.family = {member.session for member in family.members}
        builder.finish(await self._tried(family, durable, fold) if kind == "trading" else None)
        await self._complete(graph, workspace, stored, through)
        return MadeDossier(
            session_of(durable.stream.key),
            offsets.encode(at),
            "keys" if _is_younger(builder.began_at_ms, keys_since_ms) else "declared",
            builder,
            graph.graph(session_of(durable.stream.key), at),
            _result(fold, builder),
            is_current,
        )

    async def _take(
        self,
        member: FamilySession,
        family: SessionFamily,
        builder: DossierBuilder,
        graph: GraphBuilder,
        through: dict[str, SessionLife],
        archive: DossierArchive | None,
    ) -> None:
        """Take the events of one session; if one of them cannot be read, there is no dossier."""
        control = Control(member.view.attributes, self._limits)
        checked_from = control.core.checked_from if control.is_controlled else None
        if archive is not None:
            await archive.begin(member.session)
        for part in member.parts:
            self._enter(graph, member, part, through)
            expected = part.start
            async for position, event in self._reader.range(member.view, part.start, part.stop):
                found = happened(event, position, checked_from)
                graph.step(found)
                builder.step(FamilyEvent(member.session, found, family.is_inherited(part, position)))
                expected = position + 1
                if archive is not None and archive.add(event):
                    await archive.flush()
            if expected != part.stop:
                missing = f"Events {expected} to {part.stop - 1} of {member.session} cannot be read."
                raise ViewUnavailableError(problem=missing)
        if archive is not None:
            await archive.end()

    def _enter(
        self, graph: GraphBuilder, member: FamilySession, part: FamilyPart, through: dict[str, SessionLife]
    ) -> None:
        """Tell the graph whose events come next: those of a deleted session are its own there."""
        view = member.view if part.owner == member.view.stream.id else self._streams.peek_id(part.owner)
        assert view is not None
        source = None if view.stream.parent is None else self._streams.peek_id(view.stream.parent)
        life = self._placed.life_of(view)
        through[life.life] = self._placed.life_of(member.view)
        graph.enter(life, None if source is None else self._placed.life_of(source), view.stream.base)

    async def _complete(
        self,
        graph: GraphBuilder,
        workspace: str,
        stored: Mapping[str, ArtifactInfo | None],
        through: Mapping[str, SessionLife],
    ) -> None:
        """Tell the graph what became of what its edges lead to.

        What is not of the family counts as missing: a dossier says nothing of sessions that it does not have.
        """
        turn = self._turns.begin()
        events: list[WantedTarget] = []
        for wanted in graph.wanted():
            digest = wanted.target.artifact
            if digest is None:
                events.append(wanted)
            elif digest in stored:
                graph.found_artifact(wanted, redacted=stored[digest] is None)
            else:
                graph.missing(wanted, is_gone=False)
            if turn.over:
                await turn.rest()
        for start in range(0, len(events), _LOOKED_UP_AT_ONCE):
            some = events[start : start + _LOOKED_UP_AT_ONCE]
            asked = [question_of(wanted, through) for wanted in some]
            for wanted, found in zip(some, await self._placed.find(workspace, asked), strict=True):
                if found is not None and found.life.life in through:
                    graph.found(wanted, found.life, found.node, found.position, found.at_ms)
                else:
                    graph.missing(wanted, is_gone=wanted.target.life is not None)
        for _ in graph.finish():
            if turn.over:
                await turn.rest()

    async def _stored(self, workspace: str, digests: Sequence[str]) -> dict[str, ArtifactInfo | None]:
        """Return what is known of artifacts, None of those that were redacted; refuse if one is missing."""
        found: dict[str, ArtifactInfo | None] = {}
        for start in range(0, len(digests), _LOOKED_UP_AT_ONCE):
            some = digests[start : start + _LOOKED_UP_AT_ONCE]
            infos = await asyncio.gather(*(self._info(workspace, one) for one in some))
            found.update(zip(some, infos, strict=True))
        return found

    async def _info(self, workspace: str, digest: str) -> ArtifactInfo | None:
        try:
            return await self._artifacts.find(workspace, digest)
        except ArtifactRedactedError:
            return None

    async def _archive_artifact(
        self, archive: DossierArchive, workspace: str, digest: str, info: ArtifactInfo
    ) -> None:
        archive.reserve(info.bytes)
        async with self._one_artifact:  # of all dossiers, so that only one is in memory
            try:
                data = await self._artifacts.read(workspace, digest, info)
            except ArtifactRedactedError as error:
                raise ViewUnavailableError(problem=REDACTED_MEANWHILE) from error
            await archive.add_file(ARTIFACTS + digest, (data,))

    async def _tried(
        self, family: SessionFamily, durable: StreamView, fold: Fold
    ) -> dict[str, list[TrialRun]]:
        """Return the trials of all that sessions of the family say that they are trials of."""
        named = dict.fromkeys(trial_of(member.view) for member in family.members)
        found: dict[str, list[TrialRun]] = {}
        session = session_of(durable.stream.key)
        done = fold.control.done is True  # of the session itself, as of the place that is asked for
        for name in named:
            if name is not None:
                runs = await self._trials.of(durable.stream.key.workspace, name)
                found[name] = [
                    msgspec.structs.replace(run, passed=done) if run.session == session else run
                    for run in runs
                ]
        return found


def _is_younger(began_at_ms: int | None, keys_since_ms: int | None) -> bool:
    """Say whether every event of a family was sent with a key."""
    return keys_since_ms is not None and (began_at_ms is None or began_at_ms >= keys_since_ms)


def _result(fold: Fold, builder: DossierBuilder) -> OutcomeResult:
    """Return what the verdicts say of the features, and whether the dossier shows all that it must."""
    outcome = fold.control.outcome
    if outcome is None:
        return OutcomeResult(False, [], [], None)
    return OutcomeResult(
        fold.control.done is True and not builder.missing,
        [feature.id for feature in outcome.features if feature.passing],
        [feature.id for feature in outcome.features if not feature.passing],
        builder.places[outcome.id],
    )
