"""A session, for programs without an event loop."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from durable_sessions.client import artifact, handoff, memory_calls, work_calls
from durable_sessions.client import context as context_calls
from durable_sessions.client.calls import UNSET, Appended
from durable_sessions.client.context import Context
from durable_sessions.client.dossier import Dossier
from durable_sessions.client.handoff import Handoff
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.memory_backend import MemoryBackend
from durable_sessions.client.memory_calls import RecalledMemory, WriteFields
from durable_sessions.client.plain_session import PlainSession
from durable_sessions.client.work_calls import AskedQuestion

if TYPE_CHECKING:
    from durable_sessions.client.forward import Workflow
    from durable_sessions.client.placement_record import Prepare
    from durable_sessions.client.replay import Replay
    from durable_sessions.client.validation import Validation
    from durable_sessions.sandbox import Backend, Result, SandboxSpec


class Session(PlainSession):
    """A handle of one session. Making one sends nothing; the first append creates the session.

    A handle is bound to the session that first answers it. When that one is deleted and another is created
    under its id, every call raises SessionReplacedError; a new handle binds to the new one.
    Threads may share it: the appends of a client to one session are sent one after the other.
    """

    # Branches ---------------------------------------------------------------------------

    def fork(
        self,
        id: str | None = None,  # noqa: A002
        *,
        at: str | int | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> "Session":
        """Create a session that begins with the events before ``at``: an offset or position, None for all."""
        made = self._transport.send(self._fork(id, at, title, metadata))
        return Session(made.id, self._transport, self._cache, made.incarnation)

    # Work -------------------------------------------------------------------------------

    def state(self, *, at: str | int | None = None) -> dict[str, Any]:
        """Return the state of the session, or what it was ``at`` an offset or position."""
        return self._transport.send(self._pinned.pin(work_calls.state(self.id, at)))

    def context(
        self,
        *,
        budget_tokens: int | None = None,
        q: str | None = None,
        at: str | int | None = None,
        types: str | Iterable[str] | None = None,
        see_all: bool = False,
    ) -> Context:
        """Return what a model should see next, within a budget of tokens (100,000 if not given).

        With ``q``, a quarter of the room goes to events that match these words. ``see_all`` shows also what
        the present route leaves out. A tool call is never without its result.
        """
        call = context_calls.context(
            self.id, budget_tokens=budget_tokens, q=q, at=at, types=types, see_all=see_all
        )
        return self._transport.send(self._pinned.pin(call))

    def forward(self, workflow: "Workflow", *, worker: str | None = None, seconds: int = 60) -> "Session":
        """Wake the session, let a workflow work on it, and release it; return the session that it returns.

        A workflow is anything with ``forward(work) -> work``; ``Sequential``, ``Branch`` and ``Select`` (or
        ``AsyncSequential``, ``AsyncBranch`` and ``AsyncSelect``) compose several.
        """
        # Imported here, because a workflow knows sessions, too.
        from durable_sessions.client.forward import forward

        return forward(self, workflow, worker, seconds)

    def diff(
        self,
        other: "str | Session",
        *,
        at: str | int | None = None,
        other_at: str | int | None = None,
    ) -> dict[str, Any]:
        """Return how this session (``a``) and another one (``b``) differ behind what they share."""
        name = other if isinstance(other, str) else other.id
        return self._transport.send(self._pinned.pin(work_calls.diff(self.id, name, at, other_at)))

    def graph(
        self, form: str = "json", *, at: str | int | None = None, family: bool = True
    ) -> dict[str, Any] | str:
        """Return what led to what in the session and its family: nodes and edges.

        ``form`` is ``json``, or ``mermaid`` or ``dot`` for a text that these draw. Without ``family`` it is
        of this session alone.
        """
        call = work_calls.graph(self.id, form, at, family=family)
        return self._transport.send(self._pinned.pin(call))

    def why(self, event: str, *, depth: int = 10) -> dict[str, Any]:
        """Return what an event rests on, through all sessions; ``missing`` is what is gone of it."""
        return self._transport.send(self._pinned.pin(work_calls.walk(self.id, event, "why", depth)))

    def impact(self, event: str, *, depth: int = 10) -> dict[str, Any]:
        """Return what could have flowed from an event, through all sessions.

        ``readers`` are the reads that returned it, if it is a memory, with the influence that they declared.
        """
        return self._transport.send(self._pinned.pin(work_calls.walk(self.id, event, "impact", depth)))

    def adopt(
        self, branch: "str | Session", *, at: str | int | None = None, on_conflict: str = "refuse"
    ) -> dict[str, Any]:
        """Take over the facts, verdicts and artifacts of a fork; return the event that says which.

        If both sides have changed a fact, ``on_conflict`` says whose counts: theirs, which is the branch's,
        or ours; ``refuse`` raises ConflictError.
        """
        name = branch if isinstance(branch, str) else branch.id
        call = work_calls.adopt(self.id, name, at, on_conflict, self._epoch)
        return self._transport.send(self._pinned.pin(call))

    def dossier(self, kind: str = "engineering", *, at: str | int | None = None) -> Dossier:
        """Return the dossier of the session and of its whole family: read it, or ``save("out.zip")``.

        The kind is engineering, research, trading or report. Nothing is sent before one of its methods is
        called.
        """
        return Dossier(self.id, kind, at, self._transport, self._pinned)

    def handoff(self) -> Handoff:
        """Return the files that the session hands over to the next worker, by name."""
        return self._transport.send(self._pinned.pin(work_calls.handoff(self.id)))

    def read_handoff(self, directory: Path | str) -> Appended | None:
        """Append what a worker changed in the files of a handoff; None if that is nothing.

        Features that it marked as passing become ``done`` of a checkpoint, which is a claim and no verdict;
        new lines of ``progress.txt`` become its instructions; a changed ``init.sh`` becomes an artifact.
        Raises HandoffBreachError if features are missing, or their checks were edited: nothing is written.
        """
        state = self.state()
        found = handoff.changes(directory, self.handoff(), state["checkpoint"])
        if handoff.is_nothing(found):
            return None
        digest: str | None = None
        if found.init is not None:
            digest = (self._transport.send(artifact.put(found.init, "text/x-shellscript"))).sha256
        return self.append(found.events(digest))

    def pause(self, reason: str) -> Appended:
        """Pause the session: no worker can wake it until it is resumed."""
        return self.append(work_calls.pause(reason))

    def resume(self, reason: str | None = None) -> Appended:
        """Lift a pause."""
        return self.append(work_calls.resume(reason))

    def end(self, outcome: str, reason: str | None = None) -> SessionInfo:
        """Close the session as completed, failed, cancelled or timed_out."""
        return self._transport.send(self._pinned.pin(work_calls.end(self.id, outcome, reason)))

    def cancel(self, reason: str | None = None) -> SessionInfo:
        """Close the session as cancelled: the next append of its worker is refused."""
        return self.end("cancelled", reason)

    def evaluate(
        self,
        feature: str | None,
        verdict: str,
        *,
        evidence: Iterable[str],
        files: Iterable[str | Path | Mapping[str, str]] = (),
        **members: Any,
    ) -> Appended:
        """Judge a feature, or the whole session: pass, fail or inconclusive, because of these events.

        Needs a key with the role evaluator, of a principal that has not worked on the session. ``files`` are
        read and digested here. ``members`` are further ones of ``ds.evaluation``, such as ``command``.
        """
        judged = {"files": work_calls.digests(files), **members}
        return self.append(work_calls.evaluate(feature, verdict, evidence, judged))

    def validate(
        self,
        feature: str | None,
        command: str | None = None,
        *,
        backend: "str | Backend" = "local",
        spec: "SandboxSpec | None" = None,
        prepare: "Prepare | None" = None,
        evidence: Iterable[str] = (),
        metrics: "Callable[[Result], Mapping[str, float]] | None" = None,
        timeout: float | None = None,
    ) -> "Validation":
        """Run a check in a fresh sandbox of this judge, and append the verdict with its log as evidence.

        Without a ``command`` it is the feature's own check. ``prepare`` puts into the sandbox what is judged.
        Exit code 0 is a pass, if the files that the feature names are there as they were agreed on;
        ``metrics`` reads figures from what the check gave. A lost sandbox is replaced, and the check runs
        again. Needs what ``evaluate`` needs.
        """
        # Imported here, because it knows sessions, too.
        from durable_sessions.client.validation import validated

        return validated(self, feature, command, backend, spec, prepare, evidence, metrics, timeout)

    def decide(
        self, request: str | AskedQuestion, decision: str, reason: str, *, payload: Any = UNSET
    ) -> Appended:
        """Decide a request for approval: approve, reject, edit or respond, as the request allows."""
        return self.append(work_calls.decide(request, decision, reason, payload))

    def replay(self) -> "Replay":
        """Return the recorded work, for a harness that is run again: no tool runs, and nothing is written.

        Give it to the harness in place of the work. To read the past, use ``at``; to run it again with
        effects, fork the session.
        """
        # Imported here, because a replay is a session, too.
        from durable_sessions.client.replay import replayed

        return replayed(self)

    # Memory -----------------------------------------------------------------------------

    def remember(
        self,
        key: str,
        value: Any,
        *,
        scope: str,
        why: str,
        because: Iterable[str],
        **fields: Unpack[WriteFields],
    ) -> Appended:
        """Leave something for later sessions, with the events that are the evidence for it."""
        return self.append(memory_calls.written(key, value, scope, why, because, fields))

    def recall(
        self,
        q: str | None = None,
        *,
        scope: str,
        key: str | None = None,
        limit: int = 10,
        influence: str = "unknown",
        workflow: str | None = None,
        backend: MemoryBackend | None = None,
    ) -> RecalledMemory:
        """Read memory by words, by key, or the newest, and record what was returned, and for what.

        With a ``backend``, an index of your own finds the writes; those that are not live are left out.
        """
        if backend is not None:
            return self._recall_from(backend, scope, q or "", limit, influence)
        call = memory_calls.recall(
            self.id,
            scope,
            q=q,
            key=key,
            limit=limit,
            influence=influence,
            workflow=workflow,
            epoch=self._epoch,
        )
        return self._transport.send(self._pinned.pin(call))

    def _recall_from(
        self, backend: MemoryBackend, scope: str, q: str, limit: int, influence: str
    ) -> RecalledMemory:
        found = backend.search(scope, q, limit)
        read = memory_calls.BackendRead(scope, q, found[:limit], backend.name, influence)
        while not read.done:
            read.take(self._transport.send(read.call()))
        event = read.event()
        self.append(event)
        return RecalledMemory(self.event(event["id"]), read.entries)
