"""Where things lie in the bucket."""

import re
from datetime import date
from typing import NamedTuple

from durable_sessions.partition_id import PartitionId

FORMAT = "format.json"
EVENTS = "events"
SESSIONS = "sessions"
FLUSH_DIGITS = 12
"""How many digits the number of a manifest, and of what it names, has: it goes up by one with each change."""


def events_path(day: date, partition: PartitionId, number: int) -> str:
    """Return where the events of one day in the flush with this number go."""
    return f"{EVENTS}/date={day.isoformat()}/{partition.digits}-{number:0{FLUSH_DIGITS}d}.parquet"


def sessions_path(partition: PartitionId, number: int) -> str:
    """Return where the session metadata of the flush with this number goes."""
    return f"{SESSIONS}/{partition.digits}-{number:0{FLUSH_DIGITS}d}.parquet"


def partition_prefix(partition: PartitionId) -> str:
    """Return where all that lies that only one partition's server reads."""
    return f"partitions/{partition.digits}"


def subscriptions_prefix(partition: PartitionId) -> str:
    """Return where a partition's subscriptions lie."""
    return f"{partition_prefix(partition)}/subscriptions"


def subscriptions_path(partition: PartitionId, number: int, kind: str) -> str:
    """Return where the subscriptions of the flush with this number go, all of them or the changes."""
    return f"{subscriptions_prefix(partition)}/{number:0{FLUSH_DIGITS}d}.{kind}"


def snapshots_prefix(partition: PartitionId) -> str:
    """Return where the snapshots of a partition's catalog lie."""
    return f"{partition_prefix(partition)}/catalog"


def snapshot_path(partition: PartitionId, number: int) -> str:
    """Return where the snapshot of the catalog goes that the manifest with this number names first."""
    return f"{snapshots_prefix(partition)}/{number:0{FLUSH_DIGITS}d}.snapshot"


def manifests_prefix(partition: PartitionId) -> str:
    """Return where a partition's manifests lie."""
    return f"{partition_prefix(partition)}/manifest/"


class FlushedName(NamedTuple):
    """What the name of an object says: the first manifest that can name it, its part, and which try."""

    number: int
    part: int
    again: int


class FlushedNames:
    """Tells the objects that one partition writes by their names, and those of others apart."""

    def __init__(self, partition: PartitionId) -> None:
        own, digits = re.escape(partition.digits), rf"(\d{{{FLUSH_DIGITS}}})"
        folders = (
            rf"{EVENTS}/date=\d{{4}}-\d\d-\d\d/{own}-",
            rf"{SESSIONS}/{own}-",
            rf"{re.escape(subscriptions_prefix(partition))}/",
            rf"{re.escape(snapshots_prefix(partition))}/",
        )
        self._flushed = re.compile(
            rf"(?:{'|'.join(folders)}){digits}(?:-part(\d+))?(?:-(\d+))?\.(?:parquet|batch|changes|snapshot)",
            re.ASCII,
        )
        self._manifest = re.compile(rf"{re.escape(manifests_prefix(partition))}{digits}\.json", re.ASCII)
        self.prefixes = (EVENTS, SESSIONS, partition_prefix(partition))

    def parse(self, path: str) -> FlushedName | None:
        """Return what the name of an object says that only manifests refer to; None for anything else."""
        match = self._flushed.fullmatch(path)
        return None if match is None else FlushedName(int(match[1]), int(match[2] or 0), int(match[3] or 0))

    def manifest_number(self, path: str) -> int | None:
        """Return the number of a manifest by its path; None if it is not that of a manifest."""
        match = self._manifest.fullmatch(path)
        return None if match is None else int(match[1])


ARTIFACTS = "artifacts"
ARTIFACT_ABOUT = ".json"
"""How the object is called, behind the artifact's own name, that says what an artifact is."""


def artifact_path(workspace: str, digest: str) -> str:
    """Return where an artifact of a workspace lies; the workspace's name is safe in a path."""
    return f"{ARTIFACTS}/{workspace}/sha256/{digest[:2]}/{digest}"
