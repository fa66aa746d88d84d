"""Requests over a link: what arrives, in which order, and within which limits."""

import asyncio
from typing import Any

import pytest

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import LinkDownError, LinkLostError, OverloadedError
from durable_sessions.http.carrier.message import SHARED, Answer, Later, Request, Response, StreamingResponse
from tests.support.waiting import until

from .conftest import Connect

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024


def request(path: bytes = b"/", body: bytes = b"") -> Request:
    return Request(b"POST", path, b"a=b", {b"host": b"localhost"}, body)


def echo(partition: int, asked: Request) -> Response:
    return Response(200, [(b"Partition", b"%d" % partition)], bytes(asked.body))


async def whole(answer: "asyncio.Future[Answer]") -> Response:
    response = await answer
    assert isinstance(response, Response)
    return response


async def test_a_request_is_answered_by_the_owner(connect: Connect) -> None:
    seen: list[tuple[int, Request]] = []

    def handler(partition: int, asked: Request) -> Response:
        seen.append((partition, asked))
        asked.audience = SHARED
        return Response(201, [(b"A", b"1"), (b"A", b"2")], b"yes")

    pair = await connect(handler)
    asked = request(b"/v1/stream/a%20b", b"body")
    asked.id, asked.caller = b"req_1", Caller("w", "p", Role.WRITER, "key_1")
    response = await whole(pair.link.ask(7, asked))
    assert (response.status, response.headers, response.body) == (201, [(b"A", b"1"), (b"A", b"2")], b"yes")
    assert asked.audience == SHARED, "the owner has checked the origin"
    [(partition, got)] = seen
    assert partition == 7
    assert (got.method, got.path, got.query, got.headers, got.body, got.id, got.caller) == (
        *(b"POST", b"/v1/stream/a%20b", b"a=b", {b"host": b"localhost"}, b"body", b"req_1"),
        asked.caller,
    )
    assert pair.link.counts.forwarded == pair.server.counts.requests == 1
    assert pair.link.traffic() == tuple(reversed(pair.server.traffic()))


async def test_answers_may_come_at_once_later_or_from_a_coroutine(connect: Connect) -> None:
    loop = asyncio.get_running_loop()

    def handler(partition: int, asked: Request) -> Any:
        if asked.path == b"/later":
            future: asyncio.Future[bytes] = loop.create_future()
            loop.call_later(0.01, future.set_result, b"later")
            return Later(future, lambda done: Response(200, [], done.result()))
        if asked.path == b"/coroutine":
            return asyncio.sleep(0.01, Response(200, [], b"coroutine"))
        if asked.path == b"/future":
            answer: asyncio.Future[Answer] = loop.create_future()
            loop.call_later(0.01, answer.set_result, Response(200, [], b"future"))
            return answer
        return Response(200, [], b"now")

    pair = await connect(handler)
    paths = (b"/later", b"/coroutine", b"/future", b"/now")
    answers = await asyncio.gather(*[whole(pair.link.ask(0, request(path))) for path in paths])
    assert [answer.body for answer in answers] == [path[1:] for path in paths]


async def test_a_handler_that_raises_is_an_internal_error(connect: Connect) -> None:
    async def fails() -> Response:
        raise ValueError

    def handler(partition: int, asked: Request) -> Any:
        if asked.path == b"/later":
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.set_exception(ValueError())
            return Later(future, lambda done: Response(200, [], done.result() or b""))
        if asked.path == b"/coroutine":
            return fails()
        raise ValueError

    pair = await connect(handler)
    for path in (b"/now", b"/later", b"/coroutine"):
        answer = await whole(pair.link.ask(0, request(path)))
        assert answer.status == 500
        assert b"internal" in answer.body
    assert pair.link.is_open


async def test_a_thousand_at_the_same_time(connect: Connect) -> None:
    async def handler(partition: int, asked: Request) -> Response:
        await asyncio.sleep(0.001 * (int(asked.body) % 7))
        return echo(partition, asked)

    pair = await connect(handler)
    answers = await asyncio.gather(
        *[whole(pair.link.ask(i % 3, request(body=b"%d" % i))) for i in range(1000)]
    )
    assert [int(answer.body) for answer in answers] == list(range(1000))
    assert pair.link.counts.opened == 1


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 64 * 1024 + 1, 8 * MIB, 8 * MIB + 1])
async def test_bodies_of_any_size(connect: Connect, size: int) -> None:
    pair = await connect(echo)
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    answer = await whole(pair.link.ask(0, request(body=body)))
    assert answer.body == body


async def test_small_requests_overtake_a_large_body(connect: Connect) -> None:
    large = b"x" * 64 * MIB
    order: list[int] = []

    def handler(partition: int, asked: Request) -> Response:
        order.append(len(asked.body))
        return Response(200, [], b"%d" % len(asked.body))

    pair = await connect(handler)
    await pair.link.ask(0, request())
    slow = pair.link.ask(0, request(body=large))
    for i in range(1, 51):
        answer = await whole(pair.link.ask(0, request(body=b"x" * i)))
        assert answer.body == b"%d" % i
    assert not slow.done(), "all small ones were answered before"
    assert (await whole(slow)).body == b"%d" % len(large)
    assert order == [0, *range(1, 51), len(large)]


async def test_small_answers_overtake_a_large_one(connect: Connect) -> None:
    large = b"x" * 64 * MIB

    def handler(partition: int, asked: Request) -> Response:
        return Response(200, [], large if asked.path == b"/large" else b"small")

    pair = await connect(handler)
    slow = pair.link.ask(0, request(b"/large"))
    for _ in range(20):
        await pair.link.ask(0, request())
    assert not slow.done()
    assert (await whole(slow)).body == large


async def test_as_many_requests_as_the_limit_and_no_more(connect: Connect) -> None:
    turn = asyncio.Event()

    async def handler(partition: int, asked: Request) -> Response:
        await turn.wait()
        return echo(partition, asked)

    pair = await connect(handler, link_requests_max=3)
    asked = [pair.link.ask(0, request()) for _ in range(3)]
    await until(lambda: pair.server.counts.open_requests == 3)
    with pytest.raises(OverloadedError, match="link_requests_max"):
        await pair.link.ask(0, request())
    turn.set()
    await asyncio.gather(*asked)
    await pair.link.ask(0, request())


async def test_as_many_bytes_as_the_limit_and_no_more(connect: Connect) -> None:
    turn = asyncio.Event()

    async def handler(partition: int, asked: Request) -> Response:
        if asked.body:
            await turn.wait()
        return Response(204, [])

    pair = await connect(handler, link_bytes_max=MIB)
    await pair.link.ask(0, request())
    asked = pair.link.ask(0, request(body=b"x" * (MIB - 1000)))
    with pytest.raises(OverloadedError, match="link_bytes_max"):
        await pair.link.ask(0, request(body=b"x" * 1000))
    await pair.link.ask(0, request())
    turn.set()
    await asked
    await pair.link.ask(0, request(body=b"x" * (MIB - 1000)))


async def test_an_answer_beyond_the_bytes_limit_is_not_taken(connect: Connect) -> None:
    def handler(partition: int, asked: Request) -> Response:
        return Response(200, [], b"x" * int(asked.body))

    pair = await connect(handler, link_bytes_max=MIB)
    assert len((await whole(pair.link.ask(0, request(body=b"%d" % (MIB - 1000))))).body) == MIB - 1000
    with pytest.raises(LinkLostError, match="link_bytes_max"):
        await pair.link.ask(0, request(body=b"%d" % (MIB + 1)))
    assert (await whole(pair.link.ask(0, request(body=b"3")))).body == b"xxx"


async def test_a_head_that_does_not_fit_a_frame(connect: Connect) -> None:
    pair = await connect(echo, link_frame_bytes_max=8 * 1024, link_piece_bytes_max=4 * 1024)
    large = request()
    large.headers[b"a"] = b"x" * 8 * 1024
    await pair.link.ask(0, request())
    with pytest.raises(LinkDownError, match="head"):
        await pair.link.ask(0, large)
    await pair.link.ask(0, request())


async def test_an_answer_whose_head_does_not_fit_a_frame(connect: Connect) -> None:
    def handler(partition: int, asked: Request) -> Response:
        return Response(200, [(b"A", b"x" * int(asked.body))])

    pair = await connect(handler, link_frame_bytes_max=8 * 1024, link_piece_bytes_max=4 * 1024)
    with pytest.raises(LinkLostError):
        await pair.link.ask(0, request(body=b"9000"))
    assert (await whole(pair.link.ask(0, request(body=b"1")))).headers == [(b"A", b"x")]


async def test_cancelling_reaches_the_owner(connect: Connect) -> None:
    cancelled: list[bytes] = []

    async def handler(partition: int, asked: Request) -> Response:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(asked.path)
            raise
        raise AssertionError

    async def awaits(path: bytes) -> Answer:
        return await pair.link.ask(0, request(path))

    pair = await connect(handler)
    direct = pair.link.ask(0, request(b"/direct"))
    indirect = asyncio.create_task(awaits(b"/indirect"))
    await until(lambda: pair.server.counts.open_requests == 2)
    direct.cancel()
    indirect.cancel()
    await until(lambda: sorted(cancelled) == [b"/direct", b"/indirect"])
    assert (pair.server.counts.open_requests, pair.link.open_requests) == (0, 0)
    assert pair.link.is_open


async def test_cancelling_stops_a_body_on_its_way(connect: Connect) -> None:
    handled: list[int] = []

    def handler(partition: int, asked: Request) -> Response:
        handled.append(len(asked.body))
        return echo(partition, asked)

    pair = await connect(handler)
    await pair.link.ask(0, request())
    large = pair.link.ask(0, request(body=b"x" * 64 * MIB))
    await until(lambda: pair.server.counts.open_requests == 1)
    large.cancel()
    await until(lambda: pair.server.counts.open_requests == 0)
    await pair.link.ask(0, request(body=b"x"))
    assert handled == [0, 1]


async def test_cancelling_stops_a_large_answer_on_its_way(connect: Connect) -> None:
    large = b"x" * 64 * MIB
    pair = await connect(
        lambda partition, asked: Response(200, [], large if asked.path == b"/large" else b"small")
    )
    await pair.link.ask(0, request())
    slow = pair.link.ask(0, request(b"/large"))
    await until(lambda: pair.link.traffic()[0] > 1000)
    slow.cancel()
    assert (await whole(pair.link.ask(0, request()))).body == b"small"
    assert pair.link.traffic()[0] < len(large)


async def test_a_streamed_answer_arrives_whole(connect: Connect) -> None:
    async def chunks(count: int) -> Any:
        for i in range(count):
            yield b"%d " % i * 1000

    def handler(partition: int, asked: Request) -> StreamingResponse:
        return StreamingResponse(200, [(b"A", b"1")], chunks(int(asked.body)))

    pair = await connect(handler)
    for count in (0, 1, 500):
        answer = await pair.link.ask(0, request(body=b"%d" % count))
        assert isinstance(answer, StreamingResponse)
        assert (answer.status, answer.headers) == (200, [(b"A", b"1")])
        assert b"".join([chunk async for chunk in answer.chunks]) == b"".join(
            b"%d " % i * 1000 for i in range(count)
        )
    await until(lambda: pair.server.counts.open_streams == pair.link.open_streams == 0)
