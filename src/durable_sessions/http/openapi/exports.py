"""Exports of sessions: their operation."""

from durable_sessions.exporters import FORMATS
from durable_sessions.http.openapi.answer_headers import CONTENT_DISPOSITION
from durable_sessions.http.openapi.error_groups import READING
from durable_sessions.http.openapi.parts import Answer, Noun, Operation, in_query
from durable_sessions.http.openapi.schemas import choice, flag, text, whole

FORMAT = in_query(
    "format", choice(*FORMATS), "What to write; `jsonl` if absent.", "markdown", default="jsonl"
)
FROM = in_query(
    "from", whole(maximum=2**40), "Begin at the event at this position; the first if absent.", 0, default=0
)
LIMIT = in_query(
    "limit", whole(minimum=1, maximum=2**40), "At most so many events; all if absent.", 500, default=2**40
)
FULL = in_query("full", flag(), "Leave nothing out that the format would shorten.", "true")
CONTENT = in_query("content", flag(), "Also what was said, called and returned, in `otlp`.", "true")
_TYPES = sorted({one.media_type.partition(";")[0] for one in FORMATS.values()})

NOUN = Noun(
    "Exports",
    "A session as a file: as JSON lines, byte for byte; as Markdown or a page to read; or as other tools "
    "have it.",
    (
        Operation(
            "exportSession: GET /v1/sessions/{session_id}/export",
            "Write the events of a session to a file. `jsonl` is what is stored, one event per line. Files "
            "are made in a process of their own while they are sent, at most {exports_per_key_max} at a time "
            "for one key; an answer that breaks off is not the whole. Images in artifacts are named, not "
            "shown.",
            {
                200: Answer(
                    "The file.", {kind: text(format="binary") for kind in _TYPES}, (CONTENT_DISPOSITION,)
                )
            },
            (FORMAT, FROM, LIMIT, FULL, CONTENT),
            errors=("offset_beyond_tail", "too_many_exports", *READING),
        ),
    ),
)
