"""The lineage of a log: a random name that it shares with the manifests of its bucket.

It is stored as the name of an empty file in the log's directory, so a crash can never leave half of it. Two
steps tie a log to a bucket: ``<lineage>.intended`` is created before the first manifest that carries the
name, and ``<lineage>.lineage`` after it. So a log with a lineage always has a bucket. If the process dies
between the two steps, the next one knows which name the manifest may already carry.
"""

import re
from pathlib import Path
from typing import NamedTuple

from durable_sessions.errors import LogDamagedError
from durable_sessions.log.disk import Disk

_NAME = re.compile(r"(log_[0-9a-f]{32})\.(lineage|intended)")
_TIED, _INTENDED = ".lineage", ".intended"


class Lineage(NamedTuple):
    """The lineage of a log, None before it is tied, and the one that was about to be tied."""

    tied: str | None = None
    intended: str | None = None


def lineage_files(disk: Disk, directory: Path) -> list[Path]:
    """Return the files of ``directory`` that keep a lineage."""
    return [directory / name for name in sorted(disk.sizes(directory)) if _NAME.fullmatch(name)]


def read_lineage(disk: Disk, directory: Path) -> Lineage:
    """Return the lineage that is kept in ``directory``; refuse a directory with several."""
    found: dict[str, list[str]] = {"lineage": [], "intended": []}
    for path in lineage_files(disk, directory):
        found[path.suffix[1:]].append(path.stem)
    for names in found.values():
        if len(names) > 1:
            problem = (
                f"there are {len(names)} of these files, as if several logs had been copied into one;"
                " durable-sessions dump manifest shows which of them is the bucket's, the others must go"
            )
            file = str(directory / (names[1] + (_TIED if names is found["lineage"] else _INTENDED)))
            raise LogDamagedError(file=file, byte=0, problem=problem)
    tied, intended = (names[0] if names else None for names in found.values())
    return Lineage(tied, intended)


def intend(disk: Disk, directory: Path, known: Lineage, lineage: str) -> Lineage:
    """Record durably that the next manifest may carry this name."""
    if known.intended == lineage:
        return known
    # The old file is gone durably before the new one exists: a directory with two of them is refused.
    if known.intended is not None:
        disk.unlink(directory / (known.intended + _INTENDED))
        disk.sync_directory(directory)
    disk.create(directory / (lineage + _INTENDED)).close()
    disk.sync_directory(directory)
    return known._replace(intended=lineage)


def tie(disk: Disk, directory: Path, known: Lineage, lineage: str) -> Lineage:
    """Record durably that a manifest carries this name."""
    assert known.tied in (None, lineage), "a log never changes its lineage"
    # In this order: a crash in between leaves both files, which is harmless. The other way round it could
    # leave none, and the log would no longer know its manifest.
    if known.tied is None:
        disk.create(directory / (lineage + _TIED)).close()
        disk.sync_directory(directory)
    if known.intended is not None:
        disk.unlink(directory / (known.intended + _INTENDED))
        disk.sync_directory(directory)
    return Lineage(lineage)
