from pathlib import Path

import pytest

from durable_sessions.errors import LogDamagedError, LogError, LogVersionError
from durable_sessions.log import NEW_LOG_GAP, recovery, segment
from durable_sessions.log.frame import FRAME_BYTES, HEADER_BYTES, SegmentHeader
from durable_sessions.testing.disk import FaultyDisk
from tests.unit.log.support import FOLDER, opened, stored, written

pytestmark = pytest.mark.anyio

SALT = 0x1234_5678_9ABC_DEF0
FRAME = FRAME_BYTES + 5


async def refused(disk: FaultyDisk, path: Path, byte: int) -> LogDamagedError:
    """Check that neither opening nor replaying passes the damage, and that no file is changed."""
    before = disk.contents()
    for _ in range(2):
        with pytest.raises(LogDamagedError) as caught:
            await stored(FOLDER, disk)
        assert (caught.value.file, caught.value.byte) == (str(path), byte)
        assert disk.contents() == before
    return caught.value


def flipped(data: bytes, byte: int, mask: int = 0x40) -> bytes:
    return data[:byte] + bytes([data[byte] ^ mask]) + data[byte + 1 :]


@pytest.fixture(params=[64, 4 * 1024 * 1024], ids=["small-pieces", "large-pieces"])
def _pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "PIECE_BYTES", request.param)
    monkeypatch.setattr(recovery, "PIECE_BYTES", request.param)


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize(
    "rest", [b"", b"\0", b"\0" * 700, b"\xff" * 100], ids=["end", "zero", "zeros", "rubbish"]
)
async def test_a_torn_end_is_cut_at_every_byte(rest: bytes) -> None:
    disk = FaultyDisk()
    batches = await written(FOLDER, [b"first", b"other", b"l" * 90], disk)
    (path, whole), *_ = disk.contents().items()
    start = len(whole) - 90 - FRAME_BYTES
    for cut in range(start, len(whole)):
        disk.replace(path, whole[:cut] + rest)
        assert await stored(FOLDER, disk) == batches[:2]
        disk.crash()
        assert disk.contents() == {path: whole[:start]}
    disk.replace(path, whole[:start])
    more = await written(FOLDER, [b"more"], disk)
    assert more[0][0] == batches[2][0]
    assert await stored(FOLDER, disk) == batches[:2] + more


async def test_any_flipped_byte_in_the_last_frame_is_taken_for_torn() -> None:
    disk = FaultyDisk()
    batches = await written(FOLDER, [b"first", b"other", b"last."], disk)
    (path, whole), *_ = disk.contents().items()
    for byte in range(len(whole) - FRAME, len(whole)):
        disk.replace(path, flipped(whole, byte))
        assert await stored(FOLDER, disk) == batches[:2]


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize("mask", [0x01, 0x80])
async def test_any_flipped_byte_before_the_last_frame_is_refused(mask: int) -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first", b"other", b"l" * 90, b"last."], disk)
    (path, whole), *_ = disk.contents().items()
    starts = [HEADER_BYTES, HEADER_BYTES + FRAME, HEADER_BYTES + 2 * FRAME, len(whole) - FRAME]
    for byte in range(len(whole) - FRAME):
        disk.replace(path, flipped(whole, byte, mask))
        damaged = max((start for start in starts if start <= byte), default=0)
        await refused(disk, path, damaged)


async def test_any_flipped_byte_before_the_newest_segment_is_refused() -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first", b"other"], disk)
    await written(FOLDER, [b"newer"], disk)
    (path, whole), *_ = disk.contents().items()
    for byte in range(len(whole)):
        disk.replace(path, flipped(whole, byte))
        damaged = max(start for start in (0, HEADER_BYTES, HEADER_BYTES + FRAME) if start <= byte)
        await refused(disk, path, damaged)


async def test_a_missing_middle_frame_is_refused() -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first", b"other", b"last."], disk)
    (path, whole), *_ = disk.contents().items()
    disk.replace(path, whole[: HEADER_BYTES + FRAME] + bytes(FRAME) + whole[HEADER_BYTES + 2 * FRAME :])
    await refused(disk, path, HEADER_BYTES + FRAME)


async def test_a_payload_that_imitates_frames_does_not_turn_a_torn_end_into_damage() -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first", b"other"], disk)
    (path, whole), *_ = disk.contents().items()
    disk.replace(path, None)
    batches = await written(FOLDER, [b"first", whole[HEADER_BYTES:] * 3 + b"end"], disk)
    (path, whole), *_ = disk.contents().items()
    disk.replace(path, whole[:-1])
    assert await stored(FOLDER, disk) == batches[:1]


async def test_a_missing_segment_is_refused() -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first", b"other", b"third", b"last."], disk, segment_bytes_max=1)
    paths = list(disk.contents())
    kept = disk.contents()[paths[1]]
    disk.replace(paths[1], None)
    error = await refused(disk, paths[0], HEADER_BYTES + FRAME)
    assert paths[2].name in str(error)
    disk.replace(paths[1], kept)
    assert len(await stored(FOLDER, disk)) == 4


@pytest.mark.parametrize(("change", "byte"), [(-1, HEADER_BYTES + FRAME - 1), (+1, HEADER_BYTES + FRAME)])
async def test_an_older_segment_of_another_length_is_refused(change: int, byte: int) -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first", b"last."], disk, segment_bytes_max=1)
    path, whole = next(iter(disk.contents().items()))
    disk.replace(path, whole[:change] if change < 0 else whole + b"\0")
    await refused(disk, path, byte)


async def test_an_unknown_version_is_refused() -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first", b"last."], disk, segment_bytes_max=1)
    path, last = list(disk.contents().items())[-1]
    for content in (last[HEADER_BYTES:], b""):
        disk.replace(path, SegmentHeader(FRAME, SALT, version=2).encode() + content)
        before = disk.contents()
        with pytest.raises(LogVersionError, match="version 2; this program reads version 1"):
            await stored(FOLDER, disk)
        assert disk.contents() == before


async def test_a_renamed_segment_is_refused() -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first"], disk)
    (path, whole), *_ = disk.contents().items()
    disk.replace(path, None)
    renamed = path.with_name(f"{7:020d}.log")
    disk.replace(renamed, whole)
    await refused(disk, renamed, 16)


async def test_other_files_are_left_alone() -> None:
    disk = FaultyDisk()
    batches = await written(FOLDER, [b"first"], disk)
    disk.replace(FOLDER / "lost+found.log", b"rubbish")
    disk.replace(FOLDER / f"{0:020d}.log.copy", b"rubbish")
    assert await stored(FOLDER, disk) == batches
    assert len(disk.contents()) == 3


HALF_CREATED = [SegmentHeader(FRAME, SALT).encode()[:size] for size in range(HEADER_BYTES + 1)]


@pytest.mark.parametrize("content", [*HALF_CREATED, bytes(HEADER_BYTES)], ids=lambda data: str(len(data)))
async def test_a_newest_segment_without_frames_is_removed(content: bytes) -> None:
    disk = FaultyDisk()
    batches = await written(FOLDER, [b"first"], disk)
    path = FOLDER / f"{FRAME:020d}.log"
    disk.replace(path, content)
    assert await stored(FOLDER, disk) == batches
    disk.crash()
    assert path not in disk.contents()
    batches += await written(FOLDER, [b"again"], disk)
    assert path in disk.contents()
    assert await stored(FOLDER, disk) == batches


async def test_a_newest_segment_whose_only_frame_is_torn_is_removed() -> None:
    disk = FaultyDisk()
    batches = await written(FOLDER, [b"first", b"torn."], disk, segment_bytes_max=1)
    path, whole = list(disk.contents().items())[-1]
    disk.replace(path, whole[:-1])
    assert await stored(FOLDER, disk) == batches[:1]
    disk.crash()
    assert path not in disk.contents()


async def test_a_broken_header_before_frames_is_refused_even_in_the_newest_segment() -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first", b"last."], disk, segment_bytes_max=1)
    path, whole = list(disk.contents().items())[-1]
    for byte in range(HEADER_BYTES):
        disk.replace(path, flipped(whole, byte))
        await refused(disk, path, 0)


async def test_a_half_created_segment_that_is_not_the_newest_is_refused() -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first", b"last."], disk, segment_bytes_max=1)
    path = next(iter(disk.contents()))
    disk.replace(path, b"")
    await refused(disk, path, 0)


async def test_the_proof_that_an_older_segment_is_whole_is_not_thrown_away() -> None:
    disk = FaultyDisk()
    await written(FOLDER, [b"first", b"other"], disk)
    path, whole = next(iter(disk.contents().items()))
    disk.replace(FOLDER / f"{2 * FRAME:020d}.log", b"")
    disk.replace(path, flipped(whole, len(whole) - 1))
    await refused(disk, path, HEADER_BYTES + FRAME)


async def test_an_empty_segment_without_its_predecessors_is_refused() -> None:
    disk = FaultyDisk()
    path = FOLDER / f"{FRAME:020d}.log"
    disk.replace(path, SegmentHeader(FRAME, SALT).encode())
    await refused(disk, path, 0)


async def test_the_first_segment_may_begin_anywhere() -> None:
    disk = FaultyDisk()
    batches = await written(FOLDER, [b"first", b"other", b"third"], disk, segment_bytes_max=1)
    disk.replace(next(iter(disk.contents())), None)
    assert await stored(FOLDER, disk) == batches[1:]


async def test_damage_that_comes_while_open_is_found_by_replay() -> None:
    disk = FaultyDisk()
    async with opened(FOLDER, disk) as log:
        position = await log.append(b"first")
        await log.append(b"other")
        path, whole = next(iter(disk.contents().items()))
        disk.replace(path, flipped(whole, HEADER_BYTES + FRAME))
        batches = log.replay()
        assert await anext(batches) == (position, b"first")
        with pytest.raises(LogDamagedError, match=f"damaged at byte {HEADER_BYTES + FRAME}:"):
            await anext(batches)


@pytest.mark.parametrize("operation", ["read", "write", "sync", "sync_directory", "truncate"])
async def test_a_disk_that_fails_during_recovery_refuses_to_open(operation: str) -> None:
    disk = FaultyDisk()
    batches = await written(FOLDER, [b"first", b"torn."], disk)
    path, whole = next(iter(disk.contents().items()))
    disk.replace(path, whole[:-1])
    disk.fail(operation)
    with pytest.raises(LogError, match="cannot be opened"):
        await stored(FOLDER, disk)
    assert await stored(FOLDER, disk) == batches[:1]


async def test_a_crash_in_the_first_append_of_a_log_that_begins_anew_is_no_damage() -> None:
    disk = FaultyDisk()
    for base in (NEW_LOG_GAP, 3 * NEW_LOG_GAP + 7):
        disk.replace(FOLDER / segment.segment_name(base), SegmentHeader(base, SALT).encode())
        assert await stored(FOLDER, disk) == []
        assert not disk.contents()
    path = FOLDER / segment.segment_name(NEW_LOG_GAP - 1)
    disk.replace(path, SegmentHeader(NEW_LOG_GAP - 1, SALT).encode())
    await refused(disk, path, 0)
