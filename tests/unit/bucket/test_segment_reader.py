"""Reading segments: the contract of a read, only what is needed, and never an unchecked byte."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.bucket import segment
from durable_sessions.bucket.blocks import decode_footer
from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.fetch import FETCHES_MAX
from durable_sessions.bucket.records import AppendRun, StreamRecords
from durable_sessions.bucket.segment_reader import READS_AHEAD, SegmentReader
from durable_sessions.errors import BucketError, ObjectDamagedError
from tests.unit.bucket.support import (
    PATH,
    Written,
    events,
    expected,
    json_append,
    json_stream,
    raw_append,
    raw_stream,
    read,
    streams,
)

pytestmark = pytest.mark.anyio


@settings(max_examples=150, deadline=None)
@given(streams(), st.integers(1, 400), st.data())
async def test_a_read_returns_what_fits_and_at_least_one(
    records: list[StreamRecords], group_bytes: int, data: st.DataObject
) -> None:
    written = Written(records, group_bytes=group_bytes)
    for stream in records:
        first, after = stream.appends[0].first, stream.appends[-1].next
        start = data.draw(st.integers(first, after - 1))
        stop = data.draw(st.integers(start + 1, after + 5))
        bytes_max = data.draw(st.integers(0, 500))
        found = await read(written.reader, stream.stream, start, stop, bytes_max)
        assert found == expected(stream, start, stop, bytes_max)
    await written.cache.close()


@settings(max_examples=50, deadline=None)
@given(streams(), st.integers(1, 400), st.integers(1, 300))
async def test_reading_on_gives_everything(
    records: list[StreamRecords], group_bytes: int, bytes_max: int
) -> None:
    written = Written(records, group_bytes=group_bytes, cache_bytes=2_000)
    for stream in records:
        position, after, wire = stream.appends[0].first, stream.appends[-1].next, b""
        while position < after:
            data, position = await read(written.reader, stream.stream, position, after, bytes_max)
            wire += data
        assert wire == b"".join(append.data for append in stream.appends)
        assert position == after
    await written.cache.close()


@settings(max_examples=100, deadline=None)
@given(streams(), st.integers(1, 400), st.data())
async def test_appends_come_back_as_they_were_made(
    records: list[StreamRecords], group_bytes: int, data: st.DataObject
) -> None:
    written = Written(records, group_bytes=group_bytes)
    for stream in records:
        appends = [run async for run in written.reader.appends(stream.stream, 0, 2**60)]
        assert appends == stream.appends
        for append in stream.appends:
            position = data.draw(st.integers(append.first, append.next - 1))
            assert await written.reader.append_end(stream.stream, position) == append.next
        start = data.draw(st.integers(stream.appends[0].first, stream.appends[-1].next - 1))
        stop = data.draw(st.integers(start + 1, stream.appends[-1].next))
        clipped = [run async for run in written.reader.appends(stream.stream, start, stop)]
        assert b"".join(run.data for run in clipped) == expected(stream, start, stop, 1 << 30)[0]
        assert (clipped[0].first, clipped[-1].next) == (start, stop)
        assert all(a.next == b.first for a, b in pairwise(clipped))
    await written.cache.close()


async def test_appends_are_given_across_gaps_and_reads_end_at_them() -> None:
    appends = [json_append(5, b"1", b"2"), json_append(7, b"3"), json_append(20, b"4")]
    raw = [raw_append(0, b"abc"), raw_append(10, b"def")]
    written = Written(
        [
            StreamRecords(3, "w", "p", "application/json", appends),
            StreamRecords(4, "w", "q", "text/plain", raw),
        ]
    )
    reader = written.reader
    assert [run async for run in reader.appends(3, 0, 99)] == appends
    assert [run async for run in reader.appends(4, 0, 99)] == raw
    assert [run async for run in reader.appends(4, 2, 11)] == [
        *(AppendRun(2, raw[0].at_ms, (), b"c"), AppendRun(10, raw[1].at_ms, (), b"d"))
    ]
    assert [run async for run in reader.appends(99, 0, 99)] == []
    assert await read(reader, 3, 6, 99, 1_000) == (b"2,3,", 8)
    assert await read(reader, 3, 20, 99, 1_000) == (b"4,", 21)
    assert await read(reader, 4, 1, 99, 1_000) == (b"bc", 3)
    for stream, position in ((3, 4), (3, 8), (3, 21), (4, 3), (99, 0)):
        with pytest.raises(ObjectDamagedError, match=f"does not hold position {position} of stream {stream}"):
            await read(reader, stream, position, 99, 1_000)
        with pytest.raises(ObjectDamagedError):
            await reader.append_end(stream, position)


async def test_segments_with_many_pages_are_read_as_those_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "PAGE_BYTES", 1_000)
    json, raw = json_stream(1, events(300)), raw_stream(2, [b"x" * 99] * 300)
    written = Written([json, raw])
    assert await read(written.reader, 1, 7, 300, 1 << 30) == expected(json, 7, 300, 1 << 30)
    assert await read(written.reader, 2, 7, 29_000, 1 << 30) == expected(raw, 7, 29_000, 1 << 30)
    assert [run async for run in written.reader.appends(1, 0, 300)] == json.appends
    assert [run async for run in written.reader.appends(2, 0, 29_700)] == raw.appends


async def test_an_append_over_many_row_groups_is_one_append() -> None:
    messages = [b'"%04d"' % n for n in range(1_000)]
    written = Written([json_stream(1, [[b"0"], messages, [b"9"]])], group_bytes=500)
    assert len(decode_footer(written.encoded.data[written.info.footer_offset :]).groups) > 10
    assert await written.reader.append_end(1, 0) == 1
    for position in (1, 500, 1_000):
        assert await written.reader.append_end(1, position) == 1_001
    assert await written.reader.append_end(1, 1_001) == 1_002


def ranged(written: Written) -> list[int]:
    """Return the sizes of the ranges that were asked for, and forget them."""
    assert {call.operation for call in written.bucket.calls} <= {"get_range"}
    sizes = [call.size for call in written.bucket.calls]
    written.bucket.calls.clear()
    return sizes


async def test_only_the_footer_and_the_row_groups_that_are_needed_are_fetched() -> None:
    written = Written([json_stream(n, events(400)) for n in range(1, 21)], group_bytes=50_000)
    groups = decode_footer(written.encoded.data[written.info.footer_offset :]).groups
    assert len(groups) > 15
    await written.reader.directory()
    assert ranged(written) == [written.info.bytes - written.info.footer_offset]
    await read(written.reader, 7, 200, 400, 100)
    (fetched,) = ranged(written)
    assert fetched in {group.bytes for group in groups}
    await read(written.reader, 7, 200, 400, 100)
    assert ranged(written) == []


async def test_reading_on_fetches_ahead_and_nothing_twice() -> None:
    written = Written([json_stream(1, events(4_000))], group_bytes=50_000)
    groups = decode_footer(written.encoded.data[written.info.footer_offset :]).groups
    position = 0
    while position < 4_000:
        before = written.cache.misses
        _, position = await read(written.reader, 1, position, 4_000, 50_000)
        await asyncio.sleep(0.02)
        assert written.cache.misses - before <= 2 + 2 * READS_AHEAD
    sizes = ranged(written)
    assert len(sizes) == 1 + len(groups)
    assert sum(sizes) == written.info.bytes - 4


async def test_a_read_that_spans_row_groups_fetches_them_at_once() -> None:
    written = Written([json_stream(1, events(4_000))], group_bytes=50_000)
    await written.reader.directory()
    written.bucket.order("delay", "get_range", times=100, seconds=1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    data, _ = await read(written.reader, 1, 0, 4_000, 400_000)
    assert len(data) > 390_000
    assert loop.time() - began < 5  # and not a second for each of them


async def test_concurrent_reads_share_one_fetch() -> None:
    written = Written([json_stream(1, events(300))])
    written.bucket.order("delay", "get_range", times=100, seconds=0.02)
    found = await asyncio.gather(*(read(written.reader, 1, 0, 300, 1_000) for _ in range(20)))
    assert len(set(found)) == 1
    assert len(ranged(written)) == 2


async def test_a_reader_that_goes_away_does_not_disturb_the_others() -> None:
    written = Written([json_stream(1, events(300))])
    written.bucket.order("delay", "get_range", times=100, seconds=0.05)
    first = asyncio.create_task(read(written.reader, 1, 0, 300, 1_000))
    second = asyncio.create_task(read(written.reader, 1, 0, 300, 1_000))
    await asyncio.sleep(0.01)
    first.cancel()
    data, position = await second
    assert (data, position) == expected(json_stream(1, events(300)), 0, 300, 1_000)
    assert first.cancelled()


async def test_a_changed_byte_anywhere_is_never_served() -> None:
    stream = json_stream(1, events(40, 20))
    other = raw_stream(2, [b"raw bytes " * 20])
    written = Written([stream, other], group_bytes=1_000)
    whole = written.encoded.data
    groups = decode_footer(whole[written.info.footer_offset :]).groups
    assert len(groups) >= 3
    wire = expected(stream, 0, 40, 1 << 30)
    raw = expected(other, 0, 200, 1 << 30)
    for at in range(len(whole)):
        written.memory.objects[PATH] = whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :]
        reader = SegmentReader(written.memory, written.info, BlockCache())
        outcomes = await asyncio.gather(
            read(reader, 1, 0, 40, 1 << 30), read(reader, 2, 0, 200, 1 << 30), return_exceptions=True
        )
        damaged = [isinstance(outcome, ObjectDamagedError) for outcome in outcomes]
        if at < 4:
            assert list(outcomes) == [wire, raw]
        elif at >= written.info.footer_offset:
            assert damaged == [True, True]
        else:
            assert any(damaged)
            assert all(isinstance(o, ObjectDamagedError) or o in (wire, raw) for o in outcomes)


@pytest.mark.parametrize("kind", ["truncate", "corrupt"])
async def test_what_was_spoilt_on_the_way_is_fetched_again(kind: str) -> None:
    stream = json_stream(1, events(300))
    written = Written([stream])
    written.bucket.order("truncate" if kind == "truncate" else "corrupt", "get_range", times=1)
    assert await read(written.reader, 1, 0, 300, 1_000) == expected(stream, 0, 300, 1_000)
    written.bucket.order("corrupt", "get_range", times=1_000)
    fresh = SegmentReader(written.bucket, written.info, BlockCache())
    written.bucket.calls.clear()
    with pytest.raises(ObjectDamagedError, match="have changed"):
        await fresh.read(1, 0, 300, 1_000)
    assert len(written.bucket.calls) == FETCHES_MAX


async def test_a_failure_is_told_and_not_remembered() -> None:
    stream = json_stream(1, events(300))
    written = Written([stream])
    await written.reader.directory()
    written.bucket.order("fail", "get_range")
    with pytest.raises(BucketError, match="ordered to fail"):
        await read(written.reader, 1, 0, 300, 1_000)
    assert await read(written.reader, 1, 0, 300, 1_000) == expected(stream, 0, 300, 1_000)


async def test_a_segment_that_is_missing_or_shorter_is_damage() -> None:
    written = Written([json_stream(1, events(300))])
    whole = written.encoded.data
    written.memory.objects[PATH] = whole[:-10]
    with pytest.raises(ObjectDamagedError, match=r"came as \d+ bytes, not \d+"):
        await written.reader.directory()
    del written.memory.objects[PATH]
    with pytest.raises(ObjectDamagedError, match="it is missing"):
        await written.reader.directory()


@pytest.mark.parametrize("seed", range(10))
async def test_under_seeded_faults_every_answer_is_right_or_an_error(seed: int) -> None:
    stream = json_stream(1, events(2_000))
    written = Written([stream, raw_stream(2, [b"x" * 999] * 50)], group_bytes=20_000, cache_bytes=100_000)
    faulty = type(written.bucket)(written.memory, seed=seed, rate=0.3)
    reader = SegmentReader(faulty, written.info, written.cache)
    right = 0
    for start in range(0, 2_000, 50):
        try:
            assert await read(reader, 1, start, 2_000, 5_000) == expected(stream, start, 2_000, 5_000)
            right += 1
        except (BucketError, ObjectDamagedError):
            continue
    assert right
    await written.cache.close()
