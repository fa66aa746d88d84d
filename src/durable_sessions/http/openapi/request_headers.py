"""Headers of requests, each declared once: handlers find it by its ``key``, and the document describes it."""

from durable_sessions.http.openapi.parts import Parameter, in_header
from durable_sessions.http.openapi.schemas import text, time, whole
from durable_sessions.schema_notes import OFFSET_EXAMPLE

ANTHROPIC_VERSION = in_header(
    "anthropic-version",
    text(),
    "With this header the request speaks Anthropic's dialect: it is checked as strictly, and answered, as "
    "Managed Agents would. The official SDKs send it by themselves.",
)
ACCEPT_OUTLINE = in_header("Accept", text(), "`application/octet-stream` answers with a block in binary.")
ACCEPT_ENCODING = in_header("Accept-Encoding", text(), "`gzip` answers in packed form.", "gzip")
ACCEPT = in_header("Accept", text(), "`application/x-ndjson` answers with one event per line.")
AUTHORIZATION = Parameter(
    "Authorization",
    "header",
    text(),
    "`Bearer <token>`: the token that came with the wake. It is enough; no key is needed.",
    "Bearer <token>",
    required=True,
    errors=("token_invalid", "token_expired"),
)
CONTENT_ENCODING = in_header(
    "Content-Encoding",
    text(enum=["gzip", "identity"]),
    "`gzip` if the body is packed.",
    None,
    "unsupported_media_type",
)
IDEMPOTENCY_KEY = in_header(
    "Idempotency-Key",
    text(minLength=1, maxLength="{idempotency_key_max}"),
    "Names this request. Sent again with the same body it writes nothing and is answered as the first time; "
    "with another body it is 409. Up to {idempotency_key_max} bytes.",
    "6f1d0c5e",
    "invalid_header",
    "idempotency_mismatch",
)
IF_MATCH = in_header(
    "If-Match",
    text(),
    'The expected end, as `"<Stream-Next-Offset>"`, or of a session its `"<Session-Incarnation>"`: nothing '
    "is changed if it is another (412). `*` fits whatever is there.",
    f'"{OFFSET_EXAMPLE}"',
    "invalid_header",
    "precondition_failed",
)
IF_NONE_MATCH = in_header("If-None-Match", text(), "Entity tags that you have.")
IF_MISSING = in_header(
    "If-None-Match",
    text(pattern=r"^\*$"),
    "`*`: only if there is no session, else 412.",
    None,
    "invalid_header",
    "precondition_failed",
)
IF_RANGE = in_header("If-Range", text(), "The range counts only if this is the entity tag.")
LAST_EVENT_ID = in_header(
    "Last-Event-ID",
    text(),
    "Replay from behind this event, whatever `offset` says: browsers send it when they connect again.",
    None,
    "event_not_found",
)
SESSION_IMPORT = in_header(
    "Session-Import",
    text(minLength=1, maxLength="{import_source_max}"),
    "The events happened elsewhere; this says where. They are stored as they are, each with `imported`: "
    "`trusted` if an admin sends them, else `untrusted`. Events of your own types need no header.",
    "jsonl",
    "invalid_header",
)
PREFER = in_header("Prefer", text(), "`return=representation` answers with the events as stored.")
RANGE = in_header("Range", text(), "`bytes=<first>-<last>`: one range.", None, "range_not_satisfiable")

PRODUCER_ID = in_header(
    "Producer-Id",
    text(minLength=1, maxLength="{producer_id_bytes_max}"),
    "Who appends, for exactly-once. Up to {producer_id_bytes_max:,} bytes. Send all three or none.",
    "worker-7",
    "invalid_header",
    "too_many_producers",
)
PRODUCER_EPOCH = in_header(
    "Producer-Epoch",
    whole(maximum="{producer_number_max}"),
    "Grows when a producer is started anew, and fences off the one before it (403).",
    "0",
    "invalid_header",
    "stale_epoch",
)
PRODUCER_SEQ = in_header(
    "Producer-Seq",
    whole(maximum="{producer_number_max}"),
    "Numbers the appends of an epoch from 0. A repeat is answered and not written again; a gap is 409.",
    "0",
    "invalid_header",
    "new_epoch_sequence",
    "producer_gap",
)
SESSION_EPOCH = in_header(
    "Session-Epoch",
    whole(minimum=1),
    "The epoch of the lease under which this is sent, as `wake` has told. The append is refused as soon as "
    "another worker has the session, and renews the lease otherwise.",
    None,
    "invalid_header",
    "lease_lost",
)
SESSION_PRINCIPAL = in_header(
    "Session-Principal",
    text(pattern="^[A-Za-z0-9._:@-]{1,128}$"),
    "Who sends this, on a server without keys; `local` if absent. With keys it must be the key's principal.",
    None,
    "invalid_header",
    "principal_mismatch",
)
STREAM_SEQ = in_header(
    "Stream-Seq",
    text(minLength=1, maxLength="{stream_seq_bytes_max}"),
    "Must be greater, bytewise, than the last one (409). Up to {stream_seq_bytes_max:,} bytes.",
    None,
    "invalid_header",
    "sequence_conflict",
)
STREAM_CLOSED = in_header(
    "Stream-Closed",
    text(),
    "`true` closes with this request; a body is then optional. Any other value counts as absent.",
)
STREAM_ENVELOPE = in_header(
    "Stream-Envelope",
    text(pattern=r"^[a-z][a-z0-9_-]{0,49}(\.[a-z0-9_-]{1,49}){1,3}$"),
    "On a session, for libraries of plain streams: each message is stored as an event of this type, which is "
    "one of your own, with its bytes as `raw`; a read gets the messages of this type, and no others, at the "
    "session's offsets. On other streams it has no effect.",
    "ai.chunk",
    "invalid_header",
)
APPENDING = (PRODUCER_ID, PRODUCER_EPOCH, PRODUCER_SEQ, STREAM_SEQ, IF_MATCH, STREAM_CLOSED)
"""The headers of an append."""

STREAM_TTL = in_header(
    "Stream-TTL",
    whole(maximum="{ttl_seconds_max}"),
    "Seconds without a read or a write after which it is removed. Not together with `Stream-Expires-At`.",
    "3600",
    "invalid_header",
)
STREAM_EXPIRES_AT = in_header(
    "Stream-Expires-At",
    time(),
    "When it is removed, as an RFC 3339 time.",
    "2036-01-31T12:00:00Z",
    "invalid_header",
)
LIFETIME = (STREAM_TTL, STREAM_EXPIRES_AT)
"""The headers that say how long something new is kept."""

STREAM_FORKED_FROM = in_header(
    "Stream-Forked-From",
    text(),
    "Fork this stream: its URL path, `/v1/stream/{path}`.",
    None,
    "invalid_fork",
    "fork_too_deep",
)
STREAM_FORK_OFFSET = in_header(
    "Stream-Fork-Offset",
    text(),
    "Where the fork begins; the end of the source if absent.",
    None,
    "invalid_offset",
)
STREAM_FORK_SUB_OFFSET = in_header(
    "Stream-Fork-Sub-Offset", whole(), "So many messages or bytes behind `Stream-Fork-Offset`."
)
