"""Where things lie in the bucket."""

from datetime import date

FORMAT = "format.json"


def events_path(day: date, partition: int, number: int) -> str:
    """Return where the events of one day in the flush with this number go."""
    return f"events/date={day.isoformat()}/{partition:02d}-{number:012d}.parquet"


def sessions_path(partition: int, number: int) -> str:
    """Return where the session metadata of the flush with this number goes."""
    return f"sessions/{partition:02d}-{number:012d}.parquet"


ARTIFACTS = "artifacts"
ARTIFACT_ABOUT = ".json"
"""How the object is called, behind the artifact's own name, that says what an artifact is."""


def artifact_path(workspace: str, digest: str) -> str:
    """Return where an artifact of a workspace lies; the workspace's name is safe in a path."""
    return f"{ARTIFACTS}/{workspace}/sha256/{digest[:2]}/{digest}"


def manifests_prefix(partition: int) -> str:
    """Return where a partition's manifests lie."""
    return f"partitions/{partition:02d}/manifest/"
