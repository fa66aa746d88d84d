"""The codec of links: what one side encodes the other decodes, and nothing else is taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.access.caller import Caller, Role
from durable_sessions.http.carrier.message import Request
from durable_sessions.node.link_frames import (
    HEADER,
    AnswerFrame,
    LinkFrameReader,
    LinkProtocolError,
    StreamFrame,
    decode_answer,
    decode_credit,
    decode_request,
    decode_stream,
    encode,
    encode_request,
    frame,
    to_request,
)

PIECE_BYTES = 100
callers = st.none() | st.builds(Caller, st.text(), st.text(), st.sampled_from(Role), st.none() | st.text())
headers = st.dictionaries(st.binary(max_size=20), st.binary(max_size=40), max_size=5)
header_lists = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=40)), max_size=5)
bodies = st.binary(max_size=3 * PIECE_BYTES)


@given(
    partition=st.integers(0, 2**32),
    parts=st.tuples(st.binary(), st.binary(), st.binary()),
    headers=headers,
    body=bodies,
    request_id=st.binary(),
    audience=st.integers(0, 2),
    caller=callers,
)
def test_a_request_arrives_as_it_was(
    partition: int,
    parts: tuple[bytes, bytes, bytes],
    headers: dict[bytes, bytes],
    body: bytes,
    request_id: bytes,
    audience: int,
    caller: Caller | None,
) -> None:
    request = Request(*parts, headers, body)
    request.id, request.audience, request.caller = request_id, audience, caller
    sent = decode_request(encode_request(partition, request, PIECE_BYTES))
    arrived = to_request(sent, sent.body + body[PIECE_BYTES:])
    assert (sent.partition, sent.length) == (partition, len(body))
    for name in Request.__slots__:
        assert getattr(arrived, name) == getattr(request, name), name
    assert type(arrived.caller) is type(request.caller)


@given(st.integers(0, 2), st.integers(100, 599), header_lists, bodies)
def test_an_answer_arrives_as_it_was(
    audience: int, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    answer = AnswerFrame(audience, status, headers, len(body), body)
    assert decode_answer(encode(answer)) == answer
    head = StreamFrame(audience, status, headers)
    assert decode_stream(encode(head)) == head


@given(
    st.lists(st.tuples(st.integers(0, 255), st.integers(0, 2**64 - 1), st.binary(max_size=64)), max_size=8),
    st.data(),
)
def test_frames_arrive_however_they_are_cut(
    frames: list[tuple[int, int, bytes]], data: st.DataObject
) -> None:
    wire = b"".join(frame(*one) for one in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=10)))
    reader = LinkFrameReader(64)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        reader.feed(wire[start:end])
        while (one := reader.next()) is not None:
            found.append(one)
    assert found == frames


@given(st.binary(max_size=200))
def test_garbage_is_refused_by_name(garbage: bytes) -> None:
    for decode in (decode_request, decode_answer, decode_stream, decode_credit):
        try:
            decode(garbage)
        except LinkProtocolError:
            pass


@given(bodies, st.data())
def test_a_truncated_request_is_refused(body: bytes, data: st.DataObject) -> None:
    wire = encode_request(1, Request(b"GET", b"/", b"", {b"host": b"a"}, body), PIECE_BYTES)
    with pytest.raises(LinkProtocolError):
        decode_request(wire[: data.draw(st.integers(0, len(wire) - 1))])


def test_a_frame_is_taken_at_the_limit_and_not_beyond() -> None:
    reader = LinkFrameReader(64)
    reader.feed(frame(1, 1, b"x" * 64))
    assert reader.next() == (1, 1, b"x" * 64)
    reader.feed(HEADER.pack(65, 1, 1))
    with pytest.raises(LinkProtocolError, match="65 bytes is larger than 64"):
        reader.next()
