"""A carrier says nothing of its own: its errors and constant headers are the application's."""

from dataclasses import replace

import pytest

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.carrier.asgi import Message, asgi_app
from durable_sessions.http.carrier.message import PAGE, AnswerFormat, Request, Response
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.limits import DEFAULT_LIMITS

from .raw import Peer, get, post
from .test_asgi import SCOPE, Driver

pytestmark = pytest.mark.anyio

LIMITS = replace(DEFAULT_LIMITS, append_body_bytes_max=10)


def refuse(path: bytes, error: DurableSessionsError, request_id: bytes) -> Response:
    return Response(418, [(b"Seen", request_id)], b"%b: %b" % (path, error.code.encode()))


FORMAT = AnswerFormat(refuse, ([(b"Audience", b"own")], [(b"Audience", b"shared")], [(b"Audience", b"page")]))


def handle(request: Request) -> Response:
    if request.path == b"/fails":
        raise RuntimeError("as a handler must not")
    request.audience = PAGE
    return Response(200, [])


async def test_on_the_built_in_server() -> None:
    server = HttpServer(handle, LIMITS, answer_format=FORMAT)
    await server.start("127.0.0.1", 0)
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(get(b"/"))).headers[b"audience"] == b"page"
        failed = await peer.ask(get(b"/fails"))
        assert (failed.status, failed.body) == (418, b"/fails: internal")
        refused = await peer.ask(post(b"x" * 11, b"/large"))
    await server.shutdown(0)
    assert (refused.status, refused.body) == (418, b"/large: body_too_large")
    assert refused.headers[b"audience"] == b"own"
    assert refused.headers[b"seen"] == refused.headers[b"request-id"]


async def asked(path: bytes, body: bytes = b"") -> tuple[int, dict[bytes, bytes], bytes]:
    driver = Driver({"type": "http.request", "body": body})
    app = asgi_app(handle, LIMITS, answer_format=FORMAT)
    scope: Message = {**SCOPE, "raw_path": path, "headers": []}
    await app(scope, driver.receive, driver.send)
    head, rest = driver.sent
    return head["status"], dict(head["headers"]), rest["body"]


async def test_under_another_server() -> None:
    assert (await asked(b"/"))[1][b"audience"] == b"page"
    status, _, body = await asked(b"/fails")
    assert (status, body) == (418, b"/fails: internal")
    status, headers, body = await asked(b"/large", b"x" * 11)
    assert (status, body) == (418, b"/large: body_too_large")
    assert headers[b"audience"] == b"own"
    assert headers[b"seen"] == headers[b"request-id"]
