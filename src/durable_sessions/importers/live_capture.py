"""Live capture: follows sources while their tools write them."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Signal

from watchfiles import watch

from durable_sessions.client.errors import ClientError
from durable_sessions.importers.engine import ImportEngine
from durable_sessions.importers.report import Report
from durable_sessions.importers.sources import SourceError, Transcript

QUIET_SECONDS = 30.0
STEP_SECONDS = 0.2
LOOK_SECONDS = 30.0
LOOK_SHARE = 10
"""The pause between two full scans, as a multiple of the duration of a scan."""
PAUSE_SECONDS_MAX = 30.0


@dataclass(slots=True)
class _Followed:
    """A transcript that is being written, and when it was last seen to change."""

    transcript: Transcript
    changed_at: float


@dataclass(slots=True)
class Watcher:
    """Imports appended records soon after they are written, and held-back events when a source is quiet.

    A crash loses nothing: progress is saved after it was acknowledged, and events that are sent twice are
    recognised by their ids.
    """

    engine: ImportEngine
    discover: Callable[[], Iterable[Transcript]]
    roots: list[Path]
    on_report: Callable[[Report], None]
    on_trouble: Callable[[str], None]
    quiet_seconds: float = QUIET_SECONDS
    stop: Signal = field(default_factory=Signal)
    _known: dict[str, Transcript] = field(default_factory=dict)
    _by_path: dict[str, str] = field(default_factory=dict)
    _active: dict[str, _Followed] = field(default_factory=dict)
    _looked_at: float = 0.0
    _look_seconds: float = 0.0

    def run(self) -> None:
        """Follow the sources until ``stop`` is set.

        All of them are scanned when the system begins to report changes, when it reports an unknown file, and
        periodically, because it may drop notifications.
        """
        self._look_at_all()
        is_due = True
        for changed in self._changes():
            sessions = {self._by_path.get(os.path.abspath(path)) for path in changed}
            is_due |= None in sessions
            self._try([self._known[name] for name in sessions if name is not None])
            waited = time.monotonic() - self._looked_at
            if waited >= LOOK_SECONDS or (is_due and waited >= LOOK_SHARE * self._look_seconds):
                self._look_at_all()
                is_due = False
            self._finish_quiet()

    def _look_at_all(self) -> None:
        began = time.monotonic()
        self._find()
        self._try(list(self._known.values()))
        self._looked_at = time.monotonic()
        self._look_seconds = self._looked_at - began

    def _changes(self) -> Iterator[set[str]]:
        """Yield changed paths about once a second; by polling if the system does not report changes."""
        roots = [root for root in self.roots if root.exists()]
        while not roots and not self.stop.wait(1.0):
            roots = [root for root in self.roots if root.exists()]
            yield {str(root) for root in roots}
        if self.stop.is_set():
            return
        try:
            for changes in watch(
                *roots,
                stop_event=self.stop,
                debounce=int(STEP_SECONDS * 1000),
                step=50,
                rust_timeout=500,
                yield_on_timeout=True,
                raise_interrupt=False,
            ):
                yield {path for _, path in changes}
        except OSError as error:
            self.on_trouble(
                f"The system does not report changes ({error}); the files are looked at every second."
            )
            yield from self._poll()

    def _poll(self) -> Iterator[set[str]]:
        before: dict[str, tuple[int, int]] = {}
        while not self.stop.wait(1.0):
            now = {}
            for root in self.roots:
                for path in root.rglob("*") if root.is_dir() else [root]:
                    try:
                        stat = path.stat()
                    except OSError:
                        continue
                    now[str(path)] = (stat.st_size, stat.st_mtime_ns)
            yield {path for path, mark in now.items() if before.get(path) != mark}
            before = now

    def _find(self) -> None:
        """Find new sessions and parts; those that are followed stay as they are."""
        try:
            everything = list(self.discover())
        except (SourceError, OSError) as error:
            self.on_trouble(str(error))
            return
        for found in everything:
            known = self._known.get(found.session)
            if known is None or any(part.is_read_whole for part in found.parts):
                self._known[found.session] = known = found
            else:
                names = {part.name for part in known.parts}
                known.parts += [part for part in found.parts if part.name not in names]
            for part in known.parts:
                self._by_path[str(part.path.absolute())] = found.session

    def _try(self, transcripts: list[Transcript]) -> None:
        """Import new records; if the server is unavailable, continue later from what it has acknowledged."""
        pause = 1.0
        while transcripts and not self.stop.is_set():
            try:
                self._import(transcripts)
                return
            except ClientError as error:
                self.on_trouble(str(error))
                for transcript in transcripts:
                    self.engine.forget(transcript)
                self.stop.wait(pause)
                pause = min(pause * 2, PAUSE_SECONDS_MAX)

    def _import(self, transcripts: list[Transcript]) -> None:
        writing = [one for one in transcripts if not self._is_quiet(one)]
        resting = [one for one in transcripts if self._is_quiet(one)]
        # What nobody writes to any more is finished, so that nothing stays held back for a next record.
        for group, ending in ((resting, True), (writing, False)):
            if group:
                self.on_report(self.engine.run(group, ending=ending))
        for one in resting:
            self.engine.forget(one)
            self._active.pop(one.session, None)
        for one in writing:
            self._active[one.session] = _Followed(one, time.monotonic())

    def _is_quiet(self, transcript: Transcript) -> bool:
        newest = 0.0
        for part in transcript.parts:
            try:
                newest = max(newest, part.path.stat().st_mtime)
            except OSError:
                continue
        # The distance, not the age: a file from the future, after the clock was set back, is not being
        # written.
        return abs(time.time() - newest) >= self.quiet_seconds

    def _finish_quiet(self) -> None:
        """Send the held-back events of quiet sources, and drop their state from memory."""
        now = time.monotonic()
        over = [one for one in self._active.values() if now - one.changed_at >= self.quiet_seconds]
        for followed in over:
            del self._active[followed.transcript.session]
        self._try([one.transcript for one in over])
