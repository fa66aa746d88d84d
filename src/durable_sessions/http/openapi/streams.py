"""Streams, as the Durable Streams protocol has them: their operations."""

from durable_sessions.http.openapi import request_headers as asked
from durable_sessions.http.openapi.answer_headers import (
    ETAG,
    LOCATION,
    PRODUCER_EPOCH,
    PRODUCER_SEQ,
    STREAM_CLOSED,
    STREAM_CURSOR,
    STREAM_EXPIRES_AT,
    STREAM_NEXT_OFFSET,
    STREAM_SSE_DATA_ENCODING,
    STREAM_TTL,
    STREAM_UP_TO_DATE,
)
from durable_sessions.http.openapi.common import CURSOR, ENVELOPE, FROM_OFFSET, LIVE
from durable_sessions.http.openapi.error_groups import EVENTS, READING
from durable_sessions.http.openapi.parts import (
    EVENT_STREAM,
    JSON,
    OCTETS,
    TEXT,
    Answer,
    Body,
    Noun,
    Operation,
    no_content,
)
from durable_sessions.http.openapi.schemas import Schema, anything, frame, text

_CREATED_SESSION = ("invalid_session", *EVENTS, "session_not_found", "event_id_conflict")
"""Errors of what is written to a stream that is a session, too."""
_BODIES: dict[str, Schema] = {
    JSON: anything("One message, or a list of messages."),
    TEXT: text(),
    OCTETS: text(format="binary"),
}
_APPENDED = (STREAM_NEXT_OFFSET, STREAM_CLOSED, PRODUCER_EPOCH, PRODUCER_SEQ)
_READ = (STREAM_NEXT_OFFSET, STREAM_UP_TO_DATE, STREAM_CLOSED, STREAM_CURSOR)

NOUN = Noun(
    "Streams",
    "The Durable Streams protocol, strictly. A stream is a list of JSON messages, or of bytes with any "
    "other content type. A session is the stream `sessions/{id}`: the same log, the same offsets, and its "
    "events have the same members.",
    (
        Operation(
            "createStream: PUT /v1/stream/{path}",
            "Create a stream, or confirm it. The body is the first data. 409 if the stream exists with "
            "another content type, lifetime, closed state or fork source.",
            {
                201: Answer("Created.", headers=(STREAM_NEXT_OFFSET, STREAM_CLOSED, LOCATION)),
                200: Answer(
                    "It was there already, with the same configuration.",
                    headers=(STREAM_NEXT_OFFSET, STREAM_CLOSED),
                ),
            },
            (
                *asked.LIFETIME,
                asked.STREAM_CLOSED,
                asked.STREAM_ENVELOPE,
                asked.STREAM_FORKED_FROM,
                asked.STREAM_FORK_OFFSET,
                asked.STREAM_FORK_SUB_OFFSET,
            ),
            Body(_BODIES, "`application/octet-stream` without a `Content-Type`.", required=False),
            (
                "invalid_header",
                "invalid_json",
                *_CREATED_SESSION,
                "stream_exists",
                "session_exists",
                "path_blocked",
                "content_type_mismatch",
                *READING,
            ),
            gives={"path": "$request.path.path"},
        ),
        Operation(
            "appendToStream: POST /v1/stream/{path}",
            "Append to a stream. JSON: a list is so many messages, anything else is one; each is kept byte "
            "for byte. At most {append_messages_max:,} messages and {append_body_bytes_max:,} bytes.",
            {
                204: Answer("Durable.", headers=_APPENDED),
                200: Answer("Durable, and newly accepted of a producer.", headers=_APPENDED),
            },
            (*asked.APPENDING, asked.STREAM_ENVELOPE),
            Body(_BODIES, "Empty only together with `Stream-Closed: true`.", required=False),
            (
                "invalid_json",
                "empty_body",
                "stream_closed",
                *_CREATED_SESSION,
                "session_archived",
                "lease_required",
                "missing_content_type",
                "content_type_mismatch",
            ),
        ),
        Operation(
            "readStream: GET /v1/stream/{path}",
            "Read a stream. At most {read_chunk_bytes_max:,} bytes at a time, one message at least. Go on "
            "from `Stream-Next-Offset` until `Stream-Up-To-Date`. An event stream ends after "
            "{sse_seconds_max:g} seconds; go on from its last `streamNextOffset`.",
            {
                200: Answer(
                    "Messages as a JSON array, or bytes, with the stream's content type; with `live=sse`, "
                    "an event stream.",
                    {"*/*": anything(), EVENT_STREAM: frame("`event` is `data` or `control`.")},
                    (*_READ, ETAG, STREAM_SSE_DATA_ENCODING),
                ),
                204: Answer(
                    "With `live=long-poll`: nothing came in time, or nothing can come any more.",
                    headers=_READ,
                ),
                304: Answer("You have it already.", headers=(STREAM_NEXT_OFFSET, ETAG)),
            },
            (FROM_OFFSET, LIVE, CURSOR, ENVELOPE, asked.IF_NONE_MATCH, asked.STREAM_ENVELOPE),
            errors=("offset_beyond_tail", *READING),
        ),
        Operation(
            "headStream: HEAD /v1/stream/{path}",
            "Where a stream ends. Does not renew a TTL.",
            {
                200: Answer(
                    "Only headers: content type, end, lifetime, whether it is closed.",
                    headers=(STREAM_NEXT_OFFSET, STREAM_CLOSED, STREAM_TTL, STREAM_EXPIRES_AT),
                )
            },
        ),
        Operation(
            "deleteStream: DELETE /v1/stream/{path}",
            "Delete a stream.",
            no_content("Gone. If it has forks they keep what they share with it, and the path answers 410."),
            errors=("session_not_found", "legal_hold"),
        ),
    ),
)
