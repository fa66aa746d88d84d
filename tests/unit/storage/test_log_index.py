"""The index of unflushed appends: which places in the log have a position, and what a flush removes."""

from durable_sessions.log import Extent
from durable_sessions.storage.log_index import RecordIndex

FIRST = Extent(100, 0, 10)
SECOND = Extent(100, 10, 5)
THIRD = Extent(200, 0, 7)


def three_appends() -> RecordIndex:
    index = RecordIndex()
    index.add(0, *FIRST, 1)
    index.add(4, *SECOND, 2)
    index.add(6, *THIRD, 3)
    return index


def test_an_empty_index_has_no_places() -> None:
    index = RecordIndex()
    assert len(index) == 0
    assert list(index.extents(0)) == []
    index.forget(1_000)
    assert len(index) == 0


def test_a_position_is_found_in_the_append_that_contains_it() -> None:
    index = three_appends()
    assert list(index.extents(0)) == [(FIRST, 1), (SECOND, 2), (THIRD, 3)]
    assert list(index.extents(3)) == [(FIRST, 1), (SECOND, 2), (THIRD, 3)]
    assert list(index.extents(4)) == [(SECOND, 2), (THIRD, 3)]
    assert list(index.extents(5)) == [(SECOND, 2), (THIRD, 3)]
    assert list(index.extents(6)) == [(THIRD, 3)]


def test_an_append_ends_where_the_next_begins_and_the_last_at_the_tail() -> None:
    index = three_appends()
    assert [index.append_end(position, 9) for position in (0, 3, 4, 5, 6, 8)] == [4, 4, 6, 6, 9, 9]


def test_a_flush_removes_all_appends_of_its_batches_and_no_others() -> None:
    index = three_appends()
    index.forget(99)
    assert len(index) == 3
    index.forget(100)
    assert list(index.extents(6)) == [(THIRD, 3)]
    index.forget(200)
    assert len(index) == 0


def test_an_index_can_be_used_again_after_everything_was_flushed() -> None:
    index = three_appends()
    index.forget(200)
    index.add(9, *Extent(300, 0, 2), 4)
    assert list(index.extents(9)) == [(Extent(300, 0, 2), 4)]
    assert index.append_end(9, 11) == 11
