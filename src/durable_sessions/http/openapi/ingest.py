"""Live capture in the description."""

from durable_sessions.http.bodies.ingest import ClaudeCodeDelivery
from durable_sessions.http.openapi.errors import READING, STORING, WRITING
from durable_sessions.http.openapi.parts import Call, Noun, Operation, json_answer, json_body
from durable_sessions.http.openapi.schemas import record
from durable_sessions.http.openapi.struct_schemas import StructSchemas
from durable_sessions.limits import Limits

_EXAMPLE = {
    "session_id": "7e59698b-5a47-4614-92c3-3d3fb002e481",
    "hook_event_name": "UserPromptSubmit",
    "cwd": "/srv/demo",
    "prompt": "Make it green.",
}


def noun(limits: Limits) -> Noun:
    """Return the description of live capture."""
    return Noun(
        "Ingest",
        "Tools that call a URL when something happens can write a session by themselves. "
        "`ds capture claude-code --print-config` prints the settings to paste.",
        (
            Operation(
                "post",
                "/v1/ingest/claude-code",
                "ingestClaudeCode",
                "Take a delivery of a Claude Code hook",
                {
                    200: json_answer(
                        "Durable. Claude Code goes on.",
                        record({}, additionalProperties=True),
                    )
                },
                "The session is `claude-code-hooks:<session_id>`, created if it is missing. A delivery that "
                "names a tool call or a prompt is stored once however often it is sent; another one is not "
                "stored again directly after itself.",
                (),
                json_body(
                    StructSchemas(limits).of(ClaudeCodeDelivery, open_ended=True),
                    "What Claude Code gives its hooks, unchanged.",
                ),
                (
                    "invalid_json",
                    "invalid_hook",
                    "invalid_event",
                    "session_archived",
                    "session_too_large",
                    "stream_closed",
                    "quota_exceeded",
                    *STORING,
                    *READING,
                    *WRITING,
                ),
                "writer",
                (Call("A prompt", body=_EXAMPLE),),
            ),
        ),
    )
