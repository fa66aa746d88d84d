"""What both clients promise, sync and async alike: errors, pauses, pages, sessions and artifacts."""

import hashlib
import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.client import errors, offsets
from tests.unit.client.shells import Shell
from tests.unit.client.stub import LOST, STORED, Stub, refusal, said

pytestmark = pytest.mark.anyio

SESSION = {"id": "s", "created_at": "2026-11-15T12:00:00.123Z", "updated_at": "2026-11-15T12:00:00.123Z"}
SHOWN = said(200, SESSION)
DATA = b"some bytes"
DIGEST = hashlib.sha256(DATA).hexdigest()


def page(*numbers: int, next_page: str | None = None) -> Any:
    data = [{"id": f"e{n}", "type": "note", "offset": offsets.of(n)} for n in numbers]
    return said(200, {"data": data, "next_page": next_page})


def body(stub: Stub, index: int = 0) -> Any:
    return json.loads(stub.requests[index].content)


# Refusals and pauses --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_event", errors.BadRequestError),
        (401, "unauthenticated", errors.AuthenticationError),
        (403, "forbidden", errors.PermissionDeniedError),
        (403, "stale_epoch", errors.ProducerFencedError),
        (404, "session_not_found", errors.NotFoundError),
        (409, "session_closed", errors.ConflictError),
        (410, "gone", errors.NotFoundError),
        (412, "precondition_failed", errors.PreconditionFailedError),
        (413, "body_too_large", errors.TooLargeError),
        (429, "quota_exceeded", errors.RateLimitedError),
        (503, "overloaded", errors.ServerError),
        (418, "teapot", errors.ApiError),
    ],
)
async def test_every_refusal_is_an_error_of_its_own_class(
    shell: Shell, status: int, code: str, kind: type[errors.ApiError]
) -> None:
    client = shell.client(Stub(refusal(status, code, "Send something else.")), retries=0)
    with pytest.raises(kind) as caught:
        await shell.run(lambda: client.session("s").append({"type": "a"}))
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.code) == (status, code)
    # A missing key is told with the way to give one.
    assert caught.value.message.startswith("Send something else.")
    assert ("Client(api_key=…)" in caught.value.message) is (status == 401)


async def test_errors_carry_what_a_program_needs_to_go_on(shell: Shell) -> None:
    ended = refusal(412, "precondition_failed", stream_next_offset=offsets.of(9))
    client = shell.client(Stub(ended))
    with pytest.raises(errors.PreconditionFailedError) as failed:
        await shell.run(lambda: client.session("s").append({"type": "a"}, if_match=offsets.of(8)))
    assert failed.value.next_offset == offsets.of(9)
    client = shell.client(Stub(refusal(429, "quota_exceeded", retry_after="31")))
    with pytest.raises(errors.RateLimitedError) as limited:
        await shell.run(lambda: client.session("s").info())
    assert limited.value.retry_after == 31
    client = shell.client(Stub(refusal(409, "producer_gap", producer_expected_seq="4")))
    with pytest.raises(errors.ConflictError) as gap:
        await shell.run(lambda: client.session("s").append({"type": "a"}))
    assert gap.value.details["expected_seq"] == 4


async def test_a_server_that_asks_for_a_pause_gets_it(shell: Shell, pauses: list[float]) -> None:
    answers = [said(503, retry_after="7"), said(429, retry_after="30"), said(503, retry_after="x"), SHOWN]
    client = shell.client(Stub(*answers))
    assert (await shell.run(lambda: client.session("s").info())).id == "s"
    assert pauses == [7, 30, 0]


async def test_a_pause_that_is_too_long_is_left_to_the_caller(shell: Shell, pauses: list[float]) -> None:
    stub = Stub(said(503, retry_after="30.5"), SHOWN)
    client = shell.client(stub)
    with pytest.raises(errors.ServerError):
        await shell.run(lambda: client.session("s").info())
    assert pauses == []
    assert len(stub.requests) == 1


# Producers ------------------------------------------------------------------------------


async def test_an_append_is_repeated_under_its_number_until_it_is_stored(shell: Shell) -> None:
    stub = Stub(LOST, said(503), STORED)
    session = shell.client(stub).session("s")
    await shell.run(lambda: session.append({"type": "a"}))
    await shell.run(lambda: session.append({"type": "b"}))
    assert stub.numbers() == [(0, 0), (0, 0), (0, 0), (0, 1)]
    assert len({request.headers["producer-id"] for request in stub.requests}) == 1


async def test_a_client_that_is_made_anew_is_another_producer(shell: Shell) -> None:
    stub = Stub(STORED)
    for _ in range(2):
        session = shell.client(stub).session("s")
        await shell.run(partial(session.append, {"type": "a"}))
    assert stub.numbers() == [(0, 0), (0, 0)]
    first, second = (request.headers["producer-id"] for request in stub.requests)
    assert first != second, "it cannot know what the one before has sent"


# Pages ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "numbers"), [("asc", [0, 1, 2]), ("desc", [2, 1, 0])])
async def test_pages_are_walked_in_both_directions(shell: Shell, order: str, numbers: list[int]) -> None:
    stub = Stub(page(*numbers[:2], next_page="p"), LOST, page(*numbers[2:]))
    client = shell.client(stub)
    events = await shell.all(lambda: client.session("s").events(order=order))
    assert [event.position for event in events] == numbers
    for request in stub.requests:
        assert request.url.params.get("order") == (None if order == "asc" else "desc")
    assert [request.url.params.get("page") for request in stub.requests] == [None, "p", "p"]


async def test_a_list_of_sessions_is_walked_to_its_end(shell: Shell) -> None:
    stub = Stub(
        said(200, {"data": [SESSION], "next_page": "p"}), said(200, {"data": [SESSION], "next_page": None})
    )
    client = shell.client(stub)
    found = await shell.all(lambda: client.sessions.list(order="asc", sort="activity", agent_id="a"))
    assert [one.id for one in found] == ["s", "s"]
    for request in stub.requests:
        assert request.url.params["order"] == "asc"
        assert request.url.params["sort"] == "activity"
        assert request.url.params["agent_id"] == "a"


async def test_what_answers_must_speak_the_protocol(shell: Shell) -> None:
    client = shell.client(Stub(said(200, {"data": None})))
    with pytest.raises(errors.UnexpectedAnswerError, match="http://stub/v1/sessions/s/events"):
        await shell.all(lambda: client.session("s").events())


# Following ------------------------------------------------------------------------------


async def test_a_tail_that_is_refused_for_a_while_goes_on(shell: Shell) -> None:
    event = {"id": "e0", "type": "note", "offset": offsets.of(0)}
    stream = httpx2.Response(200, content=f": hello\n\ndata: {json.dumps(event)}\n\n".encode())
    over: dict[str, Any] = {"data": [], "next_page": None, "next_offset": offsets.of(1), "up_to_date": True}
    stub = Stub(said(503), LOST, stream, said(200, over, stream_closed="true"))
    client = shell.client(stub)
    assert [one.id for one in await shell.all(lambda: client.session("s").tail())] == ["e0"]
    assert len(stub.requests) == 4


async def test_a_tail_of_what_is_not_there_is_refused_at_once(shell: Shell) -> None:
    stub = Stub(refusal(404, "session_not_found"))
    client = shell.client(stub)
    with pytest.raises(errors.NotFoundError):
        await shell.all(lambda: client.session("s").tail())
    assert len(stub.requests) == 1


# Sessions -------------------------------------------------------------------------------


async def test_a_session_is_created_as_it_was_asked_for(shell: Shell) -> None:
    stub = Stub(said(201, SESSION))
    client = shell.client(stub)
    session = await shell.run(
        lambda: client.sessions.create(
            "s",
            title="t",
            metadata={"k": "v"},
            initial_events=[{"type": "a"}],
            ttl_seconds=60,
            expires_at=datetime(2027, 1, 1, tzinfo=UTC),
        )
    )
    assert repr(session) == ("AsyncSession('s')" if shell.is_async else "Session('s')")
    (request,) = stub.requests
    assert (request.method, request.url.path) == ("PUT", "/v1/sessions/s")
    assert request.headers["stream-ttl"] == "60"
    assert request.headers["stream-expires-at"] == "2027-01-01T00:00:00.000Z"
    assert body(stub) == {"title": "t", "metadata": {"k": "v"}, "initial_events": [{"type": "a"}]}


async def test_what_is_not_given_is_not_changed_and_none_removes(shell: Shell) -> None:
    stub = Stub(SHOWN)
    session = shell.client(stub).session("s")
    await shell.run(lambda: session.update(title=None))
    await shell.run(lambda: session.update(metadata={"k": None}))
    assert (body(stub, 0), body(stub, 1)) == ({"title": None}, {"metadata": {"k": None}})


async def test_a_fork_says_what_it_shares(shell: Shell) -> None:
    stub = Stub(said(201, {**SESSION, "id": "f"}))
    session = shell.client(stub).session("a/b")
    made = await shell.run(lambda: session.fork("f", at=7, title="t"))
    assert made.id == "f"
    (request,) = stub.requests
    assert request.headers["stream-forked-from"] == "/v1/sessions/a%2Fb"
    assert request.headers["stream-fork-offset"] == offsets.of(7)


async def test_a_session_is_shown_archived_and_deleted(shell: Shell) -> None:
    stub = Stub(SHOWN, SHOWN, SHOWN, said(204))
    client = shell.client(stub)
    assert (await shell.run(lambda: client.sessions.get("s"))).id == "s"
    await shell.run(client.session("s").close)
    await shell.run(client.session("s").archive)
    await shell.run(client.session("s").delete)
    assert [f"{request.method} {request.url.path}" for request in stub.requests] == [
        "GET /v1/sessions/s",
        "POST /v1/sessions/s/close",
        "POST /v1/sessions/s/archive",
        "DELETE /v1/sessions/s",
    ]


# Artifacts ------------------------------------------------------------------------------


@pytest.mark.parametrize("from_file", [False, True], ids=["bytes", "file"])
async def test_an_artifact_is_stored_under_its_digest(shell: Shell, tmp_path: Path, from_file: bool) -> None:
    stub = Stub(said(503), said(201, {"sha256": DIGEST, "bytes": len(DATA), "content_type": "text/plain"}))
    client = shell.client(stub)
    file = tmp_path / "file"
    file.write_bytes(DATA)
    stored = await shell.run(lambda: client.artifacts.put(file if from_file else DATA, "text/plain"))
    assert stored.path == f"/v1/artifacts/{DIGEST}"
    assert (stored.size, stored.media_type) == (len(DATA), "text/plain")
    for request in stub.requests:
        assert request.content == DATA, "a file is read anew for each attempt"
        assert request.headers["content-length"] == str(len(DATA))
        assert request.headers["content-type"] == "text/plain"


async def test_the_name_of_a_file_is_not_taken_for_its_bytes(shell: Shell) -> None:
    client = shell.client(Stub(SHOWN))
    with pytest.raises(TypeError, match="Give bytes, or the Path of a file"):
        await shell.run(lambda: client.artifacts.put("file"))


async def test_an_artifact_is_there_or_not(shell: Shell) -> None:
    client = shell.client(Stub(said(200), said(404), said(403)))
    assert await shell.run(lambda: client.artifacts.exists(DIGEST))
    assert not await shell.run(lambda: client.artifacts.exists(DIGEST))
    with pytest.raises(errors.PermissionDeniedError):
        await shell.run(lambda: client.artifacts.exists(DIGEST))
    stub = Stub(said(204))
    client = shell.client(stub)
    await shell.run(lambda: client.artifacts.delete(DIGEST))
    assert stub.requests[0].method == "DELETE"


async def test_an_artifact_that_is_refused_for_a_while_is_fetched(shell: Shell) -> None:
    whole = httpx2.Response(200, content=DATA)
    client = shell.client(Stub(said(503), LOST, whole))
    assert await shell.run(lambda: client.artifacts.get(DIGEST)) == DATA
    client = shell.client(Stub(httpx2.Response(200, content=DATA + b"!")))
    with pytest.raises(errors.DigestMismatchError) as caught:
        await shell.run(lambda: client.artifacts.get(DIGEST))
    assert caught.value.expected == DIGEST
