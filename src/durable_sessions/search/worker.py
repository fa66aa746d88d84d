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
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NoReturn

import msgspec

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
VIEWS_MAX = 64
"""Points in time that are kept for the next pages of searches."""
COMMIT_EVENTS = 100_000
COMMIT_SECONDS = 5.0
"""When to commit although nobody searches: so many events, or so long after the first of them."""
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
        self._newest: dict[str, str] = {}  # by workspace, the view that nothing was committed after

    def run(self) -> None:
        """Serve until told to stop, or until nobody is left to serve."""
        tails = {}
        for path in sorted(self._directory.iterdir()):
            if path.is_dir():
                tails[path.name] = self._index(path.name).tails()
        self._send(Ready(tails))
        while True:
            wait = None
            if self._pending:
                wait = max(0.0, self._pending_since + COMMIT_SECONDS - time.monotonic())
            readable, _, _ = select.select([self._peer], [], [], wait)
            if not readable:
                self._commit_all()
                continue
            request = _REQUESTS.decode(self._receive())
            if isinstance(request, Stop):
                break
            self._serve(request)
        self._commit_all()
        self._searchers.shutdown()
        for index in self._open.values():
            index.close()

    def _serve(self, request: Add | Remove | Ask) -> None:
        if isinstance(request, Add):
            self._add(request)
        elif isinstance(request, Remove):
            self._index(request.workspace).remove(request.stream, request.from_position)
            self._note(request.workspace, 1)
        elif isinstance(request, Ask):
            name, view = self._view(request)
            self._searchers.submit(self._search, request, name, view)

    # Indexing ---------------------------------------------------------------------------

    def _add(self, request: Add) -> None:
        index = self._index(request.workspace)
        events = messages.cut(request.data)
        for position, event in enumerate(events, request.first):
            index.add(Document(request.stream, position, _created_ms(event), _searchable(event)))
        self._note(request.workspace, len(events))
        if self._pending[request.workspace] >= COMMIT_EVENTS:
            self._commit(request.workspace)
        self._send(Taken(len(request.data)))

    def _note(self, workspace: str, count: int) -> None:
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending[workspace] = self._pending.get(workspace, 0) + count

    def _commit_all(self) -> None:
        for workspace in list(self._pending):
            self._commit(workspace)

    def _commit(self, workspace: str) -> None:
        if self._pending.pop(workspace, 0):
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
            self._open.pop(oldest).close()
        index = self._open[workspace] = _opened(self._directory / workspace)
        return index

    # Searching --------------------------------------------------------------------------

    def _view(self, request: Ask) -> tuple[str, View]:
        """Return the point in time to search: an older one that is still known, else now."""
        workspace = request.workspace
        if self._views.get(request.view, ("",))[0] == workspace:
            name = request.view
        else:
            self._commit(workspace)
            name = self._newest.get(workspace, "")
        if name not in self._views:
            name = self._newest[workspace] = os.urandom(6).hex()
            self._views[name] = workspace, self._index(workspace).view()
            while len(self._views) > VIEWS_MAX:
                self._views.popitem(last=False)
        self._views.move_to_end(name)
        return name, self._views[name][1]

    def _search(self, request: Ask, name: str, view: View) -> None:
        try:
            reply: Reply = _answer(request, name, view)
        except IndexDamagedError:
            self._start_anew(request.workspace)
        except Exception as error:
            reply = Failed(request.number, repr(error))
        self._send(reply)

    def _start_anew(self, workspace: str) -> NoReturn:
        _delete(self._directory / workspace)
        os._exit(1)

    # The socket -------------------------------------------------------------------------

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
    if not mark.exists() or mark.read_text() != lineage:
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
        _prepare(directory, lineage)
        Worker(directory, peer).run()


if __name__ == "__main__":
    main()
