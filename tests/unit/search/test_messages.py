"""What the server and the worker say to each other arrives as it was said."""

import msgspec
import pytest

from durable_sessions.search.index import IndexHit
from durable_sessions.search.messages import (
    LENGTH,
    Add,
    Ask,
    Cancel,
    Failed,
    Indexed,
    Ping,
    Pong,
    Ready,
    Remove,
    Reply,
    Request,
    SearchAnswer,
    SessionHits,
    Stop,
    Taken,
    frame,
)
from durable_sessions.search.query import parse
from durable_sessions.search.scope import POSITION_MAX, Scope

SCOPE = Scope(
    chain=((1, 0, 5), (2, 5, POSITION_MAX)),
    streams=(3, 2**40),
    types=("agent.*",),
    roles=("user",),
    errors_only=True,
    after_ms=1,
    before_ms=2,
)
REQUESTS = [
    Add("w", 2**40, 7, b'{"text":"\xc3\xa4"},'),
    Add("", 0, 0, b""),
    Remove("w", 1, 2**39),
    Ask(1, "w", parse('+timeout "a phrase" -not pre* type:agent.* name:bash is:error'), SCOPE, 10),
    Ask(2**40, "w", parse(""), Scope(), 1, 9_999, "desc", 3, "0123456789ab"),
    Ask(3, "w", parse("x"), Scope(), 1, deadline=12.5),
    Cancel(3),
    Ping(),
    Stop(),
]
REPLIES = [
    Ready(),
    Indexed("w", b"12345678", b"87654321"),
    Pong(1.5),
    Taken(0),
    SearchAnswer(1, [SessionHits(3, [IndexHit(1.5, 3, 4), IndexHit(0.0, 3, 5)])], 10, 2, "view"),
    Failed(0, "it could not begin"),
]


@pytest.mark.parametrize("message", [*REQUESTS, *REPLIES])
def test_a_message_arrives_as_it_was_said(message: Request | Reply) -> None:
    framed = frame(message)
    (length,) = LENGTH.unpack(framed[: LENGTH.size])
    assert length == len(framed) - LENGTH.size
    kind = Request if message in REQUESTS else Reply
    assert msgspec.msgpack.decode(framed[LENGTH.size :], type=kind) == message


def test_everything_that_is_under_way_counts() -> None:
    assert Add("w", 1, 0, b"12345").size == 5
    assert Remove("w", 1, 0).size > 0
