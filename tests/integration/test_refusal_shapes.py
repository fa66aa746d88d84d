"""Refusals of requests that no route answers: below /v1 they have its shape, whoever refuses them."""

import json
import socket
from collections.abc import Iterator

import pytest

from durable_sessions.testing import BackgroundServer, server
from tests.support.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    with server(tmp_path_factory.mktemp("data")) as one:
        yield one


HOST = b"Host: localhost\r\n"
CASES: list[tuple[bytes, int, str, str]] = [
    (b"GET /v1 HTTP/1.1\r\n" + HOST, 404, "route_not_found", "Nothing is served at /v1."),
    (b"GET /v1/ HTTP/1.1\r\n" + HOST, 404, "route_not_found", "Nothing is served at /v1/."),
    (b"GET /v1/nope HTTP/1.1\r\n" + HOST, 404, "route_not_found", "listed at /docs/api"),
    (b"PATCH /v1/sessions HTTP/1.1\r\n" + HOST, 405, "method_not_allowed", "Use one of: GET, POST."),
    (b"FROB /v1/sessions HTTP/1.1\r\n" + HOST, 405, "method_not_allowed", "Use one of: GET, HEAD, POST"),
    (b"FROB http://h/v1/sessions?x HTTP/1.1\r\n" + HOST, 405, "method_not_allowed", "Use one of"),
    (b"GET /v1/sessions HTTP/1.1\r\n", 400, "malformed_request", "the Host header is missing."),
    (b"GET /v1/sessions HTTP/1.1\r\n" + HOST * 2, 400, "malformed_request", "several Host headers."),
    (b"GET /v1/x HTTP/9.9\r\n" + HOST, 400, "malformed_request", "the version is not HTTP/1.1 or HTTP/1.0."),
    (b"GET /v1/x HTTP/1.1\r\nno header\r\n", 400, "malformed_request", "does not have the form name: value."),
    (
        b"POST /v1/x HTTP/1.1\r\n" + HOST + b"Content-Length: x\r\n",
        400,
        "malformed_request",
        "Content-Length is no",
    ),
    (
        b"POST /v1/x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n",
        400,
        "malformed_request",
        "the only transfer coding is chunked",
    ),
    (
        b"POST /v1/sessions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        400,
        "malformed_request",
        "a chunk does not have the form",
    ),
    (b"GET http://h/v1/x HTTP/1.1\r\nno header\r\n", 400, "malformed_request", "name: value."),
    (
        b"POST /v1/sessions HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999\r\n",
        413,
        "body_too_large",
        "larger",
    ),
    (b"GET /v1/x?" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HOST, 414, "target_too_long", "Send a shorter query"),
    (
        b"GET /v1/x HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 200,
        431,
        "headers_too_large",
        "Send fewer and shorter",
    ),
]
UNKNOWN: list[tuple[bytes, str]] = [
    (b"GARBAGE\r\n", "they do not begin with a method such as GET, and a path."),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100, "use http:// instead of https://"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n", "they begin HTTP/2; send HTTP/1.1."),
    (b"GET nowhere HTTP/1.1\r\n" + HOST, "the target is not a path such as /v1/sessions."),
]


def refused(server: BackgroundServer, head: bytes) -> tuple[int, dict[str, object]]:
    """Send a head and return the answer, after which the connection is closed."""
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as peer:
        peer.sendall(head + b"Connection: close\r\n\r\n" if head.endswith(HOST) else head + b"\r\n")
        reply = b"".join(iter(lambda: peer.recv(65_536), b""))
    fields, _, body = reply.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in fields.lower()
    return int(fields.split(b" ", 2)[1]), json.loads(body)


@pytest.mark.parametrize(("head", "status", "code", "said"), CASES)
def test_below_v1_a_refusal_has_its_shape(
    shared: BackgroundServer, head: bytes, status: int, code: str, said: str
) -> None:
    found, body = refused(shared, head)
    assert (list(body), body["type"], found) == (["type", "error", "request_id"], "error", status)
    error = body["error"]
    assert isinstance(error, dict)
    assert error["details"] == {"error_code": code}
    assert said in error["message"]


@pytest.mark.parametrize(("head", "said"), UNKNOWN)
def test_bytes_without_a_path_are_refused_in_our_own_words(
    shared: BackgroundServer, head: bytes, said: str
) -> None:
    status, body = refused(shared, head)
    error = body["error"]
    assert isinstance(error, dict)
    assert (status, list(body), error["code"]) == (400, ["error"], "malformed_request")
    assert said in error["message"]
