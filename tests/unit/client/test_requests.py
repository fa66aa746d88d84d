"""What every method of both clients sends: method, path, parameters, headers and body."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import httpx2
import pytest

from durable_sessions.client import errors, offsets
from tests.unit.client.shells import Shell
from tests.unit.client.stub import STORED, Stub, said

pytestmark = pytest.mark.anyio

SESSION = {"id": "s", "created_at": "2026-11-15T12:00:00.123Z", "updated_at": "2026-11-15T12:00:00.123Z"}
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
NOON_ABROAD = datetime(2026, 11, 15, 14, tzinfo=timezone(timedelta(hours=2)))
NOON_TEXT = "2026-11-15T12:00:00.000Z"
EMPTY_PAGE = said(200, {"data": [], "next_page": None})
NO_HITS = said(200, {"data": [], "total_hits": 0, "total_sessions": 0, "next_page": None})


def parameters(stub: Stub) -> list[tuple[str, str]]:
    (request,) = stub.requests
    return list(request.url.params.multi_items())


async def asked(shell: Shell, reply: httpx2.Response, call: Callable[[Any], Any]) -> httpx2.Request:
    """Return the one request that a call makes."""
    stub = Stub(reply)
    await shell.run(lambda: call(shell.client(stub)))
    (request,) = stub.requests
    return request


# Lists ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [("limit", "1000")]),
        ({"offset": 7}, [("offset", offsets.of(7)), ("limit", "1000")]),
        ({"offset": "now"}, [("offset", "now"), ("limit", "1000")]),
        ({"from_": 0}, [("from", "0"), ("limit", "1000")]),
        ({"tail": 5}, [("tail", "5"), ("limit", "5")]),
        ({"tail": 5, "limit": 3}, [("tail", "5"), ("limit", "3")]),
        ({"tail": 5, "pairs": "keep"}, [("tail", "5"), ("pairs", "keep"), ("limit", "1000")]),
        ({"around": 9, "window": 2}, [("around", "9"), ("window", "2"), ("limit", "1000")]),
        ({"order": "asc"}, [("limit", "1000")]),
        ({"order": "desc"}, [("order", "desc"), ("limit", "1000")]),
        ({"types": "a.*"}, [("types[]", "a.*"), ("limit", "1000")]),
        ({"types": ["a", "b"]}, [("types[]", "a"), ("types[]", "b"), ("limit", "1000")]),
        ({"after": NOON, "before": "x"}, [("after", NOON_TEXT), ("before", "x"), ("limit", "1000")]),
        ({"after": NOON_ABROAD}, [("after", NOON_TEXT), ("limit", "1000")]),
        ({"limit": 1_001}, [("limit", "1000")]),
        ({"limit": 999}, [("limit", "999")]),
    ],
    ids=str,
)
async def test_every_filter_of_events_is_sent(
    shell: Shell, filters: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    if "types" in filters and not isinstance(filters["types"], str):
        filters = {"types": iter(filters["types"])}  # an iterator does, too
    stub = Stub(EMPTY_PAGE)
    await shell.all(lambda: shell.client(stub).session("s").events(**filters))
    assert stub.requests[0].method == "GET"
    assert stub.requests[0].url.path == "/v1/sessions/s/events"
    assert parameters(stub) == expected


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [("order", "desc"), ("limit", "100")]),
        ({"order": "asc"}, [("order", "asc"), ("limit", "100")]),
        ({"q": "deploy"}, [("q", "deploy"), ("order", "desc"), ("limit", "100")]),
        ({"agent_id": "a1"}, [("agent_id", "a1"), ("order", "desc"), ("limit", "100")]),
        ({"sort": "activity"}, [("order", "desc"), ("sort", "activity"), ("limit", "100")]),
        ({"metadata": {"k": "v"}}, [("order", "desc"), ("metadata[k]", "v"), ("limit", "100")]),
        ({"lifecycle": "open"}, [("order", "desc"), ("lifecycle", "open"), ("limit", "100")]),
        (
            {"statuses": ["idle", "running"]},
            [("order", "desc"), ("statuses[]", "idle"), ("statuses[]", "running"), ("limit", "100")],
        ),
        ({"after": NOON}, [("order", "desc"), ("after", NOON_TEXT), ("limit", "100")]),
        ({"include_archived": True}, [("order", "desc"), ("include_archived", "true"), ("limit", "100")]),
        ({"include_archived": False}, [("order", "desc"), ("limit", "100")]),
        ({"limit": 3}, [("order", "desc"), ("limit", "3")]),
        ({"limit": 101}, [("order", "desc"), ("limit", "100")]),
    ],
    ids=str,
)
async def test_every_filter_of_sessions_is_sent(
    shell: Shell, filters: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    stub = Stub(EMPTY_PAGE)
    assert await shell.all(lambda: shell.client(stub).sessions.list(**filters)) == []
    assert stub.requests[0].url.path == "/v1/sessions"
    assert parameters(stub) == expected


@pytest.mark.parametrize("limit", [1, 100, 101, 250])
async def test_a_list_ends_at_its_limit_though_there_is_more(shell: Shell, limit: int) -> None:
    served = [{**SESSION, "id": f"s{number}"} for number in range(100)]
    stub = Stub(said(200, {"data": served, "next_page": "more"}))
    listed = await shell.all(lambda: shell.client(stub).sessions.list(limit=limit))
    assert len(listed) == limit
    assert len(stub.requests) == -(-limit // 100)
    assert stub.requests[-1].url.params["limit"] == str(limit % 100 or 100)


# Search ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [("limit", "20"), ("hits", "3")]),
        ({"limit": 5, "hits": 1}, [("limit", "5"), ("hits", "1")]),
        ({"session": "s"}, [("limit", "20"), ("hits", "3"), ("session", "s")]),
        ({"role": "user"}, [("limit", "20"), ("hits", "3"), ("role", "user")]),
        ({"agent": "a"}, [("limit", "20"), ("hits", "3"), ("agent", "a")]),
        ({"metadata": {"k": "v"}}, [("limit", "20"), ("hits", "3"), ("metadata[k]", "v")]),
        ({"types": ["a", "b"]}, [("limit", "20"), ("hits", "3"), ("types[]", "a"), ("types[]", "b")]),
        ({"after": NOON}, [("limit", "20"), ("hits", "3"), ("after", NOON_TEXT)]),
        ({"before": NOON}, [("limit", "20"), ("hits", "3"), ("before", NOON_TEXT)]),
        ({"order": "desc"}, [("limit", "20"), ("hits", "3"), ("order", "desc")]),
        ({"page": "p"}, [("limit", "20"), ("hits", "3"), ("page", "p")]),
    ],
    ids=str,
)
async def test_every_filter_of_a_search_is_sent(
    shell: Shell, filters: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    stub = Stub(NO_HITS)
    found = await shell.run(lambda: shell.client(stub).search("time out", **filters))
    assert (found.groups, found.total_hits, found.next_page, found.up_to_date) == ([], 0, None, True)
    assert stub.requests[0].url.path == "/v1/search"
    assert parameters(stub) == [("q", "time out"), *expected]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [("limit", "20")]),
        ({"limit": 1}, [("limit", "1")]),
        ({"role": "user"}, [("limit", "20"), ("role", "user")]),
        ({"order": "asc"}, [("limit", "20"), ("order", "asc")]),
        ({"page": "p"}, [("limit", "20"), ("page", "p")]),
        ({"types": "a"}, [("limit", "20"), ("types[]", "a")]),
        ({"after": NOON, "before": NOON}, [("limit", "20"), ("after", NOON_TEXT), ("before", NOON_TEXT)]),
    ],
    ids=str,
)
async def test_every_filter_of_a_search_in_a_session_is_sent(
    shell: Shell, filters: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    stub = Stub(NO_HITS)
    found = await shell.run(lambda: shell.client(stub).session("s").search("x", **filters))
    assert (found.hits, found.total_hits) == ([], 0)
    assert stub.requests[0].url.path == "/v1/sessions/s/events"
    assert parameters(stub) == [("q", "x"), *expected]


async def test_a_hit_has_its_event_apart_from_how_it_matched(shell: Shell) -> None:
    how = {"score": 2.5, "snippet": "a <b>word</b>", "highlights": ["word"]}
    hit = {"id": "e1", "type": "note", "offset": offsets.of(1), "search": how}
    bare = {"id": "e2", "type": "note", "offset": offsets.of(2)}
    reply = said(
        200,
        {"data": [hit, bare], "total_hits": 2, "indexed_through": "x", "up_to_date": False, "next_page": "p"},
    )
    found = await shell.run(lambda: shell.client(Stub(reply)).session("s").search("word"))
    first, second = found.hits
    assert (first.score, first.snippet, first.highlights) == (2.5, "a <b>word</b>", ["word"])
    assert "search" not in first.event
    assert first.raw == hit
    assert (second.score, second.snippet, second.highlights) == (0.0, "", [])
    assert (found.total_hits, found.indexed_through, found.up_to_date, found.next_page) == (
        2,
        "x",
        False,
        "p",
    )


# Sessions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "t"),
        ("metadata", {"k": 1}),
        ("agent", "agent_1"),
        ("agent", {"id": "agent_1", "version": 2}),
        ("environment_id", "env_1"),
        ("initial_events", [{"type": "a"}]),
        ("resources", [{"type": "file"}]),
        ("budget", {"tokens": 7}),
    ],
)
async def test_every_field_of_a_new_session_is_in_its_body(shell: Shell, field: str, value: Any) -> None:
    fields = {field: value}
    request = await asked(shell, said(201, SESSION), lambda client: client.sessions.create("s", **fields))
    assert (request.method, request.url.path) == ("PUT", "/v1/sessions/s")
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.content) == {field: value}
    assert "stream-ttl" not in request.headers
    assert "stream-expires-at" not in request.headers


async def test_sessions_without_an_id_get_different_ones(shell: Shell) -> None:
    stub = Stub(said(201, SESSION))
    client = shell.client(stub)
    for _ in range(2):
        await shell.run(client.sessions.create)
    first, second = (request.url.path for request in stub.requests)
    assert first != second
    assert len(first) == len("/v1/sessions/sesn_") + 32


@pytest.mark.parametrize("source", [None, "0123456789ab"])
async def test_a_fork_is_of_the_session_that_answered(shell: Shell, source: str | None) -> None:
    made = {**SESSION, "id": "f", "incarnation": "ba9876543210"}
    headers = {} if source is None else {"session_incarnation": source}
    stub = Stub(said(200, SESSION, **headers), said(201, made))
    session = shell.client(stub).session("s")
    await shell.run(session.info)
    forked = await shell.run(lambda: session.fork(metadata={"k": "v"}))
    assert forked.incarnation == "ba9876543210"
    request = stub.requests[1]
    expected = "/v1/sessions/s" + ("" if source is None else f"?incarnation={source}")
    assert request.headers["stream-forked-from"] == expected
    assert "stream-fork-offset" not in request.headers, "all events"
    assert json.loads(request.content) == {"metadata": {"k": "v"}}


async def test_a_fork_at_the_first_event_shares_none(shell: Shell) -> None:
    request = await asked(shell, said(201, SESSION), lambda client: client.session("s").fork(at=0))
    assert request.headers["stream-fork-offset"] == offsets.of(0)


@pytest.mark.parametrize("name", ["a/b", "ä", "a b", "a?b#c", "%2F"])
async def test_an_id_is_one_segment_of_the_path(shell: Shell, name: str) -> None:
    request = await asked(shell, said(200, SESSION), lambda client: client.sessions.get(name))
    assert request.url.raw_path.count(b"/") == 3
    assert request.url.path == f"/v1/sessions/{name}"


@pytest.mark.parametrize("event_id", ["", ".", ".."])
async def test_an_event_needs_an_id(shell: Shell, event_id: str) -> None:
    stub = Stub(said(200))
    session = shell.client(stub).session("s")
    with pytest.raises(ValueError, match="is no id"):
        await shell.run(lambda: session.event(event_id))
    assert stub.requests == []


async def test_a_position_is_no_id(shell: Shell) -> None:
    stub = Stub(said(200))
    session: Any = shell.client(stub).session("s")
    for call in (lambda: session.event(7), lambda: session.why(7), lambda: session.impact(7)):
        with pytest.raises(TypeError, match="An id is a text such as 'sevt_1', not 7"):
            await shell.run(call)
    assert stub.requests == []


async def test_one_event_is_read_by_its_id(shell: Shell) -> None:
    reply = said(200, {"id": "e/1", "type": "note", "offset": offsets.of(3)})
    stub = Stub(reply)
    event = await shell.run(lambda: shell.client(stub).session("s").event("e/1"))
    assert (event.id, event.position) == ("e/1", 3)
    assert stub.requests[0].url.raw_path == b"/v1/sessions/s/events/e%2F1"


# Appends --------------------------------------------------------------------------------


async def test_one_event_is_sent_as_a_list_of_one(shell: Shell) -> None:
    request = await asked(shell, STORED, lambda client: client.session("s").append({"type": "a", "n": 1}))
    assert (request.method, request.url.path) == ("POST", "/v1/sessions/s/events")
    assert json.loads(request.content) == [{"type": "a", "n": 1}]
    assert request.headers["content-type"] == "application/json"
    assert "if-match" not in request.headers


async def test_events_of_a_generator_are_sent_together(shell: Shell) -> None:
    request = await asked(
        shell, STORED, lambda client: client.session("s").append({"type": f"t{n}"} for n in range(3))
    )
    assert [event["type"] for event in json.loads(request.content)] == ["t0", "t1", "t2"]


async def test_an_event_that_is_not_json_sends_nothing_and_uses_no_number(shell: Shell) -> None:
    stub = Stub(STORED)
    session = shell.client(stub).session("s")
    with pytest.raises(TypeError, match="object is not JSON"):
        await shell.run(lambda: session.append({"type": "a", "value": object()}))
    assert stub.requests == []
    await shell.run(lambda: session.append({"type": "a"}))
    assert stub.numbers() == [(0, 0)]


async def test_an_acknowledgement_without_an_offset_is_none_of_this_server(shell: Shell) -> None:
    stub = Stub(said(204), STORED)
    session = shell.client(stub).session("s")
    with pytest.raises(errors.UnexpectedAnswerError, match="stream-next-offset") as caught:
        await shell.run(lambda: session.append({"type": "a"}))
    assert caught.value.outcome_unknown
    assert caught.value.url == "http://stub/v1/sessions/s/events"


# Artifacts ------------------------------------------------------------------------------


@pytest.mark.parametrize("digest", ["", "A" * 64, "a" * 63, "a" * 65, "g" * 64, "../" + "a" * 61])
async def test_what_is_no_digest_is_refused_before_anything_is_sent(shell: Shell, digest: str) -> None:
    stub = Stub(said(200))
    artifacts = shell.client(stub).artifacts
    for call in (artifacts.get, artifacts.exists, artifacts.delete):
        with pytest.raises(ValueError, match="named by its SHA-256"):
            await shell.run(partial(call, digest))
    assert stub.requests == []


async def test_a_file_that_is_not_there_is_an_error_of_the_program(shell: Shell, tmp_path: Any) -> None:
    stub = Stub(said(200))
    with pytest.raises(FileNotFoundError):
        await shell.run(lambda: shell.client(stub).artifacts.put(tmp_path / "nothing"))
    assert stub.requests == []


async def test_an_empty_artifact_is_one(shell: Shell) -> None:
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    stub = Stub(httpx2.Response(200, content=b""))
    assert await shell.run(lambda: shell.client(stub).artifacts.get(empty)) == b""
    assert stub.requests[0].headers["accept-encoding"] == "identity"
