"""The options of an export."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Session = Mapping[str, Any]
"""The session object, as the server shows it."""


def no_artifact(sha256: str) -> bytes | None:
    """Find no artifact: images in artifacts are then named, not shown."""
    return None


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How to export."""

    full: bool = False
    """Leave nothing out that the format would shorten."""
    artifact: Callable[[str], bytes | None] = no_artifact
    """Gives the bytes of an artifact, None if it cannot be had."""
    server_url: str = ""
    """Where the server is, for links to artifacts."""
