"""What followers share: bounded in number for each stream, and in bytes for all of them."""

from durable_sessions.http.api.followers import SharedChunks
from durable_sessions.http.api.frame_budget import FrameBudget


def kept(shared: SharedChunks, count: int) -> list[int]:
    return [start for start in range(count) if shared.get(start) is not None]


def test_a_stream_keeps_so_many_chunks_and_the_newest() -> None:
    shared = SharedChunks(FrameBudget(1_000), chunks_max=3)
    for start in range(3):
        shared.put(start, (start + 1, b"x"))
    assert kept(shared, 4) == [0, 1, 2]
    shared.put(3, (4, b"x"))
    assert kept(shared, 4) == [1, 2, 3]


def test_all_streams_together_keep_so_many_bytes() -> None:
    frame_budget = FrameBudget(10)
    one, other = SharedChunks(frame_budget, 100), SharedChunks(frame_budget, 100)
    one.put(0, (1, b"12345"))
    other.keep_whole("key", b"12345")
    assert (one.get(0), other.whole("key")) == ((1, b"12345"), b"12345")
    other.put(0, (1, b"1"))
    assert (one.get(0), other.whole("key"), other.get(0)) == (None, b"12345", (1, b"1"))
    one.put(0, (1, b"12345"))
    assert (one.get(0), other.whole("key"), other.get(0)) == ((1, b"12345"), None, (1, b"1"))


def test_a_whole_piece_is_given_only_to_those_who_are_as_far() -> None:
    shared = SharedChunks(FrameBudget(10), 1)
    assert shared.whole((0, 1)) is None
    shared.keep_whole((0, 1), b"a")
    assert (shared.whole((0, 1)), shared.whole((0, 2))) == (b"a", None)
    shared.keep_whole((0, 2), b"b")
    assert (shared.whole((0, 1)), shared.whole((0, 2))) == (None, b"b")


def test_the_last_subscriber_leaves_nothing_behind() -> None:
    frame_budget = FrameBudget(10)
    shared = SharedChunks(frame_budget, 10)
    shared.put(0, (1, b"12345"))
    shared.keep_whole("key", b"12345")
    shared.close()
    assert (shared.get(0), shared.whole("key")) == (None, None)
    another = SharedChunks(frame_budget, 10)
    another.put(0, (1, b"1234567890"))
    assert another.get(0) is not None
