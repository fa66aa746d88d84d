"""Live capture: its operation."""

from durable_sessions.http.bodies.ingest import ClaudeCodeDelivery
from durable_sessions.http.openapi.error_groups import READING, STORING
from durable_sessions.http.openapi.parts import Noun, Operation, json_answer, json_body
from durable_sessions.http.openapi.schemas import record
from durable_sessions.http.openapi.struct_schemas import schema_of

NOUN = Noun(
    "Ingest",
    "Tools that call a URL when something happens can write a session by themselves. `ds capture claude-code "
    "--print-config` prints the settings to paste.",
    (
        Operation(
            "ingestClaudeCode: POST /v1/ingest/claude-code",
            "Take a delivery of a Claude Code hook. The session is `claude-code-hooks:<session_id>`, "
            "created if it is missing. A delivery that names a tool call or a prompt is stored once "
            "however often it is sent; another one is not stored again directly after itself.",
            {200: json_answer("Durable. Claude Code goes on.", record({}, additionalProperties=True))},
            body=json_body(
                schema_of(ClaudeCodeDelivery, open_ended=True), "What Claude Code gives its hooks, unchanged."
            ),
            errors=(
                "invalid_hook",
                "invalid_event",
                "session_archived",
                "session_too_large",
                "stream_closed",
                *STORING,
                *READING,
            ),
        ),
    ),
)
