"""Where things lie in the bucket."""

import re
from datetime import date
from typing import NamedTuple

from durable_sessions.partition_id import SYSTEM, PartitionId

FORMAT = "format.json"
EVENTS = "events"
SESSIONS = "sessions"
PARTITIONS = "partitions"
LAYOUTS = "cluster/layout/"
"""Where the layouts are: how the bucket is divided into partitions, since it was first repartitioned."""
FLUSH_DIGITS = 12
"""How many digits the number of a manifest, and of what it names, has: it goes up by one with each change."""


def events_path(day: date, partition: PartitionId, number: int) -> str:
    """Return where the events of one day in the flush with this number go."""
    return f"{EVENTS}/date={day.isoformat()}/{partition.digits}-{number:0{FLUSH_DIGITS}d}.parquet"


def sessions_path(partition: PartitionId, number: int) -> str:
    """Return where the session metadata of the flush with this number goes."""
    return f"{SESSIONS}/{partition.digits}-{number:0{FLUSH_DIGITS}d}.parquet"


def partition_prefix(partition: PartitionId) -> str:
    """Return where everything is that only the server of this partition reads."""
    return f"{PARTITIONS}/{partition.digits}"


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
    """Return where a snapshot of the catalog goes; this is the number of the first manifest that names it."""
    return f"{snapshots_prefix(partition)}/{number:0{FLUSH_DIGITS}d}.snapshot"


def manifests_prefix(partition: PartitionId) -> str:
    """Return where a partition's manifests lie."""
    return f"{partition_prefix(partition)}/manifest/"


class FlushedName(NamedTuple):
    """What an object's name says: the first manifest that can refer to it, its part, and which try it is."""

    number: int
    part: int
    again: int


class FlushedNames:
    """Recognises by their names the objects that one partition has written."""

    def __init__(self, partition: PartitionId) -> None:
        own, digits = re.escape(partition.digits), rf"(\d{{{FLUSH_DIGITS}}})"
        folders = (
            rf"{EVENTS}/date=\d{{4}}-\d\d-\d\d/{own}-",
            rf"{SESSIONS}/{own}-",
            rf"{re.escape(subscriptions_prefix(partition))}/",
            rf"{re.escape(snapshots_prefix(partition))}/",
        )
        self._flushed = re.compile(
            # An object may have several parts. A name that is taken, such as by a try whose outcome is
            # unknown, gets a number behind it.
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


_NUMBERED = rf"\d{{{FLUSH_DIGITS}}}(?:-part\d+)?(?:-\d+)?"
_OF_PARTITION = r"(?:([1-9]\d*)-)?(?:\d\d|sys)"
_OF_ANY_PARTITION = re.compile(
    rf"(?:{EVENTS}/date=\d{{4}}-\d\d-\d\d|{SESSIONS})/{_OF_PARTITION}-{_NUMBERED}\.parquet"
    rf"|{PARTITIONS}/{_OF_PARTITION}/(?:subscriptions|catalog|manifest)/{_NUMBERED}"
    r"\.(?:batch|changes|snapshot|json)",
    re.ASCII,
)


_MANIFEST = re.compile(
    rf"{PARTITIONS}/(?:([1-9]\d*)-)?(\d\d|sys)/manifest/\d{{{FLUSH_DIGITS}}}\.json", re.ASCII
)


def generation_of(path: str) -> int | None:
    """Return the generation of the partition that wrote an object; None if no partition gives such names."""
    match = _OF_ANY_PARTITION.fullmatch(path)
    return None if match is None else int(match[1] or match[2] or 0)


def partition_in(path: str) -> tuple[int, int] | None:
    """Return generation and number of the partition whose manifest is at a path; None for other objects."""
    match = _MANIFEST.fullmatch(path)
    if match is None:
        return None
    return int(match[1] or 0), SYSTEM if match[2] == "sys" else int(match[2])


ARTIFACTS = "artifacts"
ARTIFACT_ABOUT = ".json"
"""What is added to an artifact's name to get that of the object which says what the artifact is."""


def artifact_path(workspace: str, digest: str) -> str:
    """Return where an artifact of a workspace lies; the workspace's name is safe in a path."""
    return f"{ARTIFACTS}/{workspace}/sha256/{digest[:2]}/{digest}"
