"""Frames of a link between two processes: their layout, and how requests and answers are encoded.

A frame is a header (length of the payload, number of the stream, kind) and a payload. Every request opens a
stream with the next number; its answer comes on the same stream.
"""

from collections.abc import Callable
from struct import Struct

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.http.carrier.message import Header, NamedStream, Request

# Kinds of frames. HELLO and PROOF open a connection, PING and PONG keep it, all others belong to a stream.
HELLO, PROOF, PING, PONG = range(1, 5)
# A request or an answer, with the beginning of its body; the rest follows in BODY frames.
REQUEST, ANSWER, BODY = range(5, 8)
# The head of a streamed answer, its chunks, its end, and permission to send more of them.
STREAM, CHUNK, END, CREDIT = range(8, 12)
# The asker has gone, or the owner broke its answer off.
CANCEL = 12
# A plain append, of which only these are asked, and what became of it; since version 2. The owner has made it
# durable, or it has changed nothing and is to be asked as a request. A refusal is an ANSWER.
PLAIN, DURABLE, DECLINED = range(13, 16)

HEADER = Struct("<IQB")
"""Length of the payload, number of the stream, kind of the frame."""
CREDIT_PAYLOAD = Struct("<I")
_NOTHING = b""


class LinkProtocolError(Exception):
    """The peer sent what the protocol does not allow; the connection is dropped."""


class RequestFrame(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A request with the beginning of its body, of which ``length`` is the whole size."""

    partition: int
    audience: int
    id: bytes
    method: bytes
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    caller: Caller | None
    length: int
    body: bytes
    named: NamedStream | None = None


class PlainFrame(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A plain append by a caller who may make it."""

    partition: int
    id: bytes
    caller: Caller
    content_type: str | None
    path: bytes
    body: bytes


class AnswerFrame(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """An answer with the beginning of its body, of which ``length`` is the whole size."""

    audience: int
    status: int
    headers: list[Header]
    length: int
    body: bytes


class StreamFrame(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """The head of a streamed answer."""

    audience: int
    status: int
    headers: list[Header]


encode: Callable[[object], bytes] = msgspec.msgpack.Encoder().encode
_request = msgspec.msgpack.Decoder(RequestFrame)
_plain = msgspec.msgpack.Decoder(PlainFrame)
_answer = msgspec.msgpack.Decoder(AnswerFrame)
_stream = msgspec.msgpack.Decoder(StreamFrame)


def frame(kind: int, stream: int, payload: bytes = _NOTHING) -> bytes:
    """Return a whole frame."""
    return HEADER.pack(len(payload), stream, kind) + payload


def encode_request(partition: int, request: Request, piece_bytes_max: int) -> bytes:
    """Return the payload of a request, with its body up to a size."""
    body = request.body
    length = len(body)
    caller = request.caller
    assert caller is None or isinstance(caller, Caller), "only the application names callers"
    return encode(
        RequestFrame(
            partition,
            request.audience,
            request.id,
            request.method,
            request.path,
            request.query,
            request.headers,
            caller,
            length,
            body if length <= piece_bytes_max else body[:piece_bytes_max],
            request.named,
        )
    )


def decode_request(payload: bytes | memoryview) -> RequestFrame:
    """Return what :func:`encode_request` was given."""
    try:
        return _request.decode(payload)
    except msgspec.MsgspecError as error:
        raise LinkProtocolError(f"a request cannot be decoded: {error}") from None


def decode_plain(payload: bytes | memoryview) -> PlainFrame:
    """Return the plain append in a payload."""
    try:
        return _plain.decode(payload)
    except msgspec.MsgspecError as error:
        raise LinkProtocolError(f"a plain append cannot be decoded: {error}") from None


def decode_answer(payload: bytes | memoryview) -> AnswerFrame:
    """Return the answer in a payload."""
    try:
        return _answer.decode(payload)
    except msgspec.MsgspecError as error:
        raise LinkProtocolError(f"an answer cannot be decoded: {error}") from None


def decode_stream(payload: bytes | memoryview) -> StreamFrame:
    """Return the head of a streamed answer."""
    try:
        return _stream.decode(payload)
    except msgspec.MsgspecError as error:
        raise LinkProtocolError(f"the head of a streamed answer cannot be decoded: {error}") from None


def decode_credit(payload: bytes | memoryview) -> int:
    """Return how many more bytes may be sent."""
    if len(payload) != CREDIT_PAYLOAD.size:
        raise LinkProtocolError("a credit has another size")
    credit: int = CREDIT_PAYLOAD.unpack(payload)[0]
    return credit


def to_request(sent: RequestFrame, body: bytes) -> Request:
    """Return the request that another process has sent, with its whole body."""
    request = Request(sent.method, sent.path, sent.query, sent.headers, body)
    request.id = sent.id
    request.audience = sent.audience
    request.caller = sent.caller
    request.named = sent.named
    return request


class LinkFrameReader:
    """Cuts input into frames, however it was cut on its way."""

    __slots__ = ("_buffer", "_bytes_max", "_start")

    def __init__(self, frame_bytes_max: int) -> None:
        self._bytes_max = frame_bytes_max
        self._buffer = b""
        self._start = 0

    def feed(self, data: bytes) -> None:
        """Add input."""
        left = self._buffer[self._start :] if self._start < len(self._buffer) else b""
        self._buffer = left + data if left else data
        self._start = 0

    def next(self) -> tuple[int, int, bytes] | None:
        """Return kind, stream and payload of the next frame, or None if it is not complete."""
        buffer, start = self._buffer, self._start
        if len(buffer) - start < HEADER.size:
            return None
        length, stream, kind = HEADER.unpack_from(buffer, start)
        if length > self._bytes_max:
            raise LinkProtocolError(f"a frame of {length} bytes is larger than {self._bytes_max}")
        begin = start + HEADER.size
        end = begin + length
        if len(buffer) < end:
            return None
        self._start = end
        return kind, stream, buffer[begin:end]
