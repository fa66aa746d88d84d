from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.http.api import sse


@given(st.text(min_size=1, max_size=6), st.integers(0, 30))
def test_text_is_only_ever_cut_between_characters(text: str, cut: int) -> None:
    encoded = text.encode("utf-8", "ignore")[:cut]
    held = sse.complete_utf8(encoded)
    assert len(encoded) - held <= 3
    encoded[:held].decode()
    if held == len(encoded):
        return
    assert encoded.decode(errors="ignore").encode() == encoded[:held]


@given(st.binary(max_size=20))
def test_no_bytes_confuse_the_cut(data: bytes) -> None:
    assert len(data) - 3 <= sse.complete_utf8(data) <= len(data)


@given(st.binary(max_size=60))
def test_a_data_event_is_one_event_and_gives_its_lines_back(payload: bytes) -> None:
    event = sse.data_event(payload)
    assert event.endswith(b"\n\n")
    assert event.count(b"\n\n") == 1
    assert b"\r" not in event
    lines = event.removesuffix(b"\n\n").split(b"\n")
    assert lines[0] == b"event: data"
    assert all(line.startswith(b"data:") for line in lines[1:])
    read = b"\n".join(line.removeprefix(b"data:").removeprefix(b" ") for line in lines[1:])
    assert read == payload.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
