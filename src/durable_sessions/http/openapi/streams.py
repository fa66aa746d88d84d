"""The Durable Streams protocol in the description."""

from durable_sessions.http.openapi.common import (
    APPENDED_REFUSALS,
    CLOSED,
    CURSOR,
    FROM_OFFSET,
    LIVE,
    STREAM,
    appending,
    lifetime,
)
from durable_sessions.http.openapi.errors import READING, WRITING
from durable_sessions.http.openapi.parts import (
    EVENT_STREAM,
    JSON,
    OCTETS,
    TEXT,
    Answer,
    Body,
    Call,
    Noun,
    Operation,
    Parameter,
    in_header,
    in_path,
)
from durable_sessions.http.openapi.schemas import Schema, anything, frame, text, whole
from durable_sessions.limits import Limits

_URL = "/v1/stream/{path}"
_SESSION = (
    "invalid_session",
    "invalid_event",
    "event_too_large",
    "session_not_found",
    "session_archived",
    "event_id_conflict",
)
_FOUND = ("invalid_path", "stream_not_found", "stream_gone")
_BODIES: dict[str, Schema] = {
    JSON: anything("One message, or a list of messages."),
    TEXT: text(),
    OCTETS: text(format="binary"),
}
_NEXT = "Stream-Next-Offset"


def noun(limits: Limits) -> Noun:
    """Return the description of streams."""
    path = in_path(
        "path",
        text(minLength=1),
        f"The stream: segments separated by `/`, which is part of the path, up to {limits.path_bytes_max:,} "
        "bytes of UTF-8. Empty, `.` and `..` segments and control characters are refused; a first segment "
        "that begins with `__` is the server's.",
        STREAM,
    )
    return Noun(
        "Streams",
        "The Durable Streams protocol, strictly. A stream is a list of JSON messages, or of bytes with any "
        "other content type. A session is the stream `sessions/{id}`: the same log, the same offsets, and "
        "its events have the same members.",
        (
            _create(limits, path),
            _append(limits, path),
            _read(limits, path),
            _head(path),
            _delete(path),
        ),
    )


def _create(limits: Limits, path: Parameter) -> Operation:
    headers = (_NEXT, "Stream-Closed", "Location")
    return Operation(
        "put",
        _URL,
        "createStream",
        "Create a stream, or confirm it",
        {
            201: Answer("Created.", {}, headers),
            200: Answer("It was there already, with the same configuration.", {}, headers[:2]),
        },
        "The body is the first data. 409 if the stream exists with another content type, lifetime, closed "
        "state or fork source.",
        (
            path,
            *lifetime(limits),
            CLOSED,
            in_header("Stream-Forked-From", text(), "Fork this stream: its URL path, `/v1/stream/{path}`."),
            in_header(
                "Stream-Fork-Offset", text(), "Where the fork begins; the end of the source if absent."
            ),
            in_header(
                "Stream-Fork-Sub-Offset", whole(), "So many messages or bytes behind `Stream-Fork-Offset`."
            ),
        ),
        Body(_BODIES, "`application/octet-stream` without a `Content-Type`.", required=False),
        (
            "invalid_path",
            "invalid_header",
            "invalid_offset",
            "invalid_fork",
            "invalid_json",
            *_SESSION[:4],
            "event_id_conflict",
            "stream_not_found",
            "stream_gone",
            "stream_exists",
            "session_exists",
            "path_blocked",
            "content_type_mismatch",
            "fork_too_deep",
            *READING,
            *WRITING,
        ),
        "writer",
        (
            Call(
                "Of JSON messages, kept for an hour", {}, {"Stream-TTL": "3600"}, {"type": "note"}, status=201
            ),
            Call("Of text", body="hello\n", media_type=TEXT, status=201),
        ),
        gives={"path": "$request.path.path"},
    )


def _append(limits: Limits, path: Parameter) -> Operation:
    headers = (_NEXT, "Stream-Closed", "Producer-Epoch", "Producer-Seq")
    return Operation(
        "post",
        _URL,
        "appendToStream",
        "Append to a stream",
        {
            204: Answer("Durable.", {}, headers),
            200: Answer("Durable, and newly accepted of a producer.", {}, headers),
        },
        "JSON: a list is so many messages, anything else is one; each is kept byte for byte. At most "
        f"{limits.append_messages_max:,} messages and {limits.append_body_bytes_max:,} bytes.",
        (path, *appending(limits)),
        Body(_BODIES, "Empty only together with `Stream-Closed: true`.", required=False),
        (
            *(*_FOUND, *APPENDED_REFUSALS, *_SESSION),
            *("empty_body", "missing_content_type", "content_type_mismatch", *WRITING),
        ),
        "writer",
        (
            Call("One message", body={"type": "agent.message", "text": "Running the tests"}, status=204),
            Call(
                "Two messages, exactly once",
                {},
                {"Producer-Id": "worker-7", "Producer-Epoch": "0", "Producer-Seq": "0"},
                [{"n": 1}, {"n": 2}],
            ),
        ),
    )


def _read(limits: Limits, path: Parameter) -> Operation:
    return Operation(
        "get",
        _URL,
        "readStream",
        "Read a stream",
        {
            200: Answer(
                "Messages as a JSON array, or bytes, with the stream's content type; with `live=sse`, an "
                "event stream.",
                {"*/*": anything(), EVENT_STREAM: frame("`event` is `data` or `control`.")},
                (
                    _NEXT,
                    "Stream-Up-To-Date",
                    "Stream-Closed",
                    "Stream-Cursor",
                    "ETag",
                    "Stream-SSE-Data-Encoding",
                ),
            ),
            204: Answer(
                "With `live=long-poll`: nothing came in time, or nothing can come any more.",
                {},
                (_NEXT, "Stream-Up-To-Date", "Stream-Closed", "Stream-Cursor"),
            ),
            304: Answer("You have it already.", {}, (_NEXT, "ETag")),
        },
        f"At most {limits.read_chunk_bytes_max:,} bytes at a time, one message at least. Go on from "
        "`Stream-Next-Offset` until `Stream-Up-To-Date`. An event stream ends after "
        f"{limits.sse_seconds_max:g} seconds; go on from its last `streamNextOffset`.",
        (path, FROM_OFFSET, LIVE, CURSOR, in_header("If-None-Match", text(), "Entity tags that you have.")),
        refusals=(*_FOUND, "invalid_request", "invalid_offset", "offset_beyond_tail", *READING),
        calls=(
            Call("All of it"),
            Call("Wait for news", {"offset": "now", "live": "long-poll"}, status=204),
            Call("Follow", {"offset": "-1", "live": "sse"}),
        ),
    )


def _head(path: Parameter) -> Operation:
    return Operation(
        "head",
        _URL,
        "headStream",
        "Where a stream ends",
        {
            200: Answer(
                "Only headers: content type, end, lifetime, whether it is closed.",
                {},
                (_NEXT, "Stream-Closed", "Stream-TTL", "Stream-Expires-At"),
            )
        },
        "Does not renew a TTL.",
        (path,),
        refusals=_FOUND,
    )


def _delete(path: Parameter) -> Operation:
    return Operation(
        "delete",
        _URL,
        "deleteStream",
        "Delete a stream",
        {204: Answer("Gone. If it has forks they keep what they share with it, and the path answers 410.")},
        "",
        (path,),
        refusals=(*_FOUND, "session_not_found", "legal_hold", *WRITING),
        role="writer",
        calls=(Call("", status=204),),
    )
