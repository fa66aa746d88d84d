"""The process that indexes and searches, so that neither takes time from appends.

It is told of events in the order in which they became durable, and of searches in between: a search finds
all that came before it, because what is not committed is committed first. What it has not committed when it
dies is told to its successor again. When its index is damaged it deletes that, and dies: the successor
begins anew.
"""

import os
import re
import select
import shutil
import signal
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock, Thread
from typing import NoReturn

import msgspec

from durable_sessions.search import checksums
from durable_sessions.search.index import Document, Index, IndexBusyError, IndexDamagedError, View
from durable_sessions.search.messages import (
    LENGTH,
    Add,
    Answer,
    Ask,
    Failed,
    Ready,
    Remove,
    Reply,
    Request,
    Session,
    Stop,
    Taken,
    frame,
)
from durable_sessions.search.text import Searchable, searchable
from durable_sessions.streams import messages
from durable_sessions.times import parse_rfc3339

NICENESS = 10
"""How much the process stands back behind the server."""
HEAP_BYTES = 48_000_000
"""Memory for events that are not written to the index yet, of each workspace that is being written to."""
OPEN_INDEXES_MAX = 16
VIEWS_MAX = 256
"""Points in time that are kept for the next pages of searches."""
COMMIT_EVENTS = 100_000
COMMIT_SECONDS = 5.0
"""When to commit although nobody searches: so many events, or so long after the first of them."""
GATHER_SECONDS = 0.01
"""How long searches gather at most, if there is more to read, so that one commit does for all of them."""
VERIFY_SECONDS = 2.0
"""How long files are compared with their checksums before the process serves; the rest is done meanwhile."""
SEARCHES_AT_A_TIME = 2
LOCK_SECONDS_MAX = 30.0
"""How long a predecessor that is ending may keep the index."""
LINEAGE = "LINEAGE"

_CREATED = re.compile(
    rb'\{"id":"[^"]*",(?:"request_key":"[^"]*",)?"offset":"[^"]*","created_at":"([^"]*)\.(\d{3})Z"'
)
_REQUESTS = msgspec.msgpack.Decoder(Request)


class Worker:
    """Serves one directory of indexes, one for each workspace, over one socket."""

    def __init__(self, directory: Path, peer: socket.socket) -> None:
        self._directory = directory
        self._peer = peer
        self._sending = Lock()
        self._searchers = ThreadPoolExecutor(SEARCHES_AT_A_TIME, thread_name_prefix="search")
        self._open: OrderedDict[str, Index] = OrderedDict()
        self._pending: dict[str, int] = {}  # events and removals since the last commit, by workspace
        self._pending_since = 0.0
        self._views: OrderedDict[str, tuple[str, View]] = OrderedDict()
        self._asks: list[Ask] = []
        self._asked_at = 0.0
        self._keeping = Lock()  # of what is kept for the next pages
        self._newest: dict[str, tuple[str, View]] = {}  # by workspace, what nothing was committed after

    def run(self) -> None:
        """Serve until told to stop, or until nobody is left to serve."""
        paths = sorted(path for path in self._directory.iterdir() if path.is_dir())
        unverified = self._verify(paths)
        tails = {}
        for path in paths:
            with self._anew_if_damaged(path.name):
                tails[path.name] = self._index(path.name).tails()
        self._send(Ready(tails))
        Thread(target=self._verify_rest, args=(unverified,), name="verify", daemon=True).start()
        while True:
            if not self._is_readable(self._patience()):
                self._search_all()
                if self._pending and time.monotonic() >= self._pending_since + COMMIT_SECONDS:
                    self._commit_all()
                continue
            request = _REQUESTS.decode(self._receive())
            if isinstance(request, Stop):
                break
            self._serve(request)
            if self._asks and time.monotonic() >= self._asked_at + GATHER_SECONDS:
                self._search_all()
        self._commit_all()
        self._searchers.shutdown()
        for workspace, index in self._open.items():
            with self._anew_if_damaged(workspace):
                index.close()

    def _verify(self, paths: Iterable[Path]) -> list[Path]:
        """Delete indexes that are damaged; return the files that there was no time to look at."""
        deadline = time.monotonic() + VERIFY_SECONDS
        unverified = []
        for path in paths:
            for file in checksums.files(path):
                if time.monotonic() > deadline:
                    unverified.append(file)
                elif not checksums.is_whole(file):
                    _delete(path)
                    break
        return unverified

    def _verify_rest(self, files: Iterable[Path]) -> None:
        for file in files:
            if not checksums.is_whole(file):
                self._start_anew(file.parent.name, IndexDamagedError(f"{file.name} is not as it was written"))

    def _serve(self, request: Add | Remove | Ask) -> None:
        if isinstance(request, Add):
            self._add(request)
        elif isinstance(request, Remove):
            with self._anew_if_damaged(request.workspace):
                self._index(request.workspace).remove(request.stream, request.from_position)
            self._note(request.workspace, 1)
            self._send(Taken(request.size))
        elif isinstance(request, Ask):
            if not self._asks:
                self._asked_at = time.monotonic()
            self._asks.append(request)

    def _patience(self) -> float | None:
        """Return how long to wait for what comes next, None if there is nothing else to do."""
        if self._asks:
            return 0.0
        if self._pending:
            return max(0.0, self._pending_since + COMMIT_SECONDS - time.monotonic())
        return None

    # Indexing ---------------------------------------------------------------------------

    def _add(self, request: Add) -> None:
        events = messages.cut(request.data)
        with self._anew_if_damaged(request.workspace):
            index = self._index(request.workspace)
            for position, event in enumerate(events, request.first):
                index.add(Document(request.stream, position, _created_ms(event), _searchable(event)))
        self._note(request.workspace, len(events))
        if self._pending[request.workspace] >= COMMIT_EVENTS:
            self._commit(request.workspace)
        self._send(Taken(request.size))

    def _note(self, workspace: str, count: int) -> None:
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending[workspace] = self._pending.get(workspace, 0) + count

    def _commit_all(self) -> None:
        for workspace in list(self._pending):
            self._commit(workspace)

    def _commit(self, workspace: str) -> None:
        if self._pending.pop(workspace, 0):
            with self._anew_if_damaged(workspace):
                self._index(workspace).commit()
            self._newest.pop(workspace, None)

    def _index(self, workspace: str) -> Index:
        index = self._open.get(workspace)
        if index is not None:
            self._open.move_to_end(workspace)
            return index
        while len(self._open) >= OPEN_INDEXES_MAX:
            oldest = next(iter(self._open))
            self._commit(oldest)
            with self._anew_if_damaged(oldest):
                self._open.pop(oldest).close()
        index = self._open[workspace] = _opened(self._directory / workspace)
        return index

    # Searching --------------------------------------------------------------------------

    def _search_all(self) -> None:
        """Begin the searches that were asked for: what they have to find is committed once for all."""
        asks, self._asks = self._asks, []
        for request in asks:
            with self._anew_if_damaged(request.workspace):
                name, view = self._view(request)
            self._searchers.submit(self._search, request, name, view)

    def _view(self, request: Ask) -> tuple[str, View]:
        """Return the point in time to search: an older one that is still known, else now."""
        workspace = request.workspace
        with self._keeping:
            of, view = self._views.get(request.view, ("", None))
            if view is not None and of == workspace:
                self._views.move_to_end(request.view)
                return request.view, view
        self._commit(workspace)
        newest = self._newest.get(workspace)
        if newest is None:
            newest = self._newest[workspace] = os.urandom(6).hex(), self._index(workspace).view()
        return newest

    def _search(self, request: Ask, name: str, view: View) -> None:
        try:
            answer = _answer(request, name, view)
        except IndexDamagedError as error:
            self._start_anew(request.workspace, error)
        except Exception as error:
            self._send(Failed(request.number, repr(error)))
            return
        if answer.total_hits > 1:
            self._keep(request.workspace, name, view)
        self._send(answer)

    def _keep(self, workspace: str, name: str, view: View) -> None:
        """Keep a point in time for the next page; a single hit has none."""
        with self._keeping:
            self._views[name] = workspace, view
            self._views.move_to_end(name)
            while len(self._views) > VIEWS_MAX:
                self._views.popitem(last=False)

    @contextmanager
    def _anew_if_damaged(self, workspace: str) -> Iterator[None]:
        try:
            yield
        except IndexDamagedError as error:
            self._start_anew(workspace, error)

    def _start_anew(self, workspace: str, error: IndexDamagedError) -> NoReturn:
        _delete(self._directory / workspace)
        sys.stderr.write(f"The search index of {workspace} is damaged and will be made anew: {error}\n")
        sys.stderr.flush()
        os._exit(1)

    # The socket -------------------------------------------------------------------------

    def _is_readable(self, seconds_max: float | None) -> bool:
        readable, _, _ = select.select([self._peer], [], [], seconds_max)
        return bool(readable)

    def _send(self, reply: Reply) -> None:
        with self._sending:
            self._peer.sendall(frame(reply))

    def _receive(self) -> bytes:
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        filled = 0
        while filled < size:
            read = self._peer.recv_into(memoryview(data)[filled:])
            if not read:
                os._exit(0)  # the server is gone; what was not committed is told to the next one
            filled += read
        return bytes(data)


def _opened(path: Path) -> Index:
    deadline = time.monotonic() + LOCK_SECONDS_MAX
    while True:
        try:
            return Index.open(path, HEAP_BYTES)
        except IndexDamagedError:
            _delete(path)
            return Index.open(path, HEAP_BYTES)
        except IndexBusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _delete(path: Path) -> None:
    """Remove an index such that half of it is never taken for all of it."""
    aside = path.with_name(f".{path.name}")
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(FileNotFoundError):
        path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _answer(request: Ask, name: str, view: View) -> Answer:
    if request.hits_per_session:
        groups = view.groups(
            request.query, request.scope, request.limit, request.offset, request.hits_per_session
        )
        sessions = [Session(stream, hits) for stream, hits in groups.sessions]
        return Answer(request.number, sessions, groups.total_hits, groups.total_sessions, name)
    found = view.search(request.query, request.scope, request.limit, request.offset, request.order)
    sessions = [Session(hit.stream, [hit]) for hit in found.hits]
    return Answer(request.number, sessions, found.total, 0, name)


def _searchable(event: bytes) -> Searchable:
    try:
        return searchable(event)
    except Exception:
        return Searchable("")  # whatever it is, the events after it must be found


def _created_ms(event: bytes) -> int:
    """Return when an event was appended, 0 if it does not say so: then a repair has put it there."""
    found = _CREATED.match(event)
    return 0 if found is None else _second_ms(found[1]) + int(found[2])


@lru_cache(maxsize=64)
def _second_ms(second: bytes) -> int:
    return parse_rfc3339(f"{second.decode()}Z") or 0


def _prepare(directory: Path, lineage: str) -> None:
    """Make the directory ready: what was made from another log says nothing of this one."""
    mark = directory / LINEAGE
    if not mark.exists() or mark.read_bytes() != lineage.encode():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        mark.write_text(lineage)
    for path in directory.glob(".*"):
        shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    """Serve the socket that the server has passed on."""
    directory, lineage, descriptor = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is told, and tells us
    os.nice(NICENESS)
    with socket.socket(fileno=descriptor) as peer:
        try:
            _prepare(directory, lineage)
        except OSError as error:
            peer.sendall(frame(Failed(0, f"the search directory cannot be used ({error.strerror})")))
            raise
        Worker(directory, peer).run()


if __name__ == "__main__":
    main()
