"""The caller of a request: known in advance only if another process of the server says so, never a client."""

import pytest

from durable_sessions.http.carrier.message import Request, Response

from .conftest import Serve
from .raw import Peer, get

pytestmark = pytest.mark.anyio


def test_a_request_has_no_caller_by_itself() -> None:
    assert Request(b"GET", b"/", b"", {}, b"").caller is None


@pytest.mark.parametrize(
    "line", [b"Caller: admin", b"X-Caller: admin", b"Workspace: other", b"X-Forwarded-User: admin"]
)
async def test_no_header_gives_a_request_its_caller(serve: Serve, line: bytes) -> None:
    callers: list[object] = []

    def handler(request: Request) -> Response:
        callers.append(request.caller)
        return Response(204, [])

    server = await serve(handler)
    async with await Peer.connect(server.port) as peer:
        await peer.ask(get(b"/?caller=admin", line))
    assert callers == [None]
