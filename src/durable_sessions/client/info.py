"""A session as the server describes it."""

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
    """How long a session has existed, and for how much of that time it was running."""

    active_seconds: float = 0.0
    duration_seconds: float = 0.0


class SessionInfo(msgspec.Struct, frozen=True):
    """A session as it was when the server answered; ``raw`` is the whole answer.

    For one that was ``imported``, ``created_at`` is the time of the import; the original ran from
    ``started_at`` to ``last_activity_at``.
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
    counts: dict[str, Any] | None = None
    raw: dict[str, Any] = {}

    def __repr__(self) -> str:
        shown = f"id={self.id!r}, title={self.title!r}, lifecycle={self.lifecycle!r}"
        return f"SessionInfo({shown}, event_count={self.event_count})"


def session_info(raw: dict[str, Any]) -> SessionInfo:
    """Return the SessionInfo for a session object of the wire."""
    return msgspec.convert({**raw, "raw": raw}, SessionInfo)
