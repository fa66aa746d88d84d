import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.log.frame import (
    FRAME_BYTES,
    HEADER_BYTES,
    VERSION,
    BadHeaderError,
    FrameCodec,
    SegmentHeader,
)

u64 = st.integers(0, 2**64 - 1)
addresses = st.integers(0, 2**63)
payload_lists = st.lists(st.binary(max_size=100), max_size=8)


def encoded(codec: FrameCodec, address: int, payloads: list[bytes]) -> bytes:
    data = b""
    for payload in payloads:
        data += codec.encode(address + len(data), payload)
    return data


def test_the_checksum_is_computed_by_compiled_code() -> None:
    assert google_crc32c.implementation == "c"


@given(u64, u64)
def test_header_round_trip(base: int, salt: int) -> None:
    data = SegmentHeader(base, salt).encode()
    assert len(data) == HEADER_BYTES
    assert SegmentHeader.decode(data) == SegmentHeader(base, salt, VERSION)


@given(u64, u64, st.integers(0, HEADER_BYTES * 8 - 1))
def test_any_flipped_bit_spoils_the_header(base: int, salt: int, bit: int) -> None:
    data = bytearray(SegmentHeader(base, salt).encode())
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadHeaderError):
        SegmentHeader.decode(bytes(data))


@given(st.binary(max_size=2 * HEADER_BYTES))
def test_other_bytes_are_no_header(data: bytes) -> None:
    with pytest.raises(BadHeaderError):
        SegmentHeader.decode(data)


@given(u64, addresses, payload_lists)
def test_frames_round_trip(salt: int, address: int, payloads: list[bytes]) -> None:
    codec = FrameCodec(salt)
    data = encoded(codec, address, payloads)
    batches, used = codec.decode(data, address)
    assert used == len(data)
    assert [payload for _, payload in batches] == payloads
    for position, payload in batches:
        assert data[position - address :].startswith(payload)


@given(u64, addresses, payload_lists, st.data())
def test_a_cut_leaves_the_whole_frames_before_it(
    salt: int, address: int, payloads: list[bytes], draw: st.DataObject
) -> None:
    codec = FrameCodec(salt)
    data = encoded(codec, address, payloads)
    cut = draw.draw(st.integers(0, len(data)))
    batches, used = codec.decode(data[:cut], address)
    whole = [n for n in range(len(payloads) + 1) if len(encoded(codec, address, payloads[:n])) <= cut]
    assert [payload for _, payload in batches] == payloads[: whole[-1]]
    assert used == len(encoded(codec, address, payloads[: whole[-1]]))


@given(u64, addresses, payload_lists.filter(bool), st.data())
def test_any_flipped_bit_stops_at_its_frame(
    salt: int, address: int, payloads: list[bytes], draw: st.DataObject
) -> None:
    codec = FrameCodec(salt)
    data = bytearray(encoded(codec, address, payloads))
    bit = draw.draw(st.integers(0, len(data) * 8 - 1))
    data[bit // 8] ^= 1 << bit % 8
    batches, used = codec.decode(bytes(data), address)
    assert used <= bit // 8
    assert [payload for _, payload in batches] == payloads[: len(batches)]
    assert len(encoded(codec, address, payloads[: len(batches) + 1])) > bit // 8


@given(u64, addresses, st.binary(max_size=50), st.integers(1, 1000), st.integers(1, 2**64 - 1))
def test_a_frame_is_valid_in_one_place_of_one_segment(
    salt: int, address: int, payload: bytes, shift: int, other_salt: int
) -> None:
    frame = FrameCodec(salt).encode(address, payload)
    assert FrameCodec(salt).decode(frame, address + shift) == ([], 0)
    assert FrameCodec(salt ^ other_salt).decode(frame, address) == ([], 0)


@given(u64, addresses, payload_lists, st.binary(max_size=30))
def test_every_frame_is_found_behind_rubbish(
    salt: int, address: int, payloads: list[bytes], rubbish: bytes
) -> None:
    codec = FrameCodec(salt)
    frames = encoded(codec, address + len(rubbish), payloads)
    starts = [len(rubbish + encoded(codec, address, payloads[:n])) for n in range(len(payloads))]
    assert set(starts) <= set(codec.candidates(rubbish + frames, address))


@given(u64, addresses, payload_lists)
def test_copies_of_frames_inside_a_payload_are_not_found(
    salt: int, address: int, payloads: list[bytes]
) -> None:
    codec = FrameCodec(salt)
    copies = encoded(codec, address, payloads)
    frame = codec.encode(address, copies)
    assert list(codec.candidates(frame, address)) == [0]


def test_payload_length_needs_a_whole_header() -> None:
    codec = FrameCodec(7)
    frame = codec.encode(100, b"abc")
    assert codec.payload_length(frame, 100) == 3
    assert codec.payload_length(frame[: FRAME_BYTES - 1], 100) is None
    assert codec.payload_length(frame, 101) is None
