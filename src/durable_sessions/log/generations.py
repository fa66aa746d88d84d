"""The generations of partitions whose logs are in a data directory.

Repartitioning begins new logs beside the old ones, which it removes when it is done. So a directory usually
has logs of one generation; of two, if a repartitioning was interrupted.
"""

import re
from pathlib import Path

from durable_sessions.log.segment import SEGMENT_NAME

LOG_NAME = "log"
PARTITIONS_NAME = "partitions"
_PARTITION = re.compile(r"(?:([1-9]\d*)-)?(?:\d\d|sys)", re.ASCII)
_LINEAGE = ".lineage"


def partition_directories(data: Path) -> list[tuple[int, Path]]:
    """Return the directories of partitions in a data directory, each with its generation.

    The first partition of generation 0 is the data directory itself, and is not among them.
    """
    folder = data / PARTITIONS_NAME
    named = ((_PARTITION.fullmatch(path.name), path) for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted((int(match[1] or 0), path) for match, path in named if match is not None)


def logged_generations(data: Path) -> set[int]:
    """Return the generations with a log in a data directory that is tied to a bucket or has batches."""
    found = {generation for generation, path in partition_directories(data) if _has_log(path)}
    return found | ({0} if _has_log(data) else set())


def _has_log(directory: Path) -> bool:
    log = directory / LOG_NAME
    names = [path.name for path in log.iterdir()] if log.is_dir() else []
    return any(name.endswith(_LINEAGE) or SEGMENT_NAME.fullmatch(name) for name in names)
