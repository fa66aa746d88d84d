"""Environments in answers; they are stored and answered as JSON, so this struct describes them only."""

from typing import Annotated, Any, Literal

import msgspec

from durable_sessions.schema_notes import Time, about


class EnvironmentObject(msgspec.Struct):
    """An environment as clients see it."""

    id: str
    type: Literal["environment"]
    name: str
    description: str | None
    metadata: dict[str, Any]
    config: Annotated[dict[str, Any], about("With everything filled in.")]
    created_at: Time
    updated_at: Time
    archived_at: Time | None
    scope: Any = None
