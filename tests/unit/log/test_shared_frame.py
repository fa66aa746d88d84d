"""Frames of a shared log: what was written is read back, and anything else is noticed."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.errors import FrameDamagedError
from durable_sessions.log.shared_frame import (
    HEADER_BYTES,
    BadFrameError,
    FrameKind,
    FrameReader,
    SharedFrame,
    encode,
    split,
)

LINEAGE = "log_" + "0123456789abcdef" * 2
OTHER = "log_" + "f" * 32
PAGE = Path(__file__).parents[3] / "docs" / "formats" / "shared-log.md"

Slots = dict[int, bytes]


def written(entries: list[tuple[FrameKind, bytes]], after: int = 0, lineage: str = LINEAGE) -> Slots:
    """Return the slots of a log with these frames; claims give themselves their epoch."""
    slots: Slots = {}
    epoch = chain = 0
    for position, (kind, payload) in enumerate(entries, after + 1):
        epoch = position if kind is FrameKind.CLAIM else epoch
        slots[position] = encode(kind, lineage, 3, epoch, position - 1, payload, chain)
        chain = SharedFrame.decode(slots[position]).chain
    return slots


def read(slots: Slots, after: int = 0, *, trimmed: bool = False) -> list[tuple[int, bytes]]:
    reader = FrameReader("memory", LINEAGE, 3, after, trimmed=trimmed)
    taken = [reader.take(position, data) for position, data in sorted(slots.items())]
    return [batch for batch in taken if batch is not None]


def log_of(batches: list[bytes], payload_bytes_max: int = 8, after: int = 0) -> Slots:
    entries = [(FrameKind.CLAIM, b"me")]
    for batch in batches:
        entries += split(batch, payload_bytes_max)
    return written(entries, after)


BATCHES = st.lists(st.binary(max_size=40), min_size=1, max_size=6)


@settings(deadline=None)
@given(BATCHES, st.integers(1, 50), st.sampled_from([0, 7, 2**40]))
def test_batches_come_back_as_they_were(batches: list[bytes], most: int, after: int) -> None:
    found = read(log_of(batches, most, after), after)
    assert [payload for _, payload in found] == batches
    assert [position for position, _ in found] == sorted({position for position, _ in found})


@settings(max_examples=300, deadline=None)
@given(BATCHES, st.data())
def test_no_changed_bit_goes_unnoticed(batches: list[bytes], data: st.DataObject) -> None:
    slots = log_of(batches)
    position = data.draw(st.sampled_from(sorted(slots)))
    frame = bytearray(slots[position])
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    slots[position] = bytes(frame)
    with pytest.raises(FrameDamagedError):
        read(slots)


@settings(deadline=None)
@given(BATCHES, st.data())
def test_no_missing_cut_or_misplaced_frame_goes_unnoticed(batches: list[bytes], data: st.DataObject) -> None:
    slots = log_of([*batches, b"last"])
    position = data.draw(st.sampled_from(sorted(slots)[:-1]))
    fault = data.draw(st.sampled_from(["missing", "cut", "misplaced"]))
    frame = slots.pop(position)
    if fault == "cut":
        slots[position] = frame[: data.draw(st.integers(0, len(frame) - 1))]
    if fault == "misplaced":
        slots[position] = slots[data.draw(st.sampled_from(sorted(slots)))]
    with pytest.raises(FrameDamagedError):
        read(slots)


@settings(deadline=None)
@given(BATCHES, st.data())
def test_after_a_trim_the_first_frame_says_what_came_before(
    batches: list[bytes], data: st.DataObject
) -> None:
    slots = log_of(batches, 100)
    first = data.draw(st.sampled_from(sorted(slots)))
    kept = {position: frame for position, frame in slots.items() if position >= first}
    assert read(kept, first - 1, trimmed=True) == [batch for batch in read(slots) if batch[0] >= first]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_rubbish_is_no_frame(data: bytes) -> None:
    with pytest.raises(BadFrameError):
        SharedFrame.decode(data)


def swapped_history() -> Slots:
    """Return a log of which one frame was replaced by a valid one of another history."""
    slots = log_of([b"one", b"two", b"three"])
    slots[3] = log_of([b"one", b"TWO"])[3]
    return slots


def of_an_old_epoch() -> Slots:
    slots = written([(FrameKind.CLAIM, b"a"), (FrameKind.CLAIM, b"b")])
    chain = SharedFrame.decode(slots[2]).chain
    slots[3] = encode(FrameKind.BATCH, LINEAGE, 3, 1, 2, b"late", chain)
    return slots


FAULTS: dict[str, tuple[Callable[[], Slots], str]] = {
    "another lineage": (
        lambda: written([(FrameKind.CLAIM, b"")], lineage=OTHER),
        "belongs to partition 3 of",
    ),
    "another history": (swapped_history, "chain of checksums is broken"),
    "an old epoch": (of_an_old_epoch, "of epoch 1, but the last claim is 2"),
    "a batch before any claim": (
        lambda: {1: encode(FrameKind.BATCH, LINEAGE, 3, 5, 0, b"", 0)},
        "of epoch 5, but the last claim is 0",
    ),
    "a claim of an epoch that is not its own": (
        lambda: {1: encode(FrameKind.CLAIM, LINEAGE, 3, 5, 0, b"", 0)},
        "not its position",
    ),
    "a batch after a release": (
        lambda: written([(FrameKind.CLAIM, b""), (FrameKind.RELEASE, b""), (FrameKind.BATCH, b"")]),
        "of epoch 1",
    ),
    "a batch among parts": (
        lambda: written([(FrameKind.CLAIM, b""), (FrameKind.PART, b""), (FrameKind.BATCH, b"")]),
        "without the last one",
    ),
    "a last part alone": (
        lambda: written([(FrameKind.CLAIM, b""), (FrameKind.LAST_PART, b"")]),
        "parts before it are missing",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_belong_there_is_named(fault: str) -> None:
    slots, problem = FAULTS[fault]
    with pytest.raises(FrameDamagedError, match=problem):
        read(slots())


def test_parts_that_a_claim_follows_never_were() -> None:
    entries = [(FrameKind.CLAIM, b"a"), (FrameKind.PART, b"half"), (FrameKind.CLAIM, b"b")]
    assert read(written([*entries, (FrameKind.BATCH, b"whole")])) == [(4, b"whole")]


def test_claims_proofs_and_releases_carry_no_batch() -> None:
    entries = [
        (FrameKind.CLAIM, b"a"),
        (FrameKind.PROOF, b""),
        (FrameKind.BATCH, b""),
        (FrameKind.RELEASE, b"b"),
    ]
    assert read(written([*entries, (FrameKind.CLAIM, b"b")])) == [(3, b"")]


@pytest.mark.parametrize(("size", "frames"), [(0, 1), (8, 1), (9, 2), (16, 2), (17, 3)])
def test_a_batch_is_cut_where_a_frame_is_full(size: int, frames: int) -> None:
    assert len(split(bytes(size), 8)) == frames


def test_a_name_that_is_no_lineage_is_refused() -> None:
    with pytest.raises(ValueError, match="no lineage"):
        encode(FrameKind.BATCH, "log_short", 0, 1, 0, b"", 0)


def test_the_example_of_the_page_is_what_is_written() -> None:
    shown = re.findall(r"^    [0-9a-f]{2}  ((?:[0-9a-f]{2} ?)+)", PAGE.read_text(), re.MULTILINE)
    slots = written([(FrameKind.CLAIM, b"node"), (FrameKind.BATCH, b"batch")])
    assert bytes.fromhex("".join(shown)) == slots[2]
    assert len(slots[2]) == HEADER_BYTES + 5
