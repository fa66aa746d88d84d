"""Reading a damaged log: everything valid is found, everything else is named."""

import struct
from pathlib import Path

import pytest

from durable_sessions.log.frame import HEADER_BYTES, VERSION, Batch, SegmentHeader
from durable_sessions.log.scan import LogScan, scan
from tests.unit.log.support import segment_files, written

pytestmark = pytest.mark.anyio

PAYLOADS = [b"batch %d " % number * (number + 1) for number in range(12)]


@pytest.fixture
async def batches(tmp_path: Path) -> list[Batch]:
    return await written(tmp_path / "log", PAYLOADS, segment_bytes_max=200)


def read(directory: Path) -> tuple[list[Batch], LogScan]:
    log = scan(directory)
    return [(frame.position, frame.payload) for frame in log.frames()], log


async def test_a_sound_log(tmp_path: Path, batches: list[Batch]) -> None:
    found, log = read(tmp_path / "log")
    assert found == batches
    assert len(log.files) == 4
    assert log.damage == []
    assert log.torn is None
    assert read(tmp_path / "nothing") == ([], LogScan([], log.disk))


async def test_every_single_byte(tmp_path: Path, batches: list[Batch]) -> None:
    """A flipped byte costs at most the batch that it is in, and in a header none at all."""
    files = segment_files(tmp_path / "log")
    for path in files:
        content = path.read_bytes()
        for at in range(len(content)):
            path.write_bytes(content[:at] + bytes([content[at] ^ 0x5A]) + content[at + 1 :])
            found, log = read(tmp_path / "log")
            places = [*log.damage, *([] if log.torn is None else [log.torn])]
            assert [place.path for place in places] == [path]
            if at < HEADER_BYTES:
                assert found == batches, f"{path.name} byte {at}"
            else:
                assert len(found) == len(batches) - 1
                assert set(found) < set(batches)
                assert places[0].byte <= at < places[0].byte + places[0].length
            if path != files[-1]:
                assert log.torn is None
        path.write_bytes(content)


@pytest.mark.parametrize("low_half_too", [False, True])
async def test_a_salt_that_was_overwritten_is_found_in_the_frames(
    tmp_path: Path, batches: list[Batch], low_half_too: bool
) -> None:
    path = segment_files(tmp_path / "log")[1]
    content = path.read_bytes()
    damaged = content[:24] + bytes(8) if low_half_too else content[:28] + bytes(4)
    path.write_bytes(damaged + content[HEADER_BYTES:])
    assert read(tmp_path / "log")[0] == batches


async def test_a_header_that_is_gone_altogether(tmp_path: Path, batches: list[Batch]) -> None:
    """With two frames the salt can still be told and confirmed, with one it can not."""
    path = segment_files(tmp_path / "log")[0]
    path.write_bytes(bytes(HEADER_BYTES) + path.read_bytes()[HEADER_BYTES:])
    assert read(tmp_path / "log")[0] == batches
    await written(tmp_path / "one", [b"only batch"])
    (path,) = segment_files(tmp_path / "one")
    path.write_bytes(bytes(HEADER_BYTES) + path.read_bytes()[HEADER_BYTES:])
    found, log = read(tmp_path / "one")
    assert found == []
    assert (log.damage[0].byte, log.damage[0].length) == (0, path.stat().st_size)


async def test_a_missing_segment_is_a_gap_with_its_length(tmp_path: Path, batches: list[Batch]) -> None:
    before, missing, *_ = segment_files(tmp_path / "log")
    lost = missing.stat().st_size - HEADER_BYTES
    missing.unlink()
    found, log = read(tmp_path / "log")
    assert set(found) < set(batches)
    (damage,) = log.damage
    assert (damage.path, damage.byte, damage.length) == (before, before.stat().st_size, lost)


async def test_a_newer_version_is_not_read(tmp_path: Path, batches: list[Batch]) -> None:
    path = segment_files(tmp_path / "log")[0]
    content = path.read_bytes()
    salt = struct.unpack("<Q", content[24:32])[0]
    path.write_bytes(SegmentHeader(0, salt, VERSION + 1).encode() + content[HEADER_BYTES:])
    found, log = read(tmp_path / "log")
    assert len(found) < len(batches)
    assert log.files[0].version == VERSION + 1
    assert "format version 2" in log.damage[0].problem


@pytest.mark.parametrize("length", [0, 20, HEADER_BYTES])
async def test_a_creation_that_was_not_completed_is_no_damage(
    tmp_path: Path, batches: list[Batch], length: int
) -> None:
    newest = segment_files(tmp_path / "log")[-1]
    next_base = int(newest.stem) + newest.stat().st_size - HEADER_BYTES
    newest.with_name(f"{next_base:020d}.log").write_bytes(bytes(length))
    found, log = read(tmp_path / "log")
    assert found == batches
    assert log.damage == []
    assert log.torn is not None
