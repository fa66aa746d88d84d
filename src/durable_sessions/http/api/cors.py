"""CORS: which paths pages of other origins may use, and which headers they may send and read."""

from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.http.openapi import answer_headers as sent
from durable_sessions.http.openapi import request_headers as asked

_METHODS = "GET, HEAD, PUT, POST, DELETE, OPTIONS"
_ROOTS = (
    b"/v1/sessions",
    b"/v1/stream",
    b"/v1/search",
    b"/v1/artifacts",
    b"/v1/memory",
    b"/v1/traces",
    b"/v1/logs",
)

# Headers that only our own pages send must not be listed: other origins must not be able to send them.
ALLOWED_HEADERS = (
    asked.AUTHORIZATION.key,
    b"content-type",
    asked.IDEMPOTENCY_KEY.key,
    asked.SESSION_IMPORT.key,
    asked.IF_MATCH.key,
    asked.IF_NONE_MATCH.key,
    asked.LAST_EVENT_ID.key,
    asked.PREFER.key,
    asked.RANGE.key,
    b"x-api-key",
    asked.STREAM_SEQ.key,
    asked.STREAM_TTL.key,
    asked.STREAM_EXPIRES_AT.key,
    asked.STREAM_CLOSED.key,
    asked.STREAM_ENVELOPE.key,
    asked.STREAM_FORKED_FROM.key,
    asked.STREAM_FORK_OFFSET.key,
    asked.STREAM_FORK_SUB_OFFSET.key,
    asked.PRODUCER_ID.key,
    asked.PRODUCER_EPOCH.key,
    asked.PRODUCER_SEQ.key,
    asked.SESSION_EPOCH.key,
    asked.SESSION_PRINCIPAL.key,
    b"session-incarnation",
    # Added by the libraries of Anthropic, Vercel and OpenTelemetry.
    b"anthropic-beta",
    b"anthropic-dangerous-direct-browser-access",
    asked.ANTHROPIC_VERSION.key,
    b"baggage",
    b"traceparent",
    b"tracestate",
    b"user-agent",
    b"x-stainless-arch",
    b"x-stainless-helper",
    b"x-stainless-helper-method",
    b"x-stainless-lang",
    b"x-stainless-os",
    b"x-stainless-package-version",
    b"x-stainless-poll-helper",
    b"x-stainless-retry-count",
    b"x-stainless-runtime",
    b"x-stainless-runtime-version",
    b"x-stainless-timeout",
)

EXPOSED_HEADERS = (
    sent.REQUEST_ID,
    sent.ETAG.lower(),
    sent.LOCATION.lower(),
    asked.CONTENT_ENCODING.key,
    sent.CONTENT_RANGE.lower(),
    b"vary",
    sent.RETRY_AFTER.lower(),
    sent.SHOULD_RETRY,
    b"idempotency-key",
    b"if-match",
    sent.STREAM_NEXT_OFFSET.lower(),
    sent.STREAM_CURSOR.lower(),
    sent.STREAM_UP_TO_DATE.lower(),
    sent.STREAM_CLOSED.lower(),
    sent.STREAM_TTL.lower(),
    sent.STREAM_EXPIRES_AT.lower(),
    asked.STREAM_ENVELOPE.key,
    sent.STREAM_SSE_DATA_ENCODING.lower(),
    sent.PRODUCER_EPOCH.lower(),
    sent.PRODUCER_SEQ.lower(),
    sent.PRODUCER_EXPECTED_SEQ.lower(),
    sent.PRODUCER_RECEIVED_SEQ.lower(),
    asked.SESSION_EPOCH.key,
    asked.SESSION_PRINCIPAL.key,
    asked.SESSION_IMPORT.key,
    sent.SESSION_INCARNATION.lower(),
    sent.EVENT_POSITION.lower(),
    sent.EVENTS_REPEATED.lower(),
    sent.EVENTS_DIFFER.lower(),
)


def preflight(methods: str = _METHODS) -> Response:
    """Answer a preflight, or any OPTIONS, for a path with these methods; browsers send no key with it."""
    allowed = methods.encode()
    return Response(
        204,
        [
            (sent.ALLOW, allowed),
            (sent.ALLOW_METHODS, allowed),
            (sent.ALLOW_HEADERS, b", ".join(ALLOWED_HEADERS)),
            (b"Access-Control-Max-Age", b"86400"),
        ],
    )


def is_preflight(request: Request) -> bool:
    """Say whether a request is a CORS preflight."""
    return request.method == b"OPTIONS" and b"access-control-request-method" in request.headers


def is_shared(path: bytes) -> bool:
    """Say whether a path can be used by pages of other origins at all."""
    return path.startswith(_ROOTS) and b"/".join(path.split(b"/", 3)[:3]) in _ROOTS
