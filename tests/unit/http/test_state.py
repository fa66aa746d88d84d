from dataclasses import dataclass, replace

import pytest

from durable_sessions.clock import SystemClock
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Response
from durable_sessions.http.carrier.state import ServerState
from durable_sessions.limits import DEFAULT_LIMITS


@dataclass(eq=False)
class Silent:
    """A peer that takes nothing."""

    bytes_in: int = 0
    bytes_out: int = 0
    cut: bool = False

    def running(self) -> None:
        return None

    def sweep(self, now: float) -> None:
        pass

    def drain(self) -> None:
        pass

    def abort(self) -> None:
        self.cut = True


@pytest.fixture
def state() -> ServerState:
    limits = replace(DEFAULT_LIMITS, untaken_bytes_max=100)
    return ServerState(lambda _: Response(204, []), ANSWER_FORMAT, limits, SystemClock())


def test_who_has_waited_longest_is_cut_when_all_that_waits_is_too_much(state: ServerState) -> None:
    first, second, third = Silent(), Silent(), Silent()
    state.answer_waits(first, None, bytes(50))
    state.answer_waits(second, None, bytes(50) + b"")
    assert not first.cut
    state.answer_waits(third, None, bytes(1))
    assert (first.cut, second.cut, third.cut) == (True, False, False)


def test_what_was_taken_does_not_count(state: ServerState) -> None:
    first, second = Silent(), Silent()
    state.answer_waits(first, None, bytes(90))
    state.answer_taken(first)
    state.answer_waits(second, None, bytes(90))
    state.replace(second, third := Silent())
    state.remove(third)
    state.answer_waits(first, None, bytes(90))
    assert [one.cut for one in (first, second, third)] == [False] * 3


def test_a_piece_that_many_are_sent_counts_once(state: ServerState) -> None:
    piece = bytes(90)
    crowd = [Silent() for _ in range(50)]
    for one in crowd:
        state.answer_waits(one, None, piece)
    assert not any(one.cut for one in crowd)
    state.answer_waits(Silent(), None, bytes(90))
    assert all(one.cut for one in crowd), "only without the last of them the piece leaves memory"


def test_one_that_is_larger_than_the_bound_is_not_cut_for_itself(state: ServerState) -> None:
    alone = Silent()
    state.answer_waits(alone, None, bytes(1000))
    assert not alone.cut
