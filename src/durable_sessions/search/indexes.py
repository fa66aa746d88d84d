"""The indexes of one directory, one for each workspace, and the snapshots of them that searches use."""

import os
import re
import shutil
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NoReturn

from durable_sessions.search import call_names, checksums, priority, ref_terms
from durable_sessions.search.index import Document, Index, IndexBusyError, IndexDamagedError, View
from durable_sessions.search.text import Searchable, searchable
from durable_sessions.sessions.tombstones import is_tombstone
from durable_sessions.threads import lower_this_thread
from durable_sessions.times import parse_rfc3339

HEAP_BYTES = 48_000_000
"""The write buffer of each open index, for events that are not committed yet."""
OPEN_INDEXES_MAX = 16
VIEWS_MAX = 256
"""How many snapshots are kept for the next pages of searches."""
COMMIT_EVENTS = 100_000
"""After how many events to commit, if no search makes it necessary earlier."""
VERIFY_SECONDS = 2.0
"""How long to verify checksums before serving; the remaining files are verified in the background."""
LOCK_SECONDS_MAX = 30.0
"""How long to wait for a predecessor that is ending to release the index."""
LINEAGE = "LINEAGE"
PURGE = "PURGE"
"""The file in an index that says when it has to be written anew, because it has erased events."""

_CREATED = re.compile(
    rb'\{"id":"[^"]*",(?:"request_key":"[^"]*",)?"offset":"[^"]*","created_at":"([^"]*)\.(\d{3})Z"'
)


class Indexes:
    """Opens, fills and commits indexes; one thread at a time, except :meth:`keep` and :meth:`discard`.

    Tantivy's threads inherit the priority of the thread that opens an index or commits, so only the
    foreground thread may do that.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._unverified: list[Path] = []
        self._open: OrderedDict[str, Index] = OrderedDict()
        self._calls = call_names.RecentCalls()
        self._pending: dict[str, int] = {}  # events and removals since the last commit, by workspace
        self._pending_since = 0.0
        self._purges: dict[str, int | None] = {}  # by workspace, when its index has to be written anew
        self._keeping = Lock()  # guards the views that are kept for the next pages
        self._views: OrderedDict[str, tuple[str, View]] = OrderedDict()
        self._newest: dict[str, tuple[str, View]] = {}  # by workspace, the view of the last commit

    def names(self) -> list[str]:
        """Return the workspaces that have an index."""
        return sorted(path.name for path in self._directory.iterdir() if path.is_dir())

    def verify(self) -> None:
        """Delete indexes that are damaged; files that there is no time for wait for :meth:`verify_rest`."""
        deadline = time.monotonic() + VERIFY_SECONDS
        for name in self.names():
            path = self._directory / name
            for file in checksums.files(path):
                if time.monotonic() > deadline:
                    self._unverified.append(file)
                elif not checksums.is_whole(file):
                    delete(path)
                    break

    def verify_rest(self) -> None:
        """Verify the files that :meth:`verify` had no time for."""
        lower_this_thread()
        for file in self._unverified:
            if not checksums.is_whole(file):
                self.discard(file.parent.name, IndexDamagedError(f"{file.name} is not as it was written"))

    def tails(self, workspace: str) -> dict[int, int]:
        """Return for each stream of a workspace the position after its last event in the index."""
        with self._discard_if_damaged(workspace):
            return self._index(workspace).tails()

    # Filling ----------------------------------------------------------------------------

    def takes(self, workspace: str) -> bool:
        """Say whether events can be added without calling :meth:`make_ready` first."""
        return workspace in self._open and self._pending.get(workspace, 0) < COMMIT_EVENTS

    def make_ready(self, workspace: str) -> None:
        """Open the index of a workspace, and commit it if that is due."""
        self._index(workspace)
        if self._pending.get(workspace, 0) >= COMMIT_EVENTS:
            self._commit(workspace)

    def erasures(self, workspace: str) -> dict[int, int]:
        """Return for each stream of a workspace how many erasures the index knows."""
        with self._discard_if_damaged(workspace):
            return self._index(workspace).erasures()

    def add(
        self, workspace: str, stream: int, first: int, events: Sequence[bytes], erasures: int = 0
    ) -> None:
        """Add consecutive events, whatever they are."""
        with self._discard_if_damaged(workspace):
            documents = [
                Document(
                    stream,
                    position,
                    _created_ms(event),
                    self._with_name(workspace, stream, _searchable(event)),
                    erasures,
                    _refs(stream, event),
                )
                for position, event in enumerate(events, first)
            ]
            self._index(workspace).add(*documents)
        self._note(workspace, len(events))

    def erase(
        self,
        workspace: str,
        stream: int,
        events: Sequence[tuple[int, bytes]],
        erasures: int,
        purge_at_ms: int,
    ) -> None:
        """Put events in place of others; the files are written anew by ``purge_at_ms``.

        The time is noted first, so that a process that dies in between does not forget it.
        """
        self.purge_later(workspace, purge_at_ms)
        with self._discard_if_damaged(workspace):
            for position, event in events:
                searched, refs = _searchable(event), _refs(stream, event)
                document = Document(stream, position, _created_ms(event), searched, erasures, refs)
                self._index(workspace).erase(document)
        self._note(workspace)
        with self._keeping:  # a kept view still has what was erased
            self._views = OrderedDict(
                (name, kept) for name, kept in self._views.items() if kept[0] != workspace
            )

    def purge_later(self, workspace: str, purge_at_ms: int) -> None:
        """Note that an index has to be written anew; the earliest time counts."""
        self._index(workspace)
        mark = self._directory / workspace / PURGE
        if not mark.exists():
            mark.write_text(f"{purge_at_ms}\n")
            self._purges.pop(workspace, None)

    def purge(self, now_ms: int) -> None:
        """Delete an index whose files must not be kept any longer, and end: its successor rebuilds it."""
        for workspace in self.names():
            if workspace not in self._purges:
                mark = self._directory / workspace / PURGE
                self._purges[workspace] = int(mark.read_text()) if mark.exists() else None
            due_ms = self._purges[workspace]
            if due_ms is not None and due_ms <= now_ms:
                delete(self._directory / workspace)
                sys.stderr.write(f"The search index of {workspace} is written anew without erased events.\n")
                sys.stderr.flush()
                os._exit(0)

    def _with_name(self, workspace: str, stream: int, event: Searchable) -> Searchable:
        """Return an event with the name of its tool; a result without one gets that of its call."""
        if event.call is None:
            return event
        key = call_names.key_of(stream, event.call)
        if event.is_call:
            if event.name is not None:
                self._calls.note(workspace, key, event.name)
            return event
        if event.name is not None:
            return event
        name = self._calls.find(workspace, key) or self._index(workspace).call_name(key)
        return event._replace(name=name)

    def remove(self, workspace: str, stream: int, from_position: int) -> None:
        """Remove the events of a stream from a position on."""
        with self._discard_if_damaged(workspace):
            self._index(workspace).remove(stream, from_position)
        self._note(workspace)

    def seconds_to_commit(self, seconds_max: float) -> float | None:
        """Return in how many seconds a commit is due, None if there is nothing to commit."""
        if not self._pending:
            return None
        return max(0.0, self._pending_since + seconds_max - time.monotonic())

    def commit_all(self) -> None:
        """Commit what was added and removed."""
        for workspace in list(self._pending):
            self._commit(workspace)

    def _note(self, workspace: str, changes: int = 1) -> None:
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending[workspace] = self._pending.get(workspace, 0) + changes

    def _commit(self, workspace: str) -> None:
        if self._pending.pop(workspace, 0):
            with self._discard_if_damaged(workspace):
                index = self._index(workspace)
                # Before each commit, which may start a merge: threads that are new have no names yet.
                priority.lower_merge_threads()
                index.commit()
            self._newest.pop(workspace, None)

    def _index(self, workspace: str) -> Index:
        index = self._open.get(workspace)
        if index is not None:
            self._open.move_to_end(workspace)
            return index
        while len(self._open) >= OPEN_INDEXES_MAX:
            oldest = next(iter(self._open))
            self._commit(oldest)
            with self._discard_if_damaged(oldest):
                self._open.pop(oldest).close()
        index = self._open[workspace] = _opened(self._directory / workspace)
        return index

    # Snapshots --------------------------------------------------------------------------

    def view(self, workspace: str, name: str) -> tuple[str, View]:
        """Return the snapshot with this name if it is still kept, else a new one of everything so far."""
        with self._keeping:
            of, view = self._views.get(name, ("", None))
            if view is not None and of == workspace:
                self._views.move_to_end(name)
                return name, view
        self._commit(workspace)
        newest = self._newest.get(workspace)
        if newest is None:
            with self._discard_if_damaged(workspace):
                newest = os.urandom(6).hex(), self._index(workspace).view()
            self._newest[workspace] = newest
        return newest

    def keep(self, workspace: str, name: str, view: View) -> None:
        """Keep a snapshot for the next page."""
        with self._keeping:
            self._views[name] = workspace, view
            self._views.move_to_end(name)
            while len(self._views) > VIEWS_MAX:
                self._views.popitem(last=False)

    # Damage -----------------------------------------------------------------------------

    @contextmanager
    def _discard_if_damaged(self, workspace: str) -> Iterator[None]:
        try:
            yield
        except IndexDamagedError as error:
            self.discard(workspace, error)

    def discard(self, workspace: str, error: IndexDamagedError) -> NoReturn:
        """Delete an index and end the process: its successor rebuilds it."""
        delete(self._directory / workspace)
        sys.stderr.write(f"The search index of {workspace} is damaged and will be rebuilt: {error}\n")
        sys.stderr.flush()
        os._exit(1)


def prepare(directory: Path, lineage: str) -> None:
    """Prepare the directory; indexes that belong to another log are deleted."""
    mark = directory / LINEAGE
    if not mark.exists() or mark.read_bytes() != lineage.encode():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        mark.write_text(lineage)
    for path in directory.glob(".*"):  # deletions that were interrupted, see delete()
        shutil.rmtree(path, ignore_errors=True)


def delete(path: Path) -> None:
    """Remove an index; it is renamed first, so that a half-removed one is never taken for a whole one."""
    aside = path.with_name(f".{path.name}")
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(FileNotFoundError):
        path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _opened(path: Path) -> Index:
    deadline = time.monotonic() + LOCK_SECONDS_MAX
    while True:
        try:
            return Index.open(path, HEAP_BYTES)
        except IndexDamagedError:
            delete(path)
            return Index.open(path, HEAP_BYTES)
        except IndexBusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _searchable(event: bytes) -> Searchable:
    try:
        found = searchable(event)
        return found._replace(text="", name=None) if is_tombstone(event) else found
    except Exception:
        return Searchable("")  # whatever it is, the events after it must be found


def _refs(stream: int, event: bytes) -> tuple[str, ...]:
    try:
        return ref_terms.terms_of(stream, event)
    except Exception:
        return ()  # whatever it is, the events after it must be found


def _created_ms(event: bytes) -> int:
    """Return when an event was appended; 0 if it does not say, because a repair wrote it."""
    found = _CREATED.match(event)
    return 0 if found is None else _second_ms(found[1]) + int(found[2])


@lru_cache(maxsize=64)
def _second_ms(second: bytes) -> int:
    return parse_rfc3339(f"{second.decode()}Z") or 0
