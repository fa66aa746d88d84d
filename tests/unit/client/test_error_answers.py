"""Unexpected answers: refusals, redirects, and what proxies say in place of the server."""

import json
from typing import Any

import httpx2
import pytest

from durable_sessions import Client
from durable_sessions.client import errors
from durable_sessions.client.error_answers import error_of, retry_after
from tests.unit.client.shells import Shell
from tests.unit.client.stub import LOST, STORED, Stub, refusal, said

pytestmark = pytest.mark.anyio

SESSION = {"id": "s", "created_at": "2026-11-15T12:00:00.123Z", "updated_at": "2026-11-15T12:00:00.123Z"}
LOGIN = b"<!doctype html><title>Log in</title>"


def answered(status: int, content: bytes = b"", **headers: str) -> httpx2.Response:
    """Return an answer as it came to a request."""
    request = httpx2.Request("GET", "http://stub/v1/sessions/s")
    fields = {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx2.Response(status, headers=fields, content=content, request=request)


def body(**members: Any) -> bytes:
    return json.dumps({"type": "error", "error": members}).encode()


# Redirects ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_error_and_the_key_goes_nowhere_else(shell: Shell, status: int) -> None:
    stub = Stub(said(status, location="http://elsewhere/v1/sessions/s"))
    session = shell.client(stub).session("s")
    for call in (session.info, lambda: session.append({"type": "a"})):
        with pytest.raises(errors.ApiError, match=f"http://stub/v1/sessions/s.* answered {status}") as caught:
            await shell.run(call)
        assert caught.value.status == status
        assert not caught.value.outcome_unknown
    assert {request.url.host for request in stub.requests} == {"stub"}
    assert len(stub.requests) == 2, "it is not retried either"


async def test_a_redirected_tail_ends(shell: Shell) -> None:
    stub = Stub(said(307, location="http://elsewhere/"))
    client = shell.client(stub)
    with pytest.raises(errors.ApiError, match="answered 307"):
        await shell.all(lambda: client.session("s").tail())
    assert len(stub.requests) == 1


async def test_a_missing_key_is_told_in_the_words_of_the_client() -> None:
    told = "This needs a key, and none was sent. Send a key as Authorization: Bearer <key>."
    error = error_of(answered(401, body(type="authentication_error", message=told)))
    assert isinstance(error, errors.AuthenticationError)
    assert error.message == (
        "This needs a key, and none was sent. Give a key with Client(api_key=…), or in the variable "
        "DURABLE_SESSIONS_API_KEY."
    )


# Proxies --------------------------------------------------------------------------------


async def test_a_login_page_is_not_taken_for_an_answer(shell: Shell) -> None:
    page = httpx2.Response(200, headers={"Content-Type": "text/html"}, content=LOGIN)
    client = shell.client(Stub(page))
    session = client.session("s")
    for call in (session.info, lambda: client.search("q"), lambda: session.event("e")):
        with pytest.raises(
            errors.UnexpectedAnswerError, match="something else than a Durable Sessions server"
        ):
            await shell.run(call)
    with pytest.raises(errors.UnexpectedAnswerError):
        await shell.all(session.events)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        {**SESSION, "created_at": "yesterday"},
        {**SESSION, "event_count": "many"},
        {**SESSION, "metadata": []},
        {**SESSION, "id": 7},
    ],
    ids=str,
)
async def test_a_session_of_another_shape_is_noticed(shell: Shell, value: Any) -> None:
    client = shell.client(Stub(said(200, value)))
    with pytest.raises(errors.UnexpectedAnswerError) as caught:
        await shell.run(lambda: client.sessions.get("s"))
    assert caught.value.__cause__ is not None
    assert "/v1/sessions/s" in str(caught.value)


async def test_members_that_a_newer_server_adds_are_kept(shell: Shell) -> None:
    client = shell.client(Stub(said(200, {**SESSION, "moon": "full"})))
    assert (await shell.run(lambda: client.sessions.get("s"))).raw["moon"] == "full"


async def test_a_gateway_page_is_retried_and_then_shown(shell: Shell) -> None:
    stub = Stub(httpx2.Response(502, content=b"<h1>Bad gateway</h1>" + b"x" * 10_000))
    client = shell.client(stub, retries=2)
    with pytest.raises(
        errors.ServerError, match="answered 502, not as a Durable Sessions server would: Bad gateway"
    ) as caught:
        await shell.run(lambda: client.sessions.get("s"))
    assert len(stub.requests) == 3
    assert len(caught.value.message) < 1_000, "not all of it"
    assert caught.value.request_id is None


async def test_an_append_refused_behind_a_failing_gateway_may_have_been_stored(shell: Shell) -> None:
    stub = Stub(said(502), refusal(409, "session_closed", "The session is closed."), STORED)
    session = shell.client(stub).session("s")
    with pytest.raises(errors.ConflictError, match="may have been carried out all the same") as caught:
        await shell.run(lambda: session.append({"type": "a"}))
    assert caught.value.outcome_unknown


async def test_an_append_that_is_simply_refused_was_not_stored(shell: Shell) -> None:
    stub = Stub(refusal(409, "session_closed", "The session is closed."))
    session = shell.client(stub).session("s")
    with pytest.raises(errors.ConflictError, match="The session is closed") as caught:
        await shell.run(lambda: session.append({"type": "a"}))
    assert not caught.value.outcome_unknown
    assert "carried out" not in str(caught.value)


# Closed sessions ------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["session_closed", "session_archived", "stream_closed"])
async def test_a_session_that_takes_no_events_says_so_each_time(shell: Shell, code: str) -> None:
    stub = Stub(refusal(409, code, x_should_retry="false"))
    session = shell.client(stub).session("s")
    for _ in range(2):
        with pytest.raises(errors.ConflictError) as caught:
            await shell.run(lambda: session.append({"type": "a"}))
        assert caught.value.code == code
    assert stub.numbers() == [(0, 0), (0, 0)], "no number is used up"


async def test_a_closed_session_can_be_read_and_renamed(shell: Shell) -> None:
    closed = {**SESSION, "lifecycle": "closed"}
    stub = Stub(refusal(409, "session_closed"), said(200, closed))
    session = shell.client(stub).session("s")
    with pytest.raises(errors.ConflictError):
        await shell.run(lambda: session.append({"type": "a"}))
    assert (await shell.run(session.info)).lifecycle == "closed"
    assert (await shell.run(lambda: session.update(title="t"))).id == "s"


# What an error says ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 404, 409, 413, 418, 429, 500, 503, 599])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b'{"error":null}',
        b'{"error":[]}',
        b'{"error":{"details":"x"}}',
        b"\xff\xfe",
        b"{",
    ],
)
def test_any_body_makes_an_error_that_names_address_and_status(status: int, content: bytes) -> None:
    error = error_of(answered(status, content))
    assert error.status == status
    assert error.type == "api_error"
    assert f"http://stub/v1/sessions/s answered {status}" in str(error)
    assert isinstance(error, errors.ServerError) == (status >= 500)


def test_a_code_of_the_streams_face_is_a_code() -> None:
    error = error_of(answered(409, body(code="stream_closed", message="Closed.")))
    assert (error.code, error.type, error.message) == ("stream_closed", "stream_closed", "Closed.")
    assert error.details == {"error_code": "stream_closed"}


def test_details_are_the_servers_and_the_code_in_them_counts() -> None:
    details = {"error_code": "invalid_event", "index": 3, "position": 17}
    error = error_of(answered(400, body(type="invalid_request_error", message="No.", details=details)))
    assert error.details == details
    assert (error.type, error.code) == ("invalid_request_error", "invalid_event")


def test_an_error_without_a_code_has_its_type_for_one() -> None:
    assert error_of(answered(400, body(type="invalid_request_error", message="No."))).code == (
        "invalid_request_error"
    )


def test_the_number_that_a_server_expects_is_a_detail() -> None:
    error = error_of(answered(409, body(message="Gap."), producer_expected_seq="4"))
    assert error.details["expected_seq"] == 4
    assert error_of(answered(409, body(message="Gap."), producer_expected_seq="x")).details == {}


def test_a_stale_epoch_means_that_another_producer_took_over() -> None:
    stale = body(type="permission_error", details={"error_code": "stale_epoch"})
    assert type(error_of(answered(403, stale))) is errors.ProducerFencedError
    assert type(error_of(answered(403, body(type="permission_error")))) is errors.PermissionDeniedError


def test_a_failed_precondition_says_where_the_session_ends() -> None:
    error = error_of(answered(412, body(message="No."), stream_next_offset="x"))
    assert isinstance(error, errors.PreconditionFailedError)
    assert error.next_offset == "x"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("1.5", 1.5),
        ("30", 30.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("inf", None),
        ("nan", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_a_pause_is_a_number_of_seconds(text: str, seconds: float | None) -> None:
    assert retry_after(answered(503, retry_after=text)) == seconds
    error = error_of(answered(429, retry_after=text))
    assert isinstance(error, errors.RateLimitedError)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("status", "certain"), [(400, True), (412, True), (413, True), (404, False), (409, False), (500, False)]
)
def test_only_what_proves_that_nothing_was_done_is_certain(status: int, certain: bool) -> None:
    error = error_of(answered(status), outcome_unknown=True)
    assert error.certain == certain
    assert error.outcome_unknown == (not certain)
    assert ("may have been carried out" in str(error)) == (not certain)


def test_errors_without_an_answer_prove_nothing() -> None:
    assert not errors.ConnectionFailedError("http://stub", "reset").certain
    assert not errors.UnexpectedAnswerError("http://stub", "what").certain


@pytest.mark.parametrize(("attempts", "tried"), [(1, "tried once"), (2, "tried 2 times")])
def test_a_connection_error_counts_its_attempts(attempts: int, tried: str) -> None:
    error = errors.ConnectionFailedError("http://stub", "reset", attempts=attempts)
    assert f"No answer from http://stub, {tried}: reset." in str(error)
    assert (error.reason, error.attempts, error.outcome_unknown) == ("reset", attempts, False)


def test_a_digest_that_differs_is_named() -> None:
    error = errors.DigestMismatchError("aa", "bb")
    assert str(error) == "The artifact aa arrived with the SHA-256 bb. Get it again."
    assert (error.expected, error.found) == ("aa", "bb")


@pytest.mark.parametrize("kind", errors.ApiError.__subclasses__())
def test_every_error_of_the_client_has_one_base(kind: type[errors.ApiError]) -> None:
    assert issubclass(kind, errors.ClientError)
    assert kind.__doc__, "it says when it is raised"


# Attempts that cannot succeed -----------------------------------------------------------


async def test_a_failure_of_the_program_itself_is_not_retried(shell: Shell) -> None:
    stub = Stub(httpx2.LocalProtocolError("Illegal header value"))
    with pytest.raises(errors.ConnectionFailedError, match="Illegal header value"):
        await shell.run(lambda: shell.client(stub).sessions.get("s"))
    assert len(stub.requests) == 1


async def test_a_lost_answer_is_retried_as_often_as_was_said(shell: Shell) -> None:
    stub = Stub(LOST, LOST, LOST, said(200, SESSION))
    assert (await shell.run(lambda: shell.client(stub, retries=3).sessions.get("s"))).id == "s"
    with pytest.raises(errors.ConnectionFailedError):
        await shell.run(lambda: shell.client(Stub(LOST), retries=3).sessions.get("s"))


def test_a_client_without_a_key_sends_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DURABLE_SESSIONS_API_KEY", raising=False)
    stub = Stub(said(200, SESSION))
    with Client("http://stub", transport=httpx2.MockTransport(stub)) as client:
        client.sessions.get("s")
    assert "authorization" not in stub.requests[0].headers
    assert stub.requests[0].headers["user-agent"] == "durable-sessions-python"
