"""The process that indexes: it takes a few events at a time, and a search never waits for more."""

import socket
from collections.abc import Sequence
from pathlib import Path

from durable_sessions.search.messages import Add, Ask
from durable_sessions.search.query import parse
from durable_sessions.search.scope import Scope
from durable_sessions.search.worker import RUN_BYTES_MAX, RUN_EVENTS_MAX, IndexWorker


class _Counted:
    """Indexes that only note what they are given."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, list[bytes]]] = []

    def takes(self, workspace: str) -> bool:
        return True

    def add(self, workspace: str, stream: int, first: int, events: Sequence[bytes], erasures: int) -> None:
        assert (workspace, stream, erasures) == ("w", 7, 2)
        self.runs.append((first, list(events)))


def _indexed(tmp_path: Path, events: Sequence[bytes], *, asked_after: int | None = None) -> _Counted:
    """Return in which runs the events of one message are indexed, perhaps until a search arrives."""
    counted = _Counted()
    ours, its = socket.socketpair()
    with ours, its:
        worker = IndexWorker(tmp_path, its)
        worker._indexes = counted  # type: ignore[assignment]
        worker._is_serving = True
        worker._dispatch(Add("w", 7, 100, b"".join(event + b"," for event in events), 2))
        while worker._may_work_ahead():
            worker._index_some()
            if len(counted.runs) == asked_after:
                worker._dispatch(Ask(1, "w", parse("x"), Scope(), 1))
    return counted


def test_events_are_indexed_in_runs_with_their_positions(tmp_path: Path) -> None:
    events = [b'{"n":%d}' % number for number in range(2 * RUN_EVENTS_MAX + 1)]
    runs = _indexed(tmp_path, events).runs
    assert [(first, len(run)) for first, run in runs] == [
        (100, RUN_EVENTS_MAX),
        (100 + RUN_EVENTS_MAX, RUN_EVENTS_MAX),
        (100 + 2 * RUN_EVENTS_MAX, 1),
    ]
    assert [event for _, run in runs for event in run] == events


def test_a_run_of_large_events_is_short_and_never_empty(tmp_path: Path) -> None:
    half, whole = b'"%b"' % (b"x" * (RUN_BYTES_MAX // 2 - 2)), b'"%b"' % (b"x" * RUN_BYTES_MAX)
    events = [half, half, half, whole, whole, b"1", b"2"]
    assert [len(run) for _, run in _indexed(tmp_path, events).runs] == [2, 1, 1, 1, 2]


def test_a_search_is_not_kept_waiting_for_the_rest_of_a_message(tmp_path: Path) -> None:
    events = [b"%d" % number for number in range(10 * RUN_EVENTS_MAX)]
    assert len(_indexed(tmp_path, events, asked_after=3).runs) == 3
