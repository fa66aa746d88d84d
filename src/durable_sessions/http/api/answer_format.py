"""The parts of answers that the carrier makes itself: errors, and constant headers."""

from durable_sessions.http.api.cors import EXPOSED_HEADERS
from durable_sessions.http.api.error_responses import refusal_at
from durable_sessions.http.carrier.message import AnswerFormat, Header

_OWN: list[Header] = [
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
]
# Stored content must not run as a page of this server, and what a browser has cached for one page or key must
# not be served to another.
_DATA: list[Header] = [
    (b"Content-Security-Policy", b"default-src 'none'; sandbox"),
    (b"Vary", b"Origin, Authorization, Cookie, X-Api-Key"),
]
_CORS: list[Header] = [
    (b"Access-Control-Allow-Origin", b"*"),
    (b"Access-Control-Expose-Headers", b", ".join(EXPOSED_HEADERS)),
]

# In the order of the audiences OWN, SHARED and PAGE (carrier/message.py).
_COMMON_HEADERS = ([*_OWN, *_DATA], [*_OWN, *_DATA, *_CORS], _OWN)

ANSWER_FORMAT = AnswerFormat(refuse=refusal_at, common_headers=_COMMON_HEADERS)
"""The answer format to configure a carrier with."""
