"""The process that indexes and searches, so that neither takes time from appends.

Events arrive in the order in which they became durable, with searches in between. A search finds everything
that came before it, because pending events are committed first. What was not committed when the process dies
is sent again to its successor. When its index is damaged, the process deletes it and ends: the successor
rebuilds it.

One thread only reads messages, so that a ping never waits for work. The foreground thread does what a search
waits for, at the priority of the server. The background thread indexes all other events at a lower priority
than everything else on the machine, and pauses after the current ones when a search arrives. A thread
cannot raise its priority again, so these are two threads.
"""

import os
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Condition, Lock, Thread, get_ident

import msgspec

from durable_sessions.search.index import IndexDamagedError, View
from durable_sessions.search.indexes import Indexes, prepare
from durable_sessions.search.messages import (
    LENGTH,
    Add,
    Ask,
    Cancel,
    Erase,
    Failed,
    Ping,
    Pong,
    Ready,
    Remove,
    Reply,
    Request,
    SearchAnswer,
    SessionHits,
    Stop,
    Taken,
    frame,
    indexed,
)
from durable_sessions.streams import messages
from durable_sessions.threads import lower_this_thread

COMMIT_SECONDS = 5.0
"""How long after the first uncommitted event to commit, if no search makes it necessary earlier."""
GATHER_SECONDS = 0.01
"""How long to collect searches while more of them arrive, so that one commit serves all of them."""
SEARCHES_AT_A_TIME = 2
RUN_EVENTS_MAX = 32
"""How many events are indexed before it is asked whether a search has arrived: less than a millisecond."""
RUN_BYTES_MAX = 32 * 1024
"""How large these may be together; a larger event is indexed alone."""

_REQUESTS = msgspec.msgpack.Decoder(Request)


class _Batch:
    """The events of one message, indexed a few at a time so that a search can interrupt."""

    def __init__(self, request: Add) -> None:
        self.request = request
        self.events = messages.cut(request.data)
        self.done = 0

    def next(self) -> Sequence[bytes]:
        """Return the events to index before a search can interrupt, at least one if there are any."""
        size = 0
        for end, event in enumerate(self.events[self.done : self.done + RUN_EVENTS_MAX], self.done):
            size += len(event)
            if size > RUN_BYTES_MAX and end > self.done:
                return self.events[self.done : end]
        return self.events[self.done : self.done + RUN_EVENTS_MAX]


class IndexWorker:
    """Serves one directory of indexes over one socket."""

    def __init__(self, directory: Path, peer: socket.socket) -> None:
        self._indexes = Indexes(directory)
        self._peer = peer
        self._sending = Lock()
        self._searchers = ThreadPoolExecutor(SEARCHES_AT_A_TIME, thread_name_prefix="search")
        self._changed = Condition()  # guards the next four
        self._queue: deque[Add | Remove | Erase | Ask | Stop] = deque()
        self._awaited = 0  # searches and stops in the queue
        self._is_serving = False
        self._wanted: set[int] = set()  # searches whose callers still wait
        self._indexing = Lock()  # guards the indexes and the batch
        self._batch: _Batch | None = None
        self._asks: list[Ask] = []
        self._asked_at = 0.0
        self._searches = 0
        self._begun: dict[int, float] = {}  # by thread, when its current step began

    def run(self) -> None:
        """Serve until a ``Stop`` arrives, or until the server is gone."""
        for name, work in (("foreground", self._run_foreground), ("background", self._run_background)):
            Thread(target=_or_die, args=(work,), name=name, daemon=True).start()
        while True:
            self._dispatch(_REQUESTS.decode(self._receive()))

    def _dispatch(self, request: Request) -> None:
        if isinstance(request, Ping):
            now = time.monotonic()
            # A copy: other threads add and remove entries meanwhile.
            busy_seconds = max((now - begun for begun in list(self._begun.values())), default=0.0)
            self._send(Pong(busy_seconds, self._searches))
            return
        with self._changed:
            # Not queued: it must overtake the search that it is about, which waits behind other work.
            if isinstance(request, Cancel):
                self._wanted.discard(request.number)
                return
            if isinstance(request, Ask):
                self._wanted.add(request.number)
            self._awaited += isinstance(request, Ask | Stop)
            self._queue.append(request)
            self._changed.notify_all()

    # The background ---------------------------------------------------------------------

    def _run_background(self) -> None:
        lower_this_thread()
        while True:
            with self._changed:
                self._changed.wait_for(self._may_work_ahead)
            with self._indexing, self._step():
                # Checked again: a search may have arrived while this thread waited for the lock.
                if self._may_work_ahead():
                    self._index_some()
            with self._changed:
                if self._must_act():
                    self._changed.notify_all()

    def _may_work_ahead(self) -> bool:
        """Say whether there is something to index that the foreground need not do."""
        # What a search waits for is left to the foreground: this thread runs at a low priority, and its
        # priority would be that of the search.
        if not self._is_serving or self._awaited or self._asks:
            return False
        workspace = self._next_workspace()
        return workspace is not None and self._indexes.takes(workspace)

    # The foreground ---------------------------------------------------------------------

    def _run_foreground(self) -> None:
        with self._step():
            self._begin()
        while True:
            with self._changed:
                self._changed.wait_for(self._must_act, self._patience())
            with self._indexing, self._step():
                self._act()
            with self._changed:
                self._changed.notify_all()

    def _begin(self) -> None:
        self._indexes.verify()
        for workspace in self._indexes.names():
            tails = self._indexes.tails(workspace)
            for part in indexed(workspace, tails, self._indexes.erasures(workspace)):
                self._send(part)
        self._send(Ready())
        Thread(target=_or_die, args=(self._indexes.verify_rest,), name="verify", daemon=True).start()
        with self._changed:
            self._is_serving = True
            self._changed.notify_all()

    def _patience(self) -> float:
        """Return how long to wait for a message before a commit is due."""
        seconds = self._indexes.seconds_to_commit(COMMIT_SECONDS)
        return COMMIT_SECONDS if seconds is None else seconds

    def _must_act(self) -> bool:
        if self._awaited or self._asks:
            return True
        workspace = self._next_workspace()
        return workspace is not None and not self._indexes.takes(workspace)

    def _act(self) -> None:
        """Take the next step towards answering searches, or one that the background must not do."""
        # Searches that arrive together share a commit. The wait has an end, or a stream of searches with
        # events between them would keep the first one waiting.
        is_gathered = not self._awaited or time.monotonic() >= self._asked_at + GATHER_SECONDS
        if self._asks and is_gathered:
            self._search_all()
        elif self._must_act():
            workspace = self._next_workspace()
            if workspace is not None:
                self._indexes.make_ready(workspace)
            self._index_some()
        elif self._indexes.seconds_to_commit(COMMIT_SECONDS) == 0.0:
            self._indexes.commit_all()
        else:
            self._indexes.purge(int(time.time() * 1000))

    # Indexing ---------------------------------------------------------------------------

    def _next_workspace(self) -> str | None:
        """Return the workspace of the next event or removal, None if a search or nothing comes next."""
        batch = self._batch
        if batch is not None:
            return batch.request.workspace
        try:
            request = self._queue[0]
        except IndexError:
            return None
        return request.workspace if isinstance(request, Add | Remove | Erase) else None

    def _index_some(self) -> None:
        """Index the next events, or take the next message from the queue."""
        if self._batch is None:
            with self._changed:
                if not self._queue:
                    return
                request = self._queue.popleft()
                self._awaited -= isinstance(request, Ask | Stop)
            self._take(request)
        if self._batch is not None:
            self._index_next(self._batch)

    def _take(self, request: Add | Remove | Erase | Ask | Stop) -> None:
        if isinstance(request, Add):
            self._batch = _Batch(request)
        elif isinstance(request, Remove):
            self._indexes.remove(request.workspace, request.stream, request.from_position)
            if request.purge_at_ms:
                self._indexes.purge_later(request.workspace, request.purge_at_ms)
            self._send(Taken(request.size))
        elif isinstance(request, Erase):
            self._indexes.erase(
                request.workspace, request.stream, request.events, request.erasures, request.purge_at_ms
            )
            self._send(Taken(request.size))
        elif isinstance(request, Ask):
            if not self._asks:
                self._asked_at = time.monotonic()
            self._asks.append(request)
        else:
            self._indexes.commit_all()
            os._exit(0)  # sys.exit() would end only this thread

    def _index_next(self, batch: _Batch) -> None:
        request = batch.request
        events = batch.next()
        if events:
            first = request.first + batch.done
            self._indexes.add(request.workspace, request.stream, first, events, request.erasures)
            batch.done += len(events)
        if batch.done == len(batch.events):
            self._batch = None
            self._send(Taken(request.size))

    # Searching --------------------------------------------------------------------------

    def _search_all(self) -> None:
        """Start the collected searches; pending events are committed once for all of them."""
        asks, self._asks = self._asks, []
        for request in asks:
            # Asked before the view is made, since that commits: nobody may wait for the result any more.
            if self._is_wanted(request):
                name, view = self._indexes.view(request.workspace, request.view)
                self._searchers.submit(_or_die, self._search, request, name, view)

    def _is_wanted(self, request: Ask) -> bool:
        """Say whether the caller of a search still waits."""
        if request.number in self._wanted and not 0 < request.deadline < time.monotonic():
            return True
        self._wanted.discard(request.number)
        return False

    def _search(self, request: Ask, name: str, view: View) -> None:
        if not self._is_wanted(request):
            return
        try:
            with self._step():
                self._searches += 1
                answer = _answer(request, name, view)
        except IndexDamagedError as error:
            self._indexes.discard(request.workspace, error)
        except Exception as error:
            self._send(Failed(request.number, repr(error)))
            return
        finally:
            self._wanted.discard(request.number)
        if answer.total_hits > 1:  # otherwise there is no next page that needs this point in time
            self._indexes.keep(request.workspace, name, view)
        self._send(answer)

    # Steps and messages -----------------------------------------------------------------

    def _step(self) -> "_Step":
        return _Step(self._begun)

    def _send(self, reply: Reply) -> None:
        try:
            with self._sending:
                self._peer.sendall(frame(reply))
        except OSError:
            os._exit(0)

    def _receive(self) -> bytes:
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        filled = 0
        while filled < size:
            try:
                read = self._peer.recv_into(memoryview(data)[filled:])
            except OSError:
                read = 0
            if not read:
                os._exit(0)  # the server is gone; what was not committed is sent to the next worker
            filled += read
        return bytes(data)


class _Step:
    """Records how long a thread has been in its current step."""

    def __init__(self, begun: dict[int, float]) -> None:
        self._begun = begun

    def __enter__(self) -> None:
        self._begun[get_ident()] = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._begun.pop(get_ident(), None)


def _or_die(work: Callable[..., None], *arguments: object) -> None:
    """Run a thread; a bug in it ends the process, so that a new process takes its place."""
    try:
        work(*arguments)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _answer(request: Ask, name: str, view: View) -> SearchAnswer:
    if request.refs:
        found = view.referring(request.refs, request.limit)
        sessions = [SessionHits(hit.stream, [hit]) for hit in found.hits]
        return SearchAnswer(request.number, sessions, found.total, 0, name)
    if request.hits_per_session:
        groups = view.groups(
            request.query, request.scope, request.limit, request.offset, request.hits_per_session
        )
        sessions = [SessionHits(stream, hits) for stream, hits in groups.sessions]
        return SearchAnswer(request.number, sessions, groups.total_hits, groups.total_sessions, name)
    found = view.search(request.query, request.scope, request.limit, request.offset, request.order)
    sessions = [SessionHits(hit.stream, [hit]) for hit in found.hits]
    return SearchAnswer(request.number, sessions, found.total, 0, name)


def main() -> None:
    """Serve the socket that the server has passed on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes; the server stops this one
    directory, lineage, descriptor = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    os.umask(0o077)
    with socket.socket(fileno=descriptor) as peer:
        try:
            prepare(directory, lineage)
        except OSError as error:
            reason = f"the search directory cannot be used ({error.strerror})"
            peer.sendall(frame(Failed(0, reason)))
            sys.exit(1)
        IndexWorker(directory, peer).run()


if __name__ == "__main__":
    main()
