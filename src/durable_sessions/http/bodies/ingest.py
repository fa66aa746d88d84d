"""Deliveries of tools that are captured; they are kept as they came, so this struct describes them only."""

from typing import Annotated

import msgspec

from durable_sessions.schema_notes import about

SESSION_ID_PATTERN = "^[A-Za-z0-9._:@-]{1,150}$"


class ClaudeCodeDelivery(msgspec.Struct):
    """What Claude Code gives a hook."""

    session_id: Annotated[str, about("Claude Code's own id of the session.", pattern=SESSION_ID_PATTERN)]
    hook_event_name: Annotated[str, about("Which hook this is.", minLength=1)]
