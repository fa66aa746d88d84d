"""Outlines of sessions: their operation and schemas."""

from durable_sessions.http.bodies.outlines import OutlineAnswer, OutlineBlockAnswer
from durable_sessions.http.openapi.answer_headers import ETAG
from durable_sessions.http.openapi.error_groups import READING
from durable_sessions.http.openapi.parts import JSON, OCTETS, Answer, Noun, Operation, in_query
from durable_sessions.http.openapi.request_headers import ACCEPT_ENCODING, ACCEPT_OUTLINE, IF_NONE_MATCH
from durable_sessions.http.openapi.schemas import ref, text, whole
from durable_sessions.http.openapi.struct_schemas import schema_of

POINTS = in_query(
    "points", whole(maximum=2_000), "Points of the overview; 1,000 if absent.", 100, default=1_000
)
FROM = in_query("from", whole(maximum=2**40), "Instead: the block that holds the event at this position.", 0)

NOUN = Noun(
    "Outlines",
    "An outline describes a session's events without their bodies: role, size, time, tool, thread, pair of "
    "each, in blocks of 4,096. It is made when somebody asks, and kept.",
    (
        Operation(
            "readOutline: GET /v1/sessions/{session_id}/outline",
            "Read the outline of a session, or one block of it. A request makes at most "
            "{outline_blocks_per_request_max} missing blocks, the newest first, and answers with what is "
            "there: ask again until it is `complete`. With `from` the answer is one block, in JSON or, with "
            "`Accept: application/octet-stream`, in binary: `DSO1`, u32 from, u32 count, u32 length of the "
            "tail, f64 t0, then the columns in their order, little-endian (u32 bytes, i32 pair, u32 at, u32 "
            "key, u16 name, u16 characters, u16 thread, u8 role, u8 flags), then the tail, which is "
            "`requests` as JSON.",
            {
                200: Answer(
                    "The outline, or a block.",
                    {
                        JSON: {"anyOf": [ref("Outline"), ref("OutlineBlockColumns")]},
                        OCTETS: text("A block in binary.", format="binary"),
                    },
                    (ETAG,),
                ),
                304: Answer("You have it already.", headers=(ETAG,)),
            },
            (POINTS, FROM, IF_NONE_MATCH, ACCEPT_OUTLINE, ACCEPT_ENCODING),
            errors=("offset_beyond_tail", "too_many_scans", *READING),
        ),
    ),
    {"Outline": schema_of(OutlineAnswer), "OutlineBlockColumns": schema_of(OutlineBlockAnswer)},
)
