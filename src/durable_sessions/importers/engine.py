"""The import engine: reads new records, makes events fit, and appends them exactly once."""

import heapq
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from durable_sessions.client.errors import ApiError
from durable_sessions.importers import format_detection
from durable_sessions.importers.artifact_extraction import ArtifactExtractor
from durable_sessions.importers.destination import Description, Destination
from durable_sessions.importers.events import Event, SessionMetadata, text
from durable_sessions.importers.report import ImportOutcome, Report
from durable_sessions.importers.sources import Part, SourceError, Transcript
from durable_sessions.importers.state import ImportState, Progress
from durable_sessions.importers.tally import Tally
from durable_sessions.redaction import MARK, Redactor

BATCH_EVENTS_MAX = 500
BATCH_BYTES_MAX = 2 * 1024 * 1024
PARTS_AT_ONCE_MAX = 64
"""How many files of a session are merged by time at once: each is open meanwhile."""
_REFUSED_FOR_GOOD = (400, 404, 409, 413)
"""Refusals that concern one session only: it is archived or closed, or an event is invalid."""


@dataclass(slots=True)
class _Reading:
    """A part that is being read: how many of its events were read, and how many were sent before."""

    part: Part
    source: str
    known: Progress
    seen: int = 0


@dataclass(slots=True)
class _Batch:
    """Events to send, and the progress of each source once they are acknowledged."""

    redactor: Redactor | None
    events: list[bytes] = field(default_factory=list)
    counted: list[tuple[str, Mapping[str, int]]] = field(default_factory=list)
    """The type of each event, and the secrets that were replaced in it."""
    size: int = 0
    progress: dict[str, Progress] = field(default_factory=dict)

    def is_full_for(self, data: bytes) -> bool:
        return len(self.events) >= BATCH_EVENTS_MAX or self.size + len(data) > BATCH_BYTES_MAX


class ImportEngine:
    """Imports transcripts into a destination; the next run continues in the same parts."""

    def __init__(
        self,
        destination: Destination,
        state: ImportState,
        *,
        redactor: Redactor | None = None,
        on_outcome: Callable[[ImportOutcome], None] = lambda outcome: None,
        redacted: Iterable[str] = (),
    ) -> None:
        """Make an engine; ``redacted`` are sessions that are known to be stored without their secrets."""
        self._destination = destination
        self._state = state
        self._redactor = redactor
        self._on_outcome = on_outcome
        self._redacted = set(redacted)
        self._extractor = ArtifactExtractor(destination.put_artifact)
        self._readings: dict[str, _Reading] = {}

    def run(self, transcripts: Iterable[Transcript], *, ending: bool = True) -> Report:
        """Import the new records of transcripts, sources of forks first; an unreadable one stops no other.

        Without ``ending``, events that are held back for a next record stay so.
        """
        report = Report()
        for transcript in in_order(transcripts):
            outcome = self._import(transcript, report.tally, ending=ending)
            report.outcomes.append(outcome)
            self._on_outcome(outcome)
        return report

    def forget(self, transcript: Transcript) -> None:
        """Drop the state of a transcript from memory; if it changes again, it is read from its start."""
        for part in transcript.parts:
            if self._readings.pop(_source(part), None) is not None:
                part.restart()

    def _import(self, transcript: Transcript, tally: Tally, *, ending: bool) -> ImportOutcome:
        outcome = ImportOutcome(
            transcript.session, transcript.tool, "unchanged", path=transcript.parts[0].path
        )
        if self._is_stored_with_secrets(transcript.session):
            outcome.status, outcome.problem = "refused", _how_to_redact(transcript)
            outcome.is_unredacted = True
            return outcome
        prints = {_source(part): part.fingerprint() for part in transcript.parts}
        changed = [part for part in transcript.parts if self._has_changed(transcript.tool, part, prints)]
        if not changed:
            return outcome
        outcome.status = "imported"
        try:
            self._refuse_another_tools(transcript)
            redactor = self._redactor_of(transcript)
            for first in range(0, len(changed), PARTS_AT_ONCE_MAX):
                parts = changed[first : first + PARTS_AT_ONCE_MAX]
                self._import_parts(transcript, parts, redactor, outcome, tally, ending=ending)
                if ending and not self._is_empty(transcript):
                    self._settle(transcript, parts, prints)
            if self._is_empty(transcript):
                outcome.status = "empty"
            elif not outcome.new_events:
                outcome.status = "unchanged"
        except (SourceError, OSError) as error:
            # The next run tries it again, because its fingerprint was not saved.
            outcome.status, outcome.problem = "failed", str(error)
            outcome.looks_like = getattr(error, "found", None)
            self.forget(transcript)
        except ApiError as error:
            if error.status not in _REFUSED_FOR_GOOD:
                raise
            # It would be refused again and again, so it is not tried again until the file changes.
            outcome.status, outcome.problem = "refused", str(error)
            self.forget(transcript)
            self._settle(transcript, changed, prints)
        for part in changed:
            tally.add(part.take_tally())
        return outcome

    def _refuse_another_tools(self, transcript: Transcript) -> None:
        """Raise SourceError before the first event of a file is sent that looks like another tool's."""
        main = transcript.parts[0]
        source = _source(main)
        if source not in self._readings and not self._state.get(transcript.tool, source).sent:
            format_detection.refuse_others(main.path, transcript.tool)

    def _is_empty(self, transcript: Transcript) -> bool:
        """Say whether nothing of a transcript is known: no event, now or before, and no title."""
        main = transcript.parts[0]
        if main.about.title is not None or main.about.metadata.keys() - {"tool"}:
            return False
        sources = [_source(part) for part in transcript.parts]
        read = (self._readings[source].seen for source in sources if source in self._readings)
        return not any(read) and not any(self._state.get(transcript.tool, one).sent for one in sources)

    def _is_stored_with_secrets(self, session: str) -> bool:
        """Say whether redaction was asked for, and the session is there from an import without it.

        Events that are there are never replaced, so importing it again would only seem to redact them.
        """
        if self._redactor is None or session in self._redacted:
            return False
        if self._destination.is_redacted(session) is False:
            return True
        self._redacted.add(session)  # it is redacted, or will be: it is not there yet
        return False

    def _redactor_of(self, transcript: Transcript) -> Redactor | None:
        """Return the redactor: if it was asked for, and always for a session that was redacted before.

        Otherwise a later import without ``--redact`` would bring back secrets, at least in the title.
        """
        if self._redactor is not None:
            return self._redactor
        origin = transcript.origin
        known = [transcript.session, *([origin.session] if origin else [])]
        return Redactor() if any(map(self._destination.is_redacted, known)) else None

    def _has_changed(self, tool: str, part: Part, prints: dict[str, str]) -> bool:
        source = _source(part)
        return source in self._readings or self._state.get(tool, source).fingerprint != prints[source]

    def _settle(self, transcript: Transcript, parts: Sequence[Part], prints: dict[str, str]) -> None:
        """Remember the fingerprints of parts that were read to their end.

        ``prints`` were taken before reading: what is written meanwhile changes them, and is read next time.
        """
        settled = {}
        for part in parts:
            source = _source(part)
            known = self._state.get(transcript.tool, source)
            settled[source] = Progress("" if part.is_waiting else prints[source], known.sent, known.last)
        self._state.set(transcript.tool, transcript.session, settled)

    def _import_parts(
        self,
        transcript: Transcript,
        parts: Sequence[Part],
        redactor: Redactor | None,
        outcome: ImportOutcome,
        tally: Tally,
        *,
        ending: bool,
    ) -> None:
        batch = _Batch(redactor)
        streams = [
            _timed(self._unsent(self._reading(transcript.tool, part), ending=ending)) for part in parts
        ]
        for _, reading, event in heapq.merge(*streams, key=lambda one: one[0]):
            data, secrets = self._prepared(event, redactor, tally)
            if batch.events and batch.is_full_for(data):
                self._send(transcript, batch, outcome, tally)
                batch = _Batch(redactor)
            batch.events.append(data)
            batch.counted.append((event["type"], secrets))
            batch.size += len(data)
            batch.progress[reading.source] = Progress("", reading.seen, event["id"])
        self._send(transcript, batch, outcome, tally)

    def _reading(self, tool: str, part: Part) -> _Reading:
        source = _source(part)
        reading = self._readings.get(source)
        if reading is None or part.is_read_whole:
            known = self._state.get(tool, source)
            reading = self._readings[source] = _Reading(part, source, known)
        return reading

    def _unsent(self, reading: _Reading, *, ending: bool) -> Iterator[tuple[_Reading, Event]]:
        """Yield the events of a part that are not known to have arrived.

        If the source was rewritten, all events are sent again; those that exist are recognised by their ids.
        """
        known, part = reading.known, reading.part
        for event in part.read(ending=ending):
            reading.seen += 1
            if reading.seen > known.sent:
                yield reading, event
            elif reading.seen == known.sent and event["id"] != known.last:
                break
        else:
            if reading.seen >= known.sent or not ending:
                return
        part.restart()
        reading.seen, reading.known = 0, Progress()
        for event in part.read(ending=ending):
            reading.seen += 1
            yield reading, event

    def _prepared(
        self, event: Event, redactor: Redactor | None, tally: Tally
    ) -> tuple[bytes, Mapping[str, int]]:
        """Return an event as it is sent, and the secrets that were replaced in it."""
        secrets: Mapping[str, int] = {}
        if redactor is not None:
            event = redactor.event(event)
            secrets = dict(redactor.found)
            redactor.found.clear()
        before_count, before_bytes = self._extractor.count, self._extractor.bytes
        data = self._extractor.fit(event)
        tally.artifacts += self._extractor.count - before_count
        tally.artifact_bytes += self._extractor.bytes - before_bytes
        return data, secrets

    def _send(self, transcript: Transcript, batch: _Batch, outcome: ImportOutcome, tally: Tally) -> None:
        """Append a batch; progress is saved only after it was acknowledged."""
        if not batch.events and self._is_empty(transcript):
            return
        about = self._about(transcript, batch.redactor)
        description = Description(about.title, about.metadata, transcript.origin, transcript.renames)
        described = self._destination.describe(transcript.session, description)
        if not described.is_complete:
            tally.notes["forks whose source is not on the server: only their own part"] += 1
        if described.new:
            outcome.new_events += described.new
            tally.events["session.updated"] += described.new
        if batch.events:
            stored = self._destination.append(transcript.session, batch.events, transcript.source)
            outcome.new_events += stored.new
            tally.differ += stored.differ
            # A source that was rewritten is sent again as a whole: what was there before did not come in now.
            for index, (kind, secrets) in enumerate(batch.counted):
                if index not in stored.known:
                    tally.events[kind] += 1
                    tally.redacted.update(secrets)
            self._state.set(transcript.tool, transcript.session, batch.progress)

    def _about(self, transcript: Transcript, redactor: Redactor | None) -> SessionMetadata:
        """Return the metadata of a session; empty if only its subagents were read."""
        main = transcript.parts[0]
        if _source(main) not in self._readings:
            return SessionMetadata()
        about = SessionMetadata(main.about.title, dict(main.about.metadata))
        if redactor is not None:
            about.title = redactor.text(about.title) if about.title else about.title
            about.metadata = redactor.metadata(about.metadata)
            about.note(**{MARK: "yes"})
            redactor.found.clear()
        if transcript.renames and (directory := text(about.metadata.get("cwd"))):
            about.note(project=directory.replace("\\", "/").rstrip("/").rpartition("/")[2])
        return about


def _how_to_redact(transcript: Transcript) -> str:
    path = shlex.quote(str(transcript.parts[0].path))
    return (
        f"{transcript.session} was imported without --redact: what is stored still has its secrets, and "
        "importing it again does not change that. "
        f"Replace it with: ds delete {transcript.session} --yes && "
        f"ds import {transcript.tool} {path} --redact"
    )


def _source(part: Part) -> str:
    return f"{part.path.absolute()} {part.name}"


def _timed(events: Iterable[tuple[_Reading, Event]]) -> Iterator[tuple[str, _Reading, Event]]:
    """Give each event the latest time so far, so that parts can be merged even if times go backwards."""
    latest = ""
    for reading, event in events:
        latest = max(latest, text(event.get("created_at")) or "")
        yield latest, reading, event


def in_order(transcripts: Iterable[Transcript]) -> Iterator[Transcript]:
    """Yield transcripts, sources before their forks."""
    waiting = {one.session: one for one in transcripts}
    while waiting:
        # Nothing is ready if forks form a circle, as damaged files can: then all of them go as they are.
        ready = [one for one in waiting.values() if one.origin is None or one.origin.session not in waiting]
        for one in ready or list(waiting.values()):
            del waiting[one.session]
            yield one
