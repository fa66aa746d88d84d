"""Headers of answers: each is declared once, with its name as it is sent and what it means.

Handlers send these constants, and the document describes them. Those that say something about the transport
rather than the interface (``Date``, ``Cache-Control``, ``Vary`` …) are not declared: see ``OF_HTTP``.
"""

MEANINGS: dict[bytes, str] = {}
"""What each header means, by its name as it is sent."""


def _declare(name: str, meaning: str) -> bytes:
    """Declare a header, and return its name as it is sent."""
    MEANINGS[name.encode()] = meaning
    return name.encode()


CONTENT_DISPOSITION = _declare("Content-Disposition", "The name for a file that is saved.")
REQUEST_ID = _declare("request-id", "The name of the request; log lines and the audit record refer to it.")
STREAM_NEXT_OFFSET = _declare("Stream-Next-Offset", "The position behind what was answered: where to go on.")
STREAM_UP_TO_DATE = _declare("Stream-Up-To-Date", "`true` if the answer reaches the end at this moment.")
STREAM_CLOSED = _declare("Stream-Closed", "`true` if nothing more can come.")
STREAM_CURSOR = _declare("Stream-Cursor", "Send it as `cursor` with the next long-poll.")
STREAM_TTL = _declare("Stream-TTL", "Seconds without use after which it is removed.")
STREAM_EXPIRES_AT = _declare("Stream-Expires-At", "When it is removed.")
STREAM_SSE_DATA_ENCODING = _declare("Stream-SSE-Data-Encoding", "`base64` if the data events are encoded so.")
PRODUCER_EPOCH = _declare("Producer-Epoch", "The producer's current epoch.")
PRODUCER_SEQ = _declare("Producer-Seq", "The highest number accepted of the producer.")
PRODUCER_EXPECTED_SEQ = _declare("Producer-Expected-Seq", "The number that would have been accepted.")
PRODUCER_RECEIVED_SEQ = _declare("Producer-Received-Seq", "The number that was sent.")
SESSION_INCARNATION = _declare("Session-Incarnation", "Tells the session from others that had its id.")
EVENT_POSITION = _declare("Event-Position", "The number of the event in its session, counted from 0.")
EVENTS_REPEATED = _declare(
    "Events-Repeated",
    "Which events of the request were there before, by their places: `0,2,5-9`; `0` is the first event. "
    "Without such events there is no such header. It may end with `...`.",
)
EVENTS_DIFFER = _declare("Events-Differ", "Which of these are others than those that were there, which stay.")
IDEMPOTENT_REPLAYED = _declare(
    "Idempotent-Replayed", "`true` if this was carried out before and nothing was written now."
)
SHOULD_RETRY = _declare("x-should-retry", "`false`: trying again will not help; the official SDKs obey it.")
RETRY_AFTER = _declare("Retry-After", "Seconds to wait before trying again.")
ALLOW = _declare("Allow", "The methods that are answered here.")
WWW_AUTHENTICATE = _declare("WWW-Authenticate", "`Bearer`.")
LOCATION = _declare("Location", "The URL of what was created.")
ETAG = _declare("ETag", "Names these bytes; send it as `If-None-Match`.")
SET_COOKIE = _declare("Set-Cookie", "The sign-in of a browser, which no script can read.")
CONTENT_RANGE = _declare("Content-Range", "Which bytes these are, of how many.")
ACCEPT_RANGES = _declare("Accept-Ranges", "`bytes`.")
ALLOW_METHODS = _declare("Access-Control-Allow-Methods", "The methods that pages of other origins may use.")
ALLOW_HEADERS = _declare("Access-Control-Allow-Headers", "The headers that pages of other origins may send.")

OF_HTTP = frozenset(
    {
        b"Access-Control-Allow-Origin",
        b"Access-Control-Expose-Headers",
        b"Access-Control-Max-Age",
        b"Cache-Control",
        b"Clear-Site-Data",
        b"Connection",
        b"Content-Encoding",
        b"Content-Length",
        b"Content-Security-Policy",
        b"Content-Type",
        b"Cross-Origin-Opener-Policy",
        b"Cross-Origin-Resource-Policy",
        b"Date",
        b"Permissions-Policy",
        b"Referrer-Policy",
        b"Transfer-Encoding",
        b"Vary",
        b"X-Accel-Buffering",
        b"X-Content-Type-Options",
    }
)
"""Headers that answers also have, and that browsers, caches and proxies understand by themselves."""
