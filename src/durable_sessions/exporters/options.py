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
    """The options that every format takes."""

    full: bool = False
    """Export in full what the format would shorten."""
    artifact: Callable[[str], bytes | None] = no_artifact
    """Returns the bytes of an artifact, None if it is not available."""
    server_url: str = ""
    """The address of the server, for links to artifacts."""
