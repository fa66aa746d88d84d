"""The options of an export."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Session = Mapping[str, Any]
"""The session object, as the server shows it."""


def no_artifact(sha256: str) -> bytes | None:
    """Find no artifact: images in artifacts are then named, not shown."""
    return None


def no_session(session: str) -> Session | None:
    """Find no other session: what a fork inherits is then told as of the session that it was forked from."""
    return None


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options that every format takes."""

    full: bool = False
    """Export in full what the format would shorten."""
    content: bool = False
    """Export what was said, called and returned also in a format that leaves it out by default."""
    artifact: Callable[[str], bytes | None] = no_artifact
    """Returns the bytes of an artifact, None if it is not available."""
    other_session: Callable[[str], Session | None] = no_session
    """Returns the object of another session, None if it is not available."""
    server_url: str = ""
    """The address of the server, for links to artifacts."""
