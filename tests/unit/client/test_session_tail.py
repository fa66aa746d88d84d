"""Following a session over connections that break at any byte."""

import json
from typing import Any

import httpx2
import pytest

from durable_sessions.client import errors, offsets
from durable_sessions.client.pages import ItemPage
from durable_sessions.client.retry import Attempts
from durable_sessions.client.session_tail import SessionTail
from durable_sessions.client.sse import Frames


def event(position: int) -> dict[str, Any]:
    return {"id": f"e{position}", "offset": offsets.of(position), "type": "note", "text": "zwölf \u2028"}


def frame(value: dict[str, Any]) -> bytes:
    data = json.dumps(value, ensure_ascii=False)
    return f"id: {value['id']}\nevent: {value['type']}\ndata: {data}\n\n".encode()


def following(offset: str | None = None, **options: Any) -> SessionTail:
    return SessionTail("s", offset, options.get("types"), Attempts("http://stub", 2))


GREETING = b": heartbeat\n\n"
WHOLE = GREETING + b"".join(frame(event(position)) for position in range(4))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
def test_pieces_of_any_size_make_the_same_events(size: int) -> None:
    follower = following()
    assert follower.connect().parameters == (("offset", "-1"),)
    pieces = [WHOLE[at : at + size] for at in range(0, len(WHOLE), size)]
    assert [one.position for piece in pieces for one in follower.take(piece)] == [0, 1, 2, 3]
    assert follower.connect().parameters == (("offset", offsets.of(4)),)


def test_a_connection_cut_at_any_byte_leaves_no_gap_and_no_repeat() -> None:
    for cut in range(len(WHOLE)):
        follower = following()
        follower.connect()
        got = [one.position for one in follower.take(WHOLE[:cut])]
        follower.disconnected(httpx2.ReadError(""))
        (_, offset), *_ = follower.connect().parameters
        first = 0 if offset == "-1" else offsets.position(offset)
        rest = GREETING + b"".join(frame(event(position)) for position in range(first, 4))
        got += [one.position for one in follower.take(rest)]
        assert got == [0, 1, 2, 3]


def test_a_page_tells_whether_an_end_is_the_end() -> None:
    follower = following()
    follower.connect()
    follower.take(WHOLE)
    assert follower.ended() == 0
    assert follower.needs_page()
    assert not follower.is_over()
    assert dict(follower.page().parameters)["offset"] == offsets.of(4)
    assert not follower.take_page(ItemPage([], None, offsets.of(5), up_to_date=True))
    assert not follower.needs_page()
    assert not follower.is_over()
    follower.take_page(ItemPage([], None, offsets.of(5), up_to_date=False, closed=True))
    assert follower.needs_page()
    assert not follower.is_over()
    follower.take_page(ItemPage([], None, offsets.of(6), up_to_date=True, closed=True))
    assert follower.is_over()


def test_now_is_one_moment() -> None:
    follower = following("now", types=["a.*", "b"])
    assert follower.needs_page()
    assert follower.page().parameters[:3] == (("offset", "now"), ("types[]", "a.*"), ("types[]", "b"))
    follower.take_page(ItemPage([], None, offsets.of(9), up_to_date=True))
    for _ in range(2):
        assert follower.connect().parameters == (
            ("offset", offsets.of(9)),
            ("types[]", "a.*"),
            ("types[]", "b"),
        )


def test_a_deleted_session_is_told_behind_its_last_events() -> None:
    follower = following()
    follower.connect()
    deleted = {"id": "e9", "type": "session.deleted", "processed_at": "…"}
    assert len(follower.take(WHOLE + frame(deleted))) == 4
    with pytest.raises(errors.NotFoundError, match="deleted while it was followed"):
        follower.ended()


def test_failures_in_a_row_are_bounded_and_progress_counts() -> None:
    follower = following()
    for _ in range(5):
        follower.disconnected(httpx2.ReadError("cut"))
        follower.disconnected(httpx2.ReadError("cut"))
        follower.connect()
        follower.take(GREETING)
    follower.disconnected(httpx2.ReadError("cut"))
    follower.disconnected(httpx2.ReadError("cut"))
    with pytest.raises(errors.ConnectionFailedError):
        follower.disconnected(httpx2.ReadError("cut"))


@pytest.mark.parametrize("piece", [b"data: nonsense\n\n", b'data: {"offset":"x"}\n\n', b"data: 3\n\n"])
def test_what_is_no_event_breaks_the_connection(piece: bytes) -> None:
    follower = following()
    follower.connect()
    with pytest.raises(httpx2.RemoteProtocolError):
        follower.take(piece)


def test_frames() -> None:
    frames = Frames()
    assert frames.feed(b": hello\n\nid: 1\r\ndata: a\r\ndata:b\r\n\r\nevent: x\n\nda") == [b"a\nb"]
    assert frames.feed(b"ta:  c\n") == []
    assert frames.feed(b"\n") == [b" c"]


def test_a_frame_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("durable_sessions.client.sse.FRAME_BYTES_MAX", 10)
    frames = Frames()
    frames.feed(b"x" * 10)
    with pytest.raises(ValueError, match="without an end"):
        frames.feed(b"x")


def test_what_is_no_event_stream_is_not_asked_for_ever() -> None:
    follower = following()
    with pytest.raises(errors.ConnectionFailedError, match="no event stream"):  # noqa: PT012 - in a loop
        for _ in range(50):
            follower.connect()
            try:
                follower.take(b"data: a page\n\n")
            except httpx2.RemoteProtocolError as error:
                follower.disconnected(error)


def test_heartbeats_show_that_the_server_is_there() -> None:
    follower = following()
    for _ in range(50):
        follower.connect()
        follower.take(GREETING)
        follower.disconnected(httpx2.ReadError("reset"))
