"""What a request is answered with whose owner is lost: "nothing was done" only if that is certain."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from durable_sessions.errors import DurableSessionsError, LinkDownError, LinkLostError, OverloadedError
from durable_sessions.http.api.error_responses import refusal_at
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.peers import Peers
from durable_sessions.node.worker_id import WorkerId

pytestmark = pytest.mark.anyio

DOWN, LOST = LinkDownError(reason="away"), LinkLostError(reason="died")
FULL = OverloadedError(what="requests on one link")
OK = Response(200, [], b"")
EVENTS = b"/v1/sessions/s/events"
NAMED = b'{"events":[{"id":"a"},{"id":"b"}]}'


class ScriptedLink:
    """Answers each request with the next of its lines."""

    def __init__(self, *lines: Answer | DurableSessionsError) -> None:
        self.lines = list(lines)

    def ask(self, partition: int, request: Request) -> asyncio.Future[Answer]:
        asked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        line = self.lines.pop(0)
        if isinstance(line, DurableSessionsError):
            asked.set_exception(line)
        else:
            asked.set_result(line)
        return asked


async def outcome(request: Request, *lines: Answer | DurableSessionsError) -> str:
    """Return the code of the answer to a request whose link says this, one line for each try."""
    app = SimpleNamespace(refuse=lambda asked, error: refusal_at(b"/v1/sessions", error, b""))
    keeper = SimpleNamespace(engine=SimpleNamespace(app=app))
    link = ScriptedLink(*lines)
    peers = Peers(WorkerId(0, of=2), cast(Any, {0: keeper}), cast(Any, {1: link}), {}, DEFAULT_LIMITS)
    asked = peers.ask(1, request)
    answer = asked if isinstance(asked, Answer) else await asked
    assert not link.lines, "it was tried less often"
    if answer.status == 200:
        return "ok"
    assert isinstance(answer, Response)
    assert answer.status == 503
    return answer.body.split(b'"error_code":"')[1].partition(b'"')[0].decode()


def read() -> Request:
    return Request(b"GET", EVENTS, b"", {}, b"")


def append(body: bytes = b'{"events":[{}]}', **headers: bytes) -> Request:
    names = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return Request(b"POST", EVENTS, b"", names, body)


def append_to_stream(body: bytes = b"x", **headers: bytes) -> Request:
    of_events = append(body, **headers)
    return Request(b"POST", b"/v1/stream/a", b"", of_events.headers, body)


REPEATABLE: dict[str, Callable[[], Request]] = {
    "producer": lambda: append_to_stream(producer_id=b"p"),
    "producer of events": lambda: append(producer_id=b"p"),
    "idempotency key": lambda: append(idempotency_key=b"k"),
    "idempotency key and a tail": lambda: append(idempotency_key=b"k", if_match=b'"x"'),
    "ids": lambda: append(NAMED),
}
ONCE: dict[str, Callable[[], Request]] = {
    "append": append,
    "append to a stream with a key": lambda: append_to_stream(idempotency_key=b"k"),
    "append to a stream with ids": lambda: append_to_stream(NAMED),
    "append to a stream with a number": lambda: append_to_stream(stream_seq=b"7"),
    "append of ids to a tail": lambda: append(NAMED, if_match=b'"0000000000000000_0000000000000001"'),
    "append of ids with a number": lambda: append(NAMED, stream_seq=b"7"),
    "append of some ids": lambda: append(b'{"events":[{"id":"a"},{}]}'),
    "create": lambda: Request(b"PUT", b"/v1/stream/a", b"", {b"producer-id": b"p"}, b""),
    "delete": lambda: Request(b"DELETE", b"/v1/sessions/s", b"", {b"idempotency-key": b"k"}, b""),
    "key": lambda: Request(b"POST", b"/v1/keys", b"", {b"idempotency-key": b"k"}, NAMED),
    "wake": lambda: Request(b"POST", b"/v1/sessions/s/wake", b"", {b"idempotency-key": b"k"}, NAMED),
}


async def test_what_never_reached_the_owner_changed_nothing() -> None:
    for request in (read(), append(), append(NAMED)):
        assert await outcome(request, DOWN) == "partition_unavailable"
        assert await outcome(request, FULL) == "overloaded"


async def test_a_read_is_repeated_and_never_has_an_unknown_outcome() -> None:
    assert await outcome(read(), LOST, OK) == "ok"
    assert await outcome(read(), LOST, DOWN) == "partition_unavailable"
    assert await outcome(read(), LOST, LOST) == "partition_unavailable"


@pytest.mark.parametrize("name", REPEATABLE)
async def test_what_takes_effect_once_is_repeated(name: str) -> None:
    assert await outcome(REPEATABLE[name](), LOST, OK) == "ok"


@pytest.mark.parametrize("name", REPEATABLE)
@pytest.mark.parametrize("second", [DOWN, LOST, FULL], ids=["down", "lost", "full"])
async def test_a_repeat_that_fails_leaves_the_outcome_of_the_first_try_unknown(
    name: str, second: DurableSessionsError
) -> None:
    assert await outcome(REPEATABLE[name](), LOST, second) == "outcome_unknown"


@pytest.mark.parametrize("name", ONCE)
async def test_what_could_take_effect_twice_is_not_repeated(name: str) -> None:
    assert await outcome(ONCE[name](), LOST) == "outcome_unknown"
