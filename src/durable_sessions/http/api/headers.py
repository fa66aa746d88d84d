"""Parses the protocol's request headers into requests of the stream layer."""

import re
from typing import NamedTuple

from durable_sessions.errors import InvalidForkError, InvalidHeaderError, InvalidOffsetError
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi import request_headers as asked
from durable_sessions.http.paths import STREAM_ROOT, stream_path
from durable_sessions.limits import Limits
from durable_sessions.streams import content, offsets
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create, Fork
from durable_sessions.streams.stream import Producer
from durable_sessions.times import parse_rfc3339

# Names as the carrier gives them, computed once: several are looked up for every append.
_PRODUCER_ID = asked.PRODUCER_ID.key
_PRODUCER_EPOCH = asked.PRODUCER_EPOCH.key
_PRODUCER_SEQ = asked.PRODUCER_SEQ.key
_SESSION_EPOCH = asked.SESSION_EPOCH.key
_IDEMPOTENCY_KEY = asked.IDEMPOTENCY_KEY.key
_STREAM_SEQ = asked.STREAM_SEQ.key
_STREAM_CLOSED = asked.STREAM_CLOSED.key
_IF_MATCH = asked.IF_MATCH.key
_IF_NONE_MATCH = asked.IF_NONE_MATCH.key
_STREAM_TTL = asked.STREAM_TTL.key
_STREAM_EXPIRES_AT = asked.STREAM_EXPIRES_AT.key
_STREAM_FORKED_FROM = asked.STREAM_FORKED_FROM.key
_STREAM_FORK_OFFSET = asked.STREAM_FORK_OFFSET.key
_STREAM_FORK_SUB_OFFSET = asked.STREAM_FORK_SUB_OFFSET.key

_WHOLE_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_ENTITY_TAG = re.compile(r'(?:W/)?"[^"]*"')
_INCARNATION = re.compile(r'"[0-9a-f]{12}"', re.ASCII)


def parse_append(request: Request, limits: Limits) -> Append:
    """Return what a POST asks for."""
    headers = request.headers
    content_type = headers.get(b"content-type")
    # Most appends have none of these headers, and a look-up costs less than the call of a parser.
    return Append(
        request.body,
        None if content_type is None else content_type.decode("latin-1"),
        _producer(headers, limits) if _PRODUCER_ID in headers or _has_other_producer(headers) else None,
        _stream_seq(headers, limits) if _STREAM_SEQ in headers else None,
        _STREAM_CLOSED in headers and is_closed(headers),
        *(if_match(headers[_IF_MATCH].decode("latin-1")) if _IF_MATCH in headers else _ANY),
    )


def parse_lifetime(request: Request, limits: Limits) -> tuple[int | None, int | None]:
    """Return the TTL in seconds or the time of expiry in milliseconds that a PUT asks for."""
    ttl, expires_at = request.headers.get(_STREAM_TTL), request.headers.get(_STREAM_EXPIRES_AT)
    if ttl is not None and expires_at is not None:
        raise InvalidHeaderError(
            header=asked.STREAM_TTL.name, problem="send either Stream-TTL or Stream-Expires-At, not both"
        )
    return (
        None if ttl is None else _ttl_seconds(ttl.decode("latin-1"), limits),
        None if expires_at is None else _expires_at_ms(expires_at.decode("latin-1")),
    )


def parse_create(request: Request, limits: Limits) -> Create:
    """Return what a PUT asks for."""
    headers = request.headers
    content_type = headers.get(b"content-type")
    return Create(
        None
        if content_type is None
        else content.check(content_type.decode("latin-1"), limits.content_type_bytes_max),
        *parse_lifetime(request, limits),
        is_closed(headers),
        request.body,
        _fork(request),
    )


def session_epoch(request: Request) -> int | None:
    """Return the epoch of the lease under which a worker appends, None if it states none."""
    value = request.headers.get(_SESSION_EPOCH)
    if value is None:
        return None
    text = value.decode("latin-1")
    if not _DIGITS.fullmatch(text) or len(text) > 15:
        raise InvalidHeaderError(
            header=asked.SESSION_EPOCH.name, problem=f"{text[:40]!r} is no epoch; send what wake has answered"
        )
    return int(text)


def idempotency_key(request: Request, limits: Limits) -> str | None:
    """Return the key that makes a request harmless to repeat, None if it has none."""
    value = request.headers.get(_IDEMPOTENCY_KEY)
    if value is None:
        return None
    if not value or len(value) > limits.idempotency_key_max:
        raise InvalidHeaderError(
            header="Idempotency-Key", problem=f"send 1 to {limits.idempotency_key_max} bytes"
        )
    return value.decode("latin-1")


def base_url(request: Request, public_url: str) -> str:
    """Return the URL under which the client reached the server, without a slash at the end."""
    return public_url or "http://" + request.headers.get(b"host", b"localhost").decode("latin-1")


def is_closed(headers: dict[bytes, bytes]) -> bool:
    """Say whether Stream-Closed is true; any other value counts as absent."""
    return headers.get(_STREAM_CLOSED, b"").lower() == b"true"


def matches_etag(if_none_match: bytes, etag: str) -> bool:
    """Say whether an If-None-Match header names this entity tag; weak ones count."""
    value = if_none_match.decode("latin-1").strip()
    return value == "*" or etag in [tag.removeprefix("W/") for tag in _ENTITY_TAG.findall(value)]


def _has_other_producer(headers: dict[bytes, bytes]) -> bool:
    return _PRODUCER_EPOCH in headers or _PRODUCER_SEQ in headers


def _producer(headers: dict[bytes, bytes], limits: Limits) -> Producer:
    try:
        name, epoch, seq = headers[_PRODUCER_ID], headers[_PRODUCER_EPOCH], headers[_PRODUCER_SEQ]
    except KeyError as missing:
        raise InvalidHeaderError(
            header=missing.args[0].decode().title(),
            problem="it is missing; send Producer-Id, Producer-Epoch and Producer-Seq together",
        ) from None
    if not name or len(name) > limits.producer_id_bytes_max:
        raise InvalidHeaderError(
            header=asked.PRODUCER_ID.name, problem=f"send 1 to {limits.producer_id_bytes_max} bytes"
        )
    return Producer(
        name.decode("latin-1"),
        _producer_number(asked.PRODUCER_EPOCH.name, epoch, limits),
        _producer_number(asked.PRODUCER_SEQ.name, seq, limits),
    )


def _producer_number(header: str, value: bytes, limits: Limits) -> int:
    text = value.decode("latin-1")
    # The length is checked first, because int() takes quadratic time.
    if _DIGITS.fullmatch(text) and len(text) <= 16 and int(text) <= limits.producer_number_max:
        return int(text)
    raise InvalidHeaderError(
        header=header, problem=f"{text[:40]!r} is not a whole number from 0 to {limits.producer_number_max}"
    )


def _stream_seq(headers: dict[bytes, bytes], limits: Limits) -> str:
    value = headers[_STREAM_SEQ]
    if not value or len(value) > limits.stream_seq_bytes_max:
        raise InvalidHeaderError(
            header=asked.STREAM_SEQ.name, problem=f"send 1 to {limits.stream_seq_bytes_max} bytes"
        )
    return value.decode("latin-1")


class IfMatch(NamedTuple):
    """The condition of an If-Match header: one of these offsets, any existing stream, or an incarnation."""

    tails: frozenset[int] | None = None
    exists: bool = False
    incarnation: str | None = None


_ANY = IfMatch()


def if_match(value: str) -> IfMatch:
    """Return the condition of an If-Match header."""
    value = value.strip()
    if value == "*":
        return IfMatch(exists=True)
    if _INCARNATION.fullmatch(value):
        return IfMatch(exists=True, incarnation=value[1:-1])
    tags = _ENTITY_TAG.findall(value)
    if not tags or _ENTITY_TAG.sub("", value).strip(" ,\t") or any(map(_INCARNATION.fullmatch, tags)):
        raise _invalid_if_match()
    try:
        # If-Match compares strongly (RFC 9110, 13.1.1), so a weak tag never matches.
        return IfMatch(frozenset(offsets.decode(tag.strip('"')) for tag in tags if not tag.startswith("W/")))
    except InvalidOffsetError:
        raise _invalid_if_match() from None


def wants_missing(request: Request) -> bool:
    """Say whether an If-None-Match header of a change wants that nothing exists; only that is understood."""
    value = request.headers.get(_IF_NONE_MATCH)
    if value is None:
        return False
    if value.strip() != b"*":
        raise InvalidHeaderError(
            header=asked.IF_NONE_MATCH.name, problem="send *, so that something is changed only if it is new"
        )
    return True


def _invalid_if_match() -> InvalidHeaderError:
    return InvalidHeaderError(
        header=asked.IF_MATCH.name,
        problem="send the expected Stream-Next-Offset or one Session-Incarnation in double quotes, or *",
    )


def _ttl_seconds(value: str, limits: Limits) -> int:
    if not _WHOLE_NUMBER.fullmatch(value) or len(value) > 12 or int(value) > limits.ttl_seconds_max:
        raise InvalidHeaderError(
            header=asked.STREAM_TTL.name,
            problem=f"{value[:40]!r} is no number of seconds; send a whole number such as 3600, from 0 to "
            f"{limits.ttl_seconds_max}, without sign or leading zeros",
        )
    return int(value)


def _expires_at_ms(value: str) -> int:
    at_ms = parse_rfc3339(value)
    if at_ms is None:
        raise InvalidHeaderError(
            header=asked.STREAM_EXPIRES_AT.name,
            problem=f"{value[:40]!r} is not an RFC 3339 time such as 2030-01-31T12:00:00Z",
        )
    return at_ms


def _fork(request: Request) -> Fork | None:
    source = fork_source(request)
    if source is None:
        return None
    if not source.startswith(STREAM_ROOT):
        raise InvalidForkError(problem="Stream-Forked-From is a URL path that begins with /v1/stream/")
    return parse_fork(request, stream_path(source[len(STREAM_ROOT) :]))


def fork_source(request: Request) -> bytes | None:
    """Return the source of a fork, None if there is none; a fork offset without a source is refused."""
    headers = request.headers
    source = headers.get(_STREAM_FORKED_FROM)
    if source is None and (_STREAM_FORK_OFFSET in headers or _STREAM_FORK_SUB_OFFSET in headers):
        raise InvalidForkError(
            problem="Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From"
        )
    return source


def parse_fork(request: Request, source: str) -> Fork:
    """Return a fork of ``source``, with the offset at which it begins."""
    anchor = request.headers.get(_STREAM_FORK_OFFSET)
    beyond = request.headers.get(_STREAM_FORK_SUB_OFFSET)
    return Fork(
        source,
        None if anchor is None else offsets.decode(anchor.decode("latin-1")),
        0 if beyond is None else _sub_offset(beyond.decode("latin-1")),
    )


def _sub_offset(value: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(value) or len(value) > 16:
        raise InvalidForkError(problem=f"Stream-Fork-Sub-Offset {value[:40]!r} is not a whole number")
    return int(value)
