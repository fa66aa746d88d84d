"""Addresses where something else listens, or nothing: what the errors of the client say."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client import errors
from durable_sessions.client.connection_problems import is_final, reason_of
from tests.unit.client.stub import Stub

PAGE = (
    b"<html><head><title>Oops</title><style>p {color: red}</style></head>"
    b"<body><!-- x --><h1>Bad gateway</h1>\n<p>nginx</p></body></html>"
)


@contextmanager
def listener(answer: bytes) -> Iterator[int]:
    """Answer every connection with these bytes, whatever it sends, and close it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(65_536)
                    peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def failure(url: str, retries: int = 0) -> errors.ConnectionFailedError:
    """Return how a client fails at this address."""
    with Client(url, retries=retries) as client, pytest.raises(errors.ConnectionFailedError) as caught:
        client.session("s").info()
    return caught.value


def test_https_where_plain_http_is_spoken_is_told_at_once() -> None:
    with listener(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as port:
        error = failure(f"https://127.0.0.1:{port}", retries=6)
    assert (error.attempts, error.is_final) == (1, True)
    assert f"it does not speak TLS; use http://127.0.0.1:{port}." in str(error)
    assert "SSL" not in str(error)


@pytest.mark.anyio
async def test_the_async_client_tells_the_same() -> None:
    with listener(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as port:
        async with AsyncClient(f"https://127.0.0.1:{port}") as client:
            with pytest.raises(errors.ConnectionFailedError, match="it does not speak TLS; use http://"):
                await client.session("s").info()


@pytest.mark.parametrize("answer", [b"", b"\x15\x03\x03\x00\x02\x02\x16\r\n\r\n"])
def test_http_where_tls_is_spoken_gets_a_hint(answer: bytes) -> None:
    with listener(answer) as port:
        assert f"use https://127.0.0.1:{port}" in str(failure(f"http://127.0.0.1:{port}"))


def test_nothing_that_listens_is_told_without_numbers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    said = str(failure(f"http://127.0.0.1:{port}"))
    assert "nothing listens there, the connection was refused. Check that the server runs" in said
    assert "Errno" not in said


@pytest.mark.parametrize(
    ("cause", "said", "final"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the name of that machine is not known", False),
        (TimeoutError("timed out"), "no answer came in time", False),
        (OSError(113, "No route to host"), "there is no way to that machine", False),
        (OSError(101, "Network is unreachable"), "there is no network that leads there", False),
        (ConnectionResetError(104, "reset"), "if TLS is expected there, use https://h", False),
    ],
)
def test_what_the_system_says_is_translated(cause: OSError, said: str, final: bool) -> None:
    error = httpx2.ConnectError(str(cause))
    error.__cause__ = cause
    assert said in reason_of(error, "http://h")
    assert is_final(error) is final


def test_a_certificate_that_is_not_trusted_is_told() -> None:
    cause = ssl.SSLCertVerificationError()
    cause.verify_message = "self-signed certificate"
    error = httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]")
    error.__cause__ = cause
    assert "its certificate is not trusted (self-signed certificate); set SSL_CERT_FILE" in reason_of(
        error, "https://h"
    )
    assert is_final(error)


@pytest.mark.parametrize("status", [404, 502])
def test_the_page_of_a_proxy_is_told_without_its_markup(status: int) -> None:
    stub = Stub(httpx2.Response(status, content=PAGE, headers={"Content-Type": "text/html; charset=utf-8"}))
    with pytest.raises(errors.ApiError) as caught:
        stub.client(retries=0).session("s").info()
    told = f"answered {status}, not as a Durable Sessions server would: text/html, Oops Bad gateway nginx."
    assert told in str(caught.value)
    assert f"(status {status})" in str(caught.value)
    assert not caught.value.by_server


def test_a_page_where_an_answer_should_be_is_told() -> None:
    stub = Stub(httpx2.Response(200, content=PAGE, headers={"Content-Type": "text/html"}))
    with pytest.raises(errors.UnexpectedAnswerError) as caught:
        stub.client().session("s").info()
    assert "would: text/html, Oops Bad gateway nginx. Check the address" in str(caught.value)
    assert "Error(" not in str(caught.value)


def test_a_redirect_is_told_with_its_target() -> None:
    stub = Stub(httpx2.Response(301, headers={"Location": "https://there"}))
    with pytest.raises(errors.ApiError) as caught:
        stub.client().session("s").info()
    assert "answered 301 and sends on to https://there. Give the client that address." in str(caught.value)


def test_an_address_with_a_path_too_many_is_told() -> None:
    said = {"error": {"code": "route_not_found", "message": "Nothing is served at /v1/v1/sessions/s."}}
    stub = Stub(httpx2.Response(404, json=said))
    client = Client("http://stub/v1", transport=httpx2.MockTransport(stub))
    with client, pytest.raises(errors.NotFoundError) as caught:
        client.session("s").info()
    assert "Give the client the address without a path: http://stub." in str(caught.value)
