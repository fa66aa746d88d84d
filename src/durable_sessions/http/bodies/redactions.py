"""The body and the answer of a redaction."""

from typing import Annotated, Any

import msgspec

from durable_sessions.schema_notes import about, ref

_Digest = Annotated[str, about(pattern="^[0-9a-f]{64}$")]


class RedactionBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to erase, and why."""

    events: Annotated[
        list[str], about("The ids of the events.", minItems=1, maxItems="{redacted_events_max}")
    ]
    reason: Annotated[
        str,
        about(
            "Why. It is kept with every event that is erased.",
            minLength=1,
            maxLength="{redaction_reason_max}",
        ),
    ]
    artifacts: Annotated[
        list[_Digest], about("Artifacts whose bytes are deleted.", maxItems="{redacted_events_max}")
    ] = []
    digest: Annotated[
        bool,
        about(
            "Whether the SHA-256 of each event is kept. Send false for bodies that could be guessed from it."
        ),
    ] = True


class RedactionAnswer(msgspec.Struct):
    """The event that records the redaction."""

    event: Annotated[
        Any,
        about(
            "The `ds.redacted` as it is stored; null if the session takes no events.",
            anyOf=[ref("Event"), {"type": "null"}],
        ),
    ]
