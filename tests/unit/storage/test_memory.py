from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.storage import memory
from durable_sessions.storage.memory import HotRecords, MemoryTier

sizes = st.lists(st.integers(1, 300), min_size=1, max_size=4)


@given(st.lists(sizes, min_size=1, max_size=60), st.data())
def test_json_records_come_back_as_they_went_in(appends: list[list[int]], data: st.DataObject) -> None:
    hot, messages = HotRecords(json=True), list[bytes]()
    first = 5
    for number, lengths in enumerate(appends):
        pieces = [bytes([number % 256]) * length for length in lengths]
        hot.append(first + len(messages), b"".join(pieces), tuple(lengths))
        messages += pieces
    start = data.draw(st.integers(0, len(messages) - 1))
    stop = data.draw(st.integers(start + 1, len(messages)))
    bytes_max = data.draw(st.integers(1, 2000))
    found, following = hot.cut(first + start, first + stop, bytes_max)
    got = messages[start : following - first]
    assert b"".join(found) == b"".join(got)
    assert len(got) >= 1
    assert following <= first + stop
    assert len(got) == 1 or sum(map(len, got)) <= bytes_max
    if following < first + stop:
        assert sum(map(len, messages[start : following - first + 1])) > bytes_max, "as much as fits"


@given(st.lists(st.binary(min_size=1, max_size=50_000), min_size=1, max_size=6), st.data())
def test_bytes_come_back_across_blocks(appends: list[bytes], data: st.DataObject) -> None:
    hot, whole = HotRecords(json=False), b""
    for piece in appends:
        hot.append(len(whole), piece, ())
        whole += piece
    start = data.draw(st.integers(0, len(whole) - 1))
    stop = data.draw(st.integers(start + 1, len(whole)))
    bytes_max = data.draw(st.integers(1, 200_000))
    found, following = hot.cut(start, stop, bytes_max)
    assert b"".join(found) == whole[start:following]
    assert following == min(stop, start + bytes_max)


def test_the_bound_holds_and_the_least_recently_written_leave_first() -> None:
    tier = MemoryTier(bytes_max=7 * memory.BLOCK_BYTES)
    streams = {number: HotRecords(json=False) for number in range(3)}
    block = b"x" * memory.BLOCK_BYTES
    for number in range(3):
        for turn in range(3):
            tier.append(number, streams[number], turn * len(block), block, ())
    assert tier.bytes_used <= 7 * memory.BLOCK_BYTES
    assert not streams[0].blocks
    assert streams[1].holds(0)
    assert streams[2].holds(0)
    tier.forget(2)
    assert tier.bytes_used == sum(b.cost for number in range(2) for b in streams[number].blocks)


def test_one_large_stream_loses_its_oldest_records() -> None:
    tier = MemoryTier(bytes_max=3 * memory.BLOCK_BYTES)
    hot = HotRecords(json=False)
    for turn in range(5):
        tier.append(1, hot, turn * memory.BLOCK_BYTES, b"x" * memory.BLOCK_BYTES, ())
    assert not hot.holds(0)
    assert hot.holds(4 * memory.BLOCK_BYTES)
