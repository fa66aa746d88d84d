"""CORS: which paths pages of other origins may use, and which headers they may send and read."""

from durable_sessions.http.carrier.message import Request, Response

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
    b"authorization",
    b"content-type",
    b"idempotency-key",
    b"if-match",
    b"if-none-match",
    b"last-event-id",
    b"prefer",
    b"range",
    b"x-api-key",
    b"stream-seq",
    b"stream-ttl",
    b"stream-expires-at",
    b"stream-closed",
    b"stream-envelope",
    b"stream-forked-from",
    b"stream-fork-offset",
    b"stream-fork-sub-offset",
    b"producer-id",
    b"producer-epoch",
    b"producer-seq",
    b"session-epoch",
    b"session-principal",
    b"session-import",
    b"session-incarnation",
    # Added by the libraries of Anthropic, Vercel and OpenTelemetry.
    b"anthropic-beta",
    b"anthropic-dangerous-direct-browser-access",
    b"anthropic-version",
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
    b"request-id",
    b"etag",
    b"location",
    b"content-encoding",
    b"content-range",
    b"vary",
    b"retry-after",
    b"x-should-retry",
    b"idempotency-key",
    b"if-match",
    b"stream-next-offset",
    b"stream-cursor",
    b"stream-up-to-date",
    b"stream-closed",
    b"stream-ttl",
    b"stream-expires-at",
    b"stream-envelope",
    b"stream-sse-data-encoding",
    b"producer-epoch",
    b"producer-seq",
    b"producer-expected-seq",
    b"producer-received-seq",
    b"session-epoch",
    b"session-principal",
    b"session-import",
    b"session-incarnation",
    b"event-position",
    b"events-repeated",
    b"events-differ",
)


def preflight(methods: str = _METHODS) -> Response:
    """Answer a preflight, or any OPTIONS, for a path with these methods; browsers send no key with it."""
    allowed = methods.encode()
    return Response(
        204,
        [
            (b"Allow", allowed),
            (b"Access-Control-Allow-Methods", allowed),
            (b"Access-Control-Allow-Headers", b", ".join(ALLOWED_HEADERS)),
            (b"Access-Control-Max-Age", b"86400"),
        ],
    )


def is_preflight(request: Request) -> bool:
    """Say whether a request is a CORS preflight."""
    return request.method == b"OPTIONS" and b"access-control-request-method" in request.headers


def is_shared(path: bytes) -> bool:
    """Say whether a path can be used by pages of other origins at all."""
    return path.startswith(_ROOTS) and b"/".join(path.split(b"/", 3)[:3]) in _ROOTS
