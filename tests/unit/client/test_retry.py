"""What is sent again, when, and what the caller is told in the end."""

import httpx2
import pytest

from durable_sessions import Client
from durable_sessions.client import errors, retry
from tests.unit.client.stub import LOST, UNSENT, Stub, refusal, said

SESSION = {"id": "s", "created_at": "2026-11-15T12:00:00.123Z", "updated_at": "2026-11-15T12:00:00.123Z"}
SHOWN = said(200, SESSION)


@pytest.mark.parametrize(
    "failure", [LOST, UNSENT, said(408), said(429), said(500), said(502), said(503), said(504)]
)
def test_passing_failures_are_retried(failure: httpx2.Response | Exception) -> None:
    stub = Stub(failure, failure, SHOWN)
    assert stub.client().session("s").info().id == "s"
    assert len(stub.requests) == 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequestError),
        (401, errors.AuthenticationError),
        (403, errors.PermissionDeniedError),
        (404, errors.NotFoundError),
        (409, errors.ConflictError),
        (410, errors.NotFoundError),
        (412, errors.PreconditionFailedError),
        (413, errors.TooLargeError),
        (418, errors.ApiError),
        (501, errors.ServerError),
    ],
)
def test_final_refusals_are_raised_at_once(status: int, kind: type[errors.ApiError]) -> None:
    stub = Stub(refusal(status, "some_code", "Send something else."))
    with pytest.raises(kind) as caught:
        stub.client().session("s").info()
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.type, error.code) == (status, "some_error", "some_code")
    assert error.message.startswith("Send something else.")  # 401 is told with the way to give a key
    assert error.request_id == "req_1"
    assert "Send something else." in str(error)
    assert "req_1" in str(error)
    assert len(stub.requests) == 1


@pytest.mark.parametrize(("retries", "requests"), [(0, 1), (1, 2), (4, 5)])
def test_retries_are_bounded(retries: int, requests: int) -> None:
    for failure, kind in ((LOST, errors.ConnectionFailedError), (said(503), errors.ServerError)):
        stub = Stub(failure)
        with pytest.raises(kind):
            stub.client(retries).session("s").info()
        assert len(stub.requests) == requests


def test_a_server_that_says_so_is_not_asked_again() -> None:
    stub = Stub(refusal(503, "overloaded", x_should_retry="false"))
    with pytest.raises(errors.ServerError):
        stub.client().session("s").info()
    assert len(stub.requests) == 1


def test_a_long_pause_is_left_to_the_caller() -> None:
    stub = Stub(refusal(429, "quota_exceeded", retry_after="60"))
    with pytest.raises(errors.RateLimitedError) as caught:
        stub.client().session("s").info()
    assert caught.value.retry_after == 60
    assert len(stub.requests) == 1


def test_pauses_double_with_jitter_up_to_a_bound_and_honour_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.25)
    for failures, most in ((1, 0.25), (2, 0.5), (5, 4.0), (9, 15.0), (10_000, 15.0)):
        assert most / 2 <= retry.pause_seconds(failures) <= most
    attempts = retry.Attempts("http://stub", 3)
    assert attempts.refused(said(503, retry_after="7")) == 7
    assert attempts.refused(said(503, retry_after="soon")) <= 0.5


def test_a_connection_error_says_where_and_what_to_try() -> None:
    with pytest.raises(errors.ConnectionFailedError) as caught:
        Stub(UNSENT).client(retries=2).session("s").info()
    assert caught.value.url == "http://stub"
    assert caught.value.attempts == 3
    assert "http://stub, tried 3 times: connection refused" in str(caught.value)
    assert "DURABLE_SESSIONS_URL" in str(caught.value)


def test_a_delete_whose_answer_was_lost_is_done() -> None:
    gone = refusal(404, "session_not_found")
    Stub(LOST, gone).client().session("s").delete()
    with pytest.raises(errors.NotFoundError):
        Stub(gone).client().session("s").delete()
    with pytest.raises(errors.NotFoundError):
        Stub(UNSENT, gone).client().session("s").delete()


def test_a_creation_is_sent_again_under_the_same_id() -> None:
    stub = Stub(LOST, said(201, SESSION))
    stub.client().sessions.create(title="t")
    first, second = stub.requests
    assert first.method == "PUT"
    assert first.url == second.url
    assert first.url.path.startswith("/v1/sessions/sesn_")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"id":"s"}'])
def test_something_else_that_answers_is_noticed(body: bytes) -> None:
    stub = Stub(httpx2.Response(200, content=body))
    with pytest.raises(errors.UnexpectedAnswerError, match="http://stub/v1/sessions/s"):
        stub.client().session("s").info()


@pytest.mark.parametrize("body", [b"<html>Bad gateway", b"", b"[1]", b'{"error":"x"}'])
def test_a_refusal_of_something_else_is_shown(body: bytes) -> None:
    with pytest.raises(errors.ServerError, match="http://stub/v1/sessions/s answered 501"):
        Stub(httpx2.Response(501, content=body)).client().session("s").info()


def test_the_key_is_shown_and_the_url_checked() -> None:
    stub = Stub(SHOWN)
    stub.client().session("s").info()
    assert stub.requests[0].headers["authorization"] == "Bearer key"
    with pytest.raises(ValueError, match="not the address of a server"):
        Client("localhost:4437")
    with pytest.raises(ValueError, match="retries"):
        Client(retries=-1)


@pytest.mark.anyio
async def test_the_async_client_does_the_same() -> None:
    stub = Stub(LOST, said(503), SHOWN)
    async with stub.async_client() as client:
        assert (await client.session("s").info()).id == "s"
        assert len(stub.requests) == 3
    async with Stub(LOST).async_client(2) as client:
        with pytest.raises(errors.ConnectionFailedError, match="tried 3 times"):
            await client.session("s").info()
