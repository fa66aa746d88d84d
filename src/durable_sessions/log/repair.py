"""Replaces segments of a log so that a crash at any point loses nothing.

After a crash the log is unchanged, or replaced as intended, or refuses to open until the replacement is
completed.

New segments are written beside the old ones under names that nothing reads. Then a list of what is removed
and added is written to the directory, under a name that keeps every server from opening it. From then on the
replacement can only be completed, never undone.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from durable_sessions.errors import LogError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.log.file import random_salt
from durable_sessions.log.frame import HEADER_BYTES, FrameCodec, SegmentHeader
from durable_sessions.log.scan import REPAIR_NAME
from durable_sessions.log.segment import segment_name

_STAGED = ".repaired"
_NOTICE = "A repair of this log was interrupted. Run `durable-sessions repair --yes` to complete it."


class _Replacement(msgspec.Struct, frozen=True):
    notice: str
    removed: list[str]
    added: list[str]


def interrupted(directory: Path) -> bool:
    """Return whether a replacement was begun and not completed."""
    return (directory / REPAIR_NAME).exists()


def replace_segments(
    directory: Path,
    removed: Sequence[Path],
    base: int,
    payloads: Iterable[bytes],
    *,
    segment_bytes_max: int = DEFAULT_LIMITS.log_segment_bytes_max,
    salt: Callable[[], int] = random_salt,
) -> list[str]:
    """Replace segments by new ones that begin at ``base`` and hold these batches; return their names.

    The caller holds the lock and has a copy of what is removed. If there are no batches, an empty one is
    written, because the newest segment must hold a batch.
    """
    for path in directory.glob("*" + _STAGED):  # left by a repair that ended before its list was written
        path.unlink()
    added = [_stage(directory, *segment) for segment in _segments(base, payloads, segment_bytes_max, salt)]
    plan = _Replacement(_NOTICE, [path.name for path in removed], added)
    staged = directory / (REPAIR_NAME + _STAGED)
    _write_synced(staged, msgspec.json.encode(plan))
    # The point of no return: all new segments are synced, and from here on a crash leads to complete().
    os.replace(staged, directory / REPAIR_NAME)
    REAL_DISK.sync_directory(directory)
    complete(directory)
    return added


def complete(directory: Path) -> None:
    """Complete a replacement that was begun; idempotent."""
    path = directory / REPAIR_NAME
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=_Replacement)
    except (msgspec.MsgspecError, ValueError) as error:
        raise LogError(reason=f"{path} does not say what an interrupted repair wanted ({error})") from error
    for name in plan.added:
        staged = directory / (name + _STAGED)
        if staged.exists():
            os.replace(staged, directory / name)
    for name in plan.removed:
        if name not in plan.added:
            (directory / name).unlink(missing_ok=True)
    # The list goes last, after the changes are durable: while it is there, no server opens the log.
    REAL_DISK.sync_directory(directory)
    path.unlink()
    REAL_DISK.sync_directory(directory)


def _segments(
    base: int, payloads: Iterable[bytes], bytes_max: int, salt: Callable[[], int]
) -> Iterator[tuple[int, bytes]]:
    """Yield base and content of each segment."""
    header = SegmentHeader(base, salt())
    content = bytearray(header.encode())
    for payload in payloads:
        if len(content) >= bytes_max:
            yield header.base, bytes(content)
            header = SegmentHeader(header.base + len(content) - HEADER_BYTES, salt())
            content = bytearray(header.encode())
        content += FrameCodec(header.salt).encode(header.base + len(content) - HEADER_BYTES, payload)
    if len(content) == HEADER_BYTES:
        content += FrameCodec(header.salt).encode(header.base, b"")
    yield header.base, bytes(content)


def _stage(directory: Path, base: int, content: bytes) -> str:
    name = segment_name(base)
    _write_synced(directory / (name + _STAGED), content)
    return name


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
