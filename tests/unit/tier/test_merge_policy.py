"""Which segments are merged: a pure choice, whose promises hold for whatever there is."""

from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.bucket.manifest import SegmentInfo
from durable_sessions.limits import DEFAULT_LIMITS, KIB, MIB, Limits
from durable_sessions.tier.merge_policy import Candidate, choose, day_of, rewrite_at_ms

DAY_MS = 24 * 3600 * 1000
NOW = 20_600 * DAY_MS + 1_000
TODAY, YESTERDAY, BEFORE = "2026-05-27", "2026-05-26", "2026-05-25"
LIMITS = replace(DEFAULT_LIMITS, compaction_segments_min=4)
HALF_MS = int((LIMITS.delete_within_seconds - LIMITS.garbage_grace_seconds) * 500)


def candidate(
    number: int, size: int = 10 * KIB, day: str = TODAY, dirty: int | None = None, records: int | None = None
) -> Candidate:
    info = SegmentInfo(
        path=f"events/date={day}/00-{number:012d}.parquet",
        bytes=size,
        rows=10,
        sha256="",
        footer_offset=0,
        footer_sha256="",
        first_at_ms=number,
        last_at_ms=number,
        streams=1,
        stream_min=1,
        stream_max=1,
    )
    return Candidate(info, 4 * size if records is None else records, dirty)


def numbers(found: list[SegmentInfo]) -> list[int]:
    return [info.first_at_ms for info in found]


def chosen(candidates: list[Candidate], now_ms: int = NOW, limits: Limits = LIMITS) -> list[int]:
    return numbers(choose(candidates, now_ms, limits))


def test_small_ones_are_merged_when_there_are_enough_of_similar_size() -> None:
    tiny = [candidate(number) for number in range(3)]
    middling = [candidate(number, 300 * KIB) for number in range(10, 13)]
    large = [candidate(number, 5 * MIB) for number in range(20, 23)]
    assert chosen([*tiny, *middling, *large]) == []
    assert chosen([*tiny, *middling, *large, candidate(3)]) == [0, 1, 2, 3]
    assert chosen([*tiny, *middling, *large, candidate(13, 300 * KIB)]) == [10, 11, 12, 13]
    assert chosen([*tiny, *middling, *large, candidate(23, 5 * MIB)]) == [20, 21, 22, 23]
    assert chosen([*tiny, *middling, *large, candidate(24, 8 * MIB)]) == []


def test_of_a_date_that_is_over_all_small_ones_go_together() -> None:
    mixed = [candidate(1, day=BEFORE), candidate(2, 5 * MIB, day=BEFORE)]
    assert chosen(mixed) == [1, 2]
    assert chosen(mixed[:1]) == []
    assert chosen([one._replace(info=candidate(3, day=YESTERDAY).info) for one in mixed]) == []


def test_what_compresses_well_counts_as_the_memory_that_it_takes() -> None:
    half = LIMITS.compaction_memory_bytes_max // 2
    assert chosen([candidate(number, records=half) for number in range(9)]) == []
    assert chosen([candidate(number, records=half - 10_000) for number in range(9)]) == [0, 1]


def test_dirty_ones_wait_for_half_of_the_time_and_then_go_first() -> None:
    assert rewrite_at_ms(0, LIMITS) == HALF_MS
    assert rewrite_at_ms(7, replace(LIMITS, delete_within_seconds=0)) == 7, "at once, if there is no time"
    dirty = [candidate(9, 20 * MIB, dirty=NOW - HALF_MS), candidate(8, 20 * MIB, BEFORE, dirty=NOW)]
    small = [candidate(number) for number in range(5)]
    assert chosen([*small, *dirty], NOW - 1) == [0, 1, 2, 3, 4]
    assert chosen([*small, *dirty]) == [9]
    assert chosen([*small, candidate(7, dirty=NOW), *dirty]) == [9, 7], "others of the date are taken along"
    assert chosen(dirty, NOW + HALF_MS) == [9], "the oldest is the most urgent"
    assert chosen(dirty[1:], NOW + HALF_MS) == [8]


candidates = st.lists(
    st.builds(
        candidate,
        st.integers(0, 10_000),
        st.integers(1, 40 * MIB) | st.integers(1, 100 * KIB),
        st.sampled_from([TODAY, YESTERDAY, BEFORE]),
        st.none() | st.integers(NOW - 2 * HALF_MS, NOW),
        st.integers(1, 200 * MIB) | st.integers(1, MIB),
    ),
    max_size=40,
    unique_by=lambda one: one.info.first_at_ms,
)


@given(candidates)
def test_a_choice_is_of_one_date_within_the_bounds_and_worth_it(known: list[Candidate]) -> None:
    found = choose(known, NOW, LIMITS)
    by_path = {one.info.path: one for one in known}
    ones = [by_path[info.path] for info in found]
    assert len({day_of(info.path) for info in found}) <= 1
    assert len({info.path for info in found}) == len(found)
    if len(ones) > 1:
        assert sum(one.info.bytes for one in ones) <= LIMITS.compaction_bytes_max
        assert sum(one.cost for one in ones) <= LIMITS.compaction_memory_bytes_max
    due = [one for one in known if one.dirty_since_ms is not None and one.dirty_since_ms + HALF_MS <= NOW]
    if due:
        assert ones[0].dirty_since_ms == min(one.dirty_since_ms or 0 for one in due)
        assert all(one.dirty_since_ms is not None for one in ones)
    else:
        assert len(ones) != 1
        assert all(one.info.bytes < LIMITS.compaction_small_bytes_max for one in ones)


@given(candidates)
def test_merging_comes_to_an_end_with_few_segments_per_date(known: list[Candidate]) -> None:
    """Each merge makes one of several, or cleans a dirty one; so there is always an end to it."""
    now, steps = NOW + 2 * HALF_MS, 0
    while found := choose(known, now, LIMITS):
        merged = [one for one in known if one.info in found]
        steps += 1
        assert steps <= 80
        size, records = sum(one.info.bytes for one in merged), sum(one.record_bytes for one in merged)
        known = [one for one in known if one.info not in found]
        rows = sum(one.info.rows for one in merged)
        made = candidate(20_000 + steps, size, str(day_of(found[0].path)), records=records)
        known.append(made._replace(info=msgspec.structs.replace(made.info, rows=rows)))
    for day in (TODAY, YESTERDAY, BEFORE):
        small = [
            one
            for one in known
            if str(day_of(one.info.path)) == day
            and one.info.bytes < LIMITS.compaction_small_bytes_max
            and one.cost <= LIMITS.compaction_memory_bytes_max // 2
        ]
        assert len(small) <= 3 * (LIMITS.compaction_segments_min - 1)
