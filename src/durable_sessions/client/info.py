"""What a session says of itself."""

from datetime import datetime
from typing import Any

import msgspec


class TokenUsage(msgspec.Struct, frozen=True):
    """The tokens of all model requests of a session."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation: dict[str, int] = {}


class Stats(msgspec.Struct, frozen=True):
    """How long a session has existed, and how long of that it was running."""

    active_seconds: float = 0.0
    duration_seconds: float = 0.0


class SessionInfo(msgspec.Struct, frozen=True):
    """A session as it is at the moment of asking; ``raw`` has everything that the server said.

    Of one that was ``imported``, ``created_at`` is when it came; it went from ``started_at`` to
    ``last_activity_at``.
    """

    id: str
    created_at: datetime
    updated_at: datetime
    title: str | None = None
    metadata: dict[str, Any] = {}
    status: str = "idle"
    lifecycle: str = "open"
    event_count: int = 0
    bytes: int = 0
    next_offset: str = ""
    usage: TokenUsage = TokenUsage()
    stats: Stats = Stats()
    agent: dict[str, Any] | None = None
    environment_id: str | None = None
    archived_at: datetime | None = None
    imported: bool = False
    started_at: datetime | None = None
    last_activity_at: datetime | None = None
    forked_from: dict[str, Any] | None = None
    incarnation: str | None = None
    ttl_seconds: int | None = None
    expires_at: datetime | None = None
    raw: dict[str, Any] = {}

    def __repr__(self) -> str:
        said = f"id={self.id!r}, title={self.title!r}, lifecycle={self.lifecycle!r}"
        return f"SessionInfo({said}, event_count={self.event_count})"


def session_info(raw: dict[str, Any]) -> SessionInfo:
    """Return a session object of the wire as what it says."""
    return msgspec.convert({**raw, "raw": raw}, SessionInfo)
