"""A session, for programs without an event loop."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Unpack

from durable_sessions.client import artifact, calls, handoff, memory_calls, pages, search, slots, work_calls
from durable_sessions.client import context as context_calls
from durable_sessions.client import outline as outline_calls
from durable_sessions.client.calls import UNSET, Appended, EventLike, Unset
from durable_sessions.client.context import Context
from durable_sessions.client.dossier import Dossier
from durable_sessions.client.errors import ClientError, PreconditionFailedError
from durable_sessions.client.event import Event
from durable_sessions.client.handle import HandleAppend, SessionHandle
from durable_sessions.client.handoff import Handoff
from durable_sessions.client.info import SessionInfo
from durable_sessions.client.memory_backend import MemoryBackend
from durable_sessions.client.memory_calls import RecalledMemory, WriteFields
from durable_sessions.client.outbox import Bounds
from durable_sessions.client.outline import Outline, OutlinedEvents
from durable_sessions.client.pages import EventFilters, Order
from durable_sessions.client.producer import ProducerCache
from durable_sessions.client.search import EventSearchFilters, PositionFilters, SearchPage, SearchPositions
from durable_sessions.client.session_tail import SILENCE_SECONDS_MAX, SessionTail
from durable_sessions.client.signatures import keywords_of
from durable_sessions.client.slots import HeldSlot
from durable_sessions.client.transport import Transport
from durable_sessions.client.work_calls import AskedQuestion
from durable_sessions.client.writer import Writer

if TYPE_CHECKING:
    from durable_sessions.client.forward import Workflow
    from durable_sessions.client.placement_record import Prepare
    from durable_sessions.client.replay import Replay
    from durable_sessions.client.validation import Validation
    from durable_sessions.sandbox import Backend, Result, SandboxSpec


class Session(SessionHandle[Lock]):
    """A handle of one session. Making one sends nothing; the first append creates the session.

    A handle is bound to the session that first answers it. When that one is deleted and another is created
    under its id, every call raises SessionReplacedError; a new handle binds to the new one.
    Threads may share it: the appends of a client to one session are sent one after the other.
    """

    def __init__(
        self,
        id: str,  # noqa: A002
        transport: Transport,
        producers: ProducerCache[Lock],
        incarnation: str | None = None,
        epoch: int | None = None,
    ) -> None:
        super().__init__(id, producers, incarnation, epoch)
        self._transport = transport

    # Properties and lifecycle -----------------------------------------------------------

    def info(self) -> SessionInfo:
        """Return the session as the server describes it."""
        return self._transport.send(self._pinned.pin(calls.info(self.id)))

    def update(
        self, *, title: str | Unset | None = UNSET, metadata: Mapping[str, Any] | Unset = UNSET
    ) -> SessionInfo:
        """Change the title, or some of the metadata; a value of None removes a key."""
        return self._transport.send(self._pinned.pin(calls.update(self.id, title=title, metadata=metadata)))

    def close(self) -> SessionInfo:
        """Refuse further events; the session stays readable."""
        return self._transport.send(self._pinned.pin(calls.close(self.id)))

    def archive(self) -> SessionInfo:
        """End the session for good: it is terminated, read-only, and left out of lists."""
        return self._transport.send(self._pinned.pin(calls.archive(self.id)))

    def redact(
        self,
        events: str | Event | Iterable[str | Event],
        *,
        reason: str,
        artifacts: Iterable[str] = (),
        digest: bool = True,
    ) -> Event | None:
        """Erase events for good, here, in the source and in all forks, and return the record of it.

        This needs a key with the role admin. ``artifacts`` are erased with them. Without ``digest`` no
        SHA-256 is kept, for texts that could be guessed from it. Returns None if the session takes no events.
        """
        chosen = [events] if isinstance(events, str | Event) else events
        call = calls.redact(self.id, chosen, reason, artifacts, digest=digest)
        return self._transport.send(self._pinned.pin(call))

    def delete(self, *, if_match: str | None = None) -> None:
        """Remove the session and all its events; a later append to this handle creates a new one.

        ``if_match`` removes it only if it still ends at that offset.
        """
        self._transport.send(self._pinned.pin(calls.delete(self.id, if_match)))
        self._deleted()

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

    # Appending --------------------------------------------------------------------------

    def append(
        self,
        events: EventLike | Iterable[EventLike],
        *,
        if_match: str | None = None,
        if_: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
    ) -> Appended:
        """Append one event or several: durably, all or none, and exactly once despite retries.

        ``if_match`` appends only if the session still ends at that offset. ``if_`` are conditions that must
        all hold, such as ``{"slots": {"head": event.id, "lock": None}}``; ``exists``, ``tail`` and
        ``incarnation`` are further ones. If one fails, PreconditionFailedError has the current values in
        ``details``. ``session`` has title, metadata and so on, for a session that this very append creates.
        After an error whose ``outcome_unknown`` is true, it is safe to call this again with the same events:
        they are stored once.
        """
        return self.append_body(calls.encode_append(events, if_, session), if_match)

    def holds(self, if_: Mapping[str, Any]) -> bool:
        """Say whether conditions hold, such as ``{"slots": {"head": event.id}}``; nothing is written."""
        try:
            self._transport.send(calls.test_conditions(self.id, if_))
        except PreconditionFailedError:
            return False
        return True

    def append_body(self, body: bytes, if_match: str | None = None, *, source: str | None = None) -> Appended:
        """Append events that are already encoded, as a JSON list.

        With ``source`` they are marked as imported from there.
        """
        # The lock is held until the outcome is known: a later append must not be sent under the number of one
        # that may have been stored.
        with self._producers.lock:
            operation = HandleAppend(
                self.id, self._producers, self._pinned, body, if_match, source, self._epoch
            )
            try:
                return operation.stored(self._transport.send(operation.call))
            except ClientError as error:
                raise operation.failed(error)  # noqa: B904 - the same error, or one that has its cause

    def writer(
        self,
        *,
        batch_events: int = 500,
        batch_bytes: int = 4 * 1024 * 1024,
        linger_seconds: float = 0.02,
        queue_events: int = 10_000,
        queue_bytes: int = 64 * 1024 * 1024,
    ) -> Writer:
        """Return a writer that appends in the background, in order, many events per request."""
        bounds = Bounds(batch_events, batch_bytes, linger_seconds, queue_events, queue_bytes)
        return Writer(self.append_body, bounds)

    # Reading ----------------------------------------------------------------------------

    @keywords_of(pages.events, "pinned")
    def events(self, **filters: Unpack[EventFilters]) -> Iterator[Event]:
        """Yield the events up to the current end; only one page at a time is in memory.

        Begins at an ``offset``, at the event number ``from_``, at the last ``tail`` events, or ``window``
        events on each side of ``around``, a number or an id. ``types`` are exact or end in ``.*``. With
        ``pairs="keep"`` a page never separates a tool call from its result. Events of more than ``clip``
        bytes come as copies with long texts cut in the middle. ``thread`` reads the events of one thread.
        """
        return self._transport.paginate(pages.events(self.id, pinned=self._pinned, **filters))

    def slots(
        self,
        names: str | Iterable[str] = (),
        *,
        prefix: str | None = None,
        at: str | int | None = None,
        order: Order = "asc",
        limit: int | None = None,
        values: bool = True,
        after: str | None = None,
    ) -> Iterator[HeldSlot]:
        """Yield the slots that events hold: those named, in this order, then those with a prefix, by name.

        All of them are as of one moment: now, or ``at`` a position or an offset. Without names or a prefix
        they are all slots of the session. Slots that no event holds are left out. With ``values=False`` the
        events have only id, offset, type and size in bytes. ``after`` leaves out names up to this one.
        """
        asked = slots.slots(
            self.id,
            names,
            prefix=prefix,
            at=at,
            order=order,
            limit=limit,
            values=values,
            after=after,
            pinned=self._pinned,
        )
        return self._transport.paginate(asked)

    def slot(self, name: str, *, at: str | int | None = None) -> Event | None:
        """Return the event that holds a slot, None if none does."""
        for held in self.slots(name, at=at):
            return held.event
        return None

    def event(self, event_id: str) -> Event:
        """Return one event."""
        return self._transport.send(self._pinned.pin(calls.event(self.id, event_id)))

    def tail(
        self,
        *,
        offset: str | int | None = None,
        types: str | Iterable[str] | None = None,
        silence_seconds_max: float = SILENCE_SECONDS_MAX,
    ) -> Generator[Event, None, None]:
        """Yield events as they are appended, each once and in order, across lost connections.

        Begins at the first event, or at an ``offset``: a saved ``event.next_offset``, or ``"now"``. Ends when
        the session is closed or archived. Raises NotFoundError when it is deleted, and SessionReplacedError
        when another one was created under its id.
        """
        tail = SessionTail(self.id, offset, types, self._transport.attempts(), self._pinned)
        while not tail.is_over():
            if tail.needs_page():
                yield from tail.take_page(self._transport.send(tail.page()))
            else:
                yield from self._transport.receive(tail, silence_seconds_max)

    def outline(self, *, points: int | None = None) -> Outline:
        """Return a summary of what the events are, without their bodies; ask again until it is complete."""
        return self._transport.send(self._pinned.pin(outline_calls.outline(self.id, points=points)))

    def outline_block(self, position: int) -> OutlinedEvents:
        """Return the block of the outline that holds the event at a position."""
        return self._transport.send(self._pinned.pin(outline_calls.outline_block(self.id, position)))

    @keywords_of(search.positions)
    def search_positions(self, q: str, **filters: Unpack[PositionFilters]) -> SearchPositions:
        """Return the positions of events that match ``q``, ascending, 10,000 at most, without the events."""
        return self._transport.send(self._pinned.pin(search.positions(self.id, q, **filters)))

    @keywords_of(search.within)
    def search(self, q: str, **filters: Unpack[EventSearchFilters]) -> SearchPage:
        """Return the events of the session that match ``q`` best, up to ``limit`` of them."""
        return self._transport.send(self._pinned.pin(search.within(self.id, q, **filters)))

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
