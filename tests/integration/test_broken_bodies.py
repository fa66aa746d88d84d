"""Broken bodies on every route that takes JSON: one wording and one code for one fault, in our own words."""

import gzip
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from durable_sessions.http.error_codes import STATUS_BY_CODE
from durable_sessions.http.openapi.document import NOUNS
from durable_sessions.http.openapi.parts import JSON, Operation
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing import server
from tests.support.refusals import error_code
from tests.support.waiting import PATIENCE_SECONDS

THEIRS = {"anthropic-version": "2023-06-01"}
BY_TOKEN = ("ackWake", "releaseWake", "callbackWake")
"""Operations of the holder of a wake, whose token is checked before the body."""
OPERATIONS = [
    (noun.name, operation)
    for noun in NOUNS
    for operation in noun.operations
    if operation.body is not None and JSON in operation.body.content and operation.id not in BY_TOKEN
]
CODES = {
    "Sessions": "invalid_session",
    "Events": "invalid_event",
    "Work": "invalid_request",
    "Environment work": "invalid_request",
    "Memory": "invalid_request",
    "Resources": "invalid_resource",
    "Agents": "invalid_agent",
    "Environments": "invalid_environment",
    "Memory stores": "invalid_memory_store",
    "Ingest": "invalid_hook",
    "OpenTelemetry": "invalid_telemetry",
    "Subscriptions": "INVALID_REQUEST",
    "Keys and audit": "invalid_key",
    "Sign-in": "invalid_request",
}
CODES_OF = {
    "createMemory": "invalid_memory",
    "updateMemory": "invalid_memory",
    "redactEvents": "invalid_request",
    "closeSession": "invalid_request",
}
"""Of operations whose body is about something else than their noun."""
DEEP = DEFAULT_LIMITS.json_depth_max * 2
BROKEN: dict[str, tuple[bytes, str]] = {
    "truncated": (b'{"a":1,\n"b":[1,', "it ends too early, at line 2, column 8; send all of it"),
    "truncated in a text": (b'{"title":"abc', "it ends too early, at line 1, column 14; send all of it"),
    "NaN": (b'{"title": NaN}', "line 1, column 11: found NaN; send null or a number"),
    "infinite": (b'{"title":-Infinity}', "found Infinity; send null or a number"),
    "Python's None": (b'{"title":None}', "line 1, column 10: found None; send null"),
    "packed": (gzip.compress(b'{"title":"a"}'), "packed with gzip; unpack it, and send it"),
    "byte order mark": (b'\xef\xbb\xbf{"title":"a"}', "byte order mark; send UTF-8 without one"),
    "not UTF-8": (b'{"title":"\xff"}', "line 1, column 11: found the byte 0xff; send text as UTF-8"),
    "deep lists": (b"[" * DEEP + b"]" * DEEP, "nests deeper than 128 levels"),
    "deep objects": (b'{"metadata":' * DEEP + b"1" + b"}" * DEEP, "nests deeper than 128 levels"),
    "beyond any stack": (b"[" * 100_000, "nests deeper than 128 levels"),
    "no JSON": (b"title=x", "line 1, column 1: found title; send an object"),
    "two values": (b'{"type":"a"} x', "line 1, column 14: found x; send nothing after"),
    "comma at the end": (b'{"type":"a",}', "line 1, column 13: found }; leave out the comma"),
    "single quotes": (b"{'type':'a'}", "line 1, column 2: found '; send texts and names in double quotes"),
    "bare names": (b'{type:"a"}', "line 1, column 2: found type; send names in double quotes"),
    "line break in a text": (
        b'{"type":"a\n"}',
        "found the character U+000A; send control characters escaped",
    ),
    "unknown escape": (b'{"type":"\\x41"}', "found x41; send a backslash as"),
}
"""Bodies that are no JSON, and what is said of them."""
MISSHAPEN: dict[str, tuple[bytes, str]] = {
    "a list": (b"[1]", "is a list; send an object"),
    "a number": (b"7", "is a whole number; send an object"),
    "a text": (b'"x"', "is a text; send an object"),
    "null": (b"null", "is null; send an object"),
}
WRONG_MEMBERS = [
    b'{"title":7,"name":7,"type":7,"agent":7,"metadata":7,"principal":7,"role":7,"streams":7,"worker":7}',
    b'{"title":[],"name":[],"type":[],"metadata":[],"principal":[],"role":[],"streams":[7],"worker":[]}',
    b'{"metadata":{"a":[]},"name":{},"type":{},"events":7,"principal":{},"role":{},"streams":{}}',
    b'{"initial_events":[1],"events":[1],"name":null,"type":null,"streams":[{}],"hook_event_name":1}',
]
DECODERS = (
    "malformed",
    "Expected `",
    "$.",
    "$[",
    "truncated",
    "(byte",
    "msgspec",
    "<class",
    "b'",
    "Traceback",
)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with (
        server(tmp_path_factory.mktemp("data")) as one,
        httpx2.Client(base_url=one.url, timeout=PATIENCE_SECONDS) as client,
    ):
        client.put("/v1/sessions/s").raise_for_status()
        client.put("/v1/stream/s", headers={"Content-Type": JSON}).raise_for_status()
        yield client


def path_of(operation: Operation) -> str:
    path = operation.path
    for parameter in operation.parameters:
        if parameter.place == "path":
            ours = {"session_id": "s", "path": "new" if operation.method == "put" else "s"}
            path = path.replace("{" + parameter.name + "}", ours.get(parameter.name, str(parameter.example)))
    return path


def ask(
    api: httpx2.Client, operation: Operation, body: bytes, headers: dict[str, str] | None = None
) -> httpx2.Response:
    fields = {"Content-Type": JSON, **(headers or {})}
    return api.request(operation.method, path_of(operation), content=body, headers=fields)


def check_words(answer: httpx2.Response) -> str:
    """Check the shape of a refusal and that no decoder speaks in it; return its message."""
    said: dict[str, Any] = answer.json()
    if answer.request.url.path.startswith("/v1/stream"):
        assert list(said) == ["error"]
        assert STATUS_BY_CODE[said["error"]["code"].lower()] == answer.status_code
    else:
        assert (list(said), said["type"]) == (["type", "error", "request_id"], "error")
        assert STATUS_BY_CODE[said["error"]["details"]["error_code"]] == answer.status_code
    message = str(said["error"]["message"])
    for foreign in DECODERS:
        assert foreign not in message, message
    assert message.endswith((".", "?"))
    return message


@pytest.mark.parametrize(("noun", "operation"), OPERATIONS, ids=lambda one: getattr(one, "id", one))
def test_what_is_no_json_is_told_alike_everywhere(
    api: httpx2.Client, noun: str, operation: Operation
) -> None:
    for name, (body, said) in BROKEN.items():
        for headers in ({}, THEIRS):
            answer = ask(api, operation, body, headers)
            message = check_words(answer)
            assert answer.status_code == 400, name
            assert error_code(answer) == ("INVALID_REQUEST" if noun == "Subscriptions" else "invalid_json"), (
                name
            )
            assert message.startswith("The body is not valid JSON: "), name
            assert said in message, name


@pytest.mark.parametrize(("noun", "operation"), OPERATIONS, ids=lambda one: getattr(one, "id", one))
def test_another_shape_is_refused_as_what_it_should_be(
    api: httpx2.Client, noun: str, operation: Operation
) -> None:
    if noun == "Streams":
        return  # any JSON may be in a stream
    for name, (body, said) in MISSHAPEN.items():
        answer = ask(api, operation, body)
        message = check_words(answer)
        assert (answer.status_code, error_code(answer)) == (400, CODES_OF.get(operation.id, CODES[noun])), (
            name
        )
        assert noun == "Events" or said in message, name


@pytest.mark.parametrize(("noun", "operation"), OPERATIONS, ids=lambda one: getattr(one, "id", one))
def test_members_of_another_type_are_refused_as_what_they_belong_to(
    api: httpx2.Client, noun: str, operation: Operation
) -> None:
    if noun in ("Streams", "OpenTelemetry") or operation.id in ("updateResource", "stopWork"):
        return  # what is kept as it came, what may have members of later versions, and what is not looked at
    for body in WRONG_MEMBERS:
        answer = ask(api, operation, body)
        check_words(answer)
        assert answer.status_code == 400, body
        assert error_code(answer) in (CODES_OF.get(operation.id, CODES[noun]), "invalid_event"), body


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "said"),
    [
        (
            "POST",
            "/v1/sessions",
            b'{"titel":"x"}',
            "invalid_session",
            "no member titel here. Did you mean title?",
        ),
        ("POST", "/v1/sessions", b'{"zzz":1}', "invalid_session", "Send what is your own in metadata."),
        (
            "POST",
            "/v1/sessions",
            b'{"title":"a","title":"b"}',
            "invalid_session",
            "title is there twice; send it",
        ),
        (
            "POST",
            "/v1/sessions/s",
            b'{"environment_id":"e"}',
            "invalid_session",
            "given when a session is created",
        ),
        (
            "POST",
            "/v1/agents",
            b'{"nmae":"x"}',
            "invalid_agent",
            "An agent has no member nmae here. Did you mean name?",
        ),
        (
            "POST",
            "/v1/agents",
            b'{"name":"a","name":"b"}',
            "invalid_agent",
            "name is there twice; send it once.",
        ),
        ("POST", "/v1/environments", b'{"nam":"x"}', "invalid_environment", "Did you mean name?"),
        (
            "POST",
            "/v1/agents",
            b'{"metadata":{"a":1}}',
            "invalid_agent",
            "a value of metadata is a whole number",
        ),
        (
            "POST",
            "/v1/keys",
            b'{"principle":"a"}',
            "invalid_key",
            "A key has no member principle here. Did you mean",
        ),
        (
            "POST",
            "/v1/keys",
            b'{"principal":"a","role":"x"}',
            "invalid_key",
            "role is not usable; send one of",
        ),
        ("POST", "/v1/sessions/s/resources", b'{"type":"file"}', "invalid_resource", 'needs a "file_id"'),
        ("POST", "/v1/ingest/claude-code", b"{}", "invalid_hook", "has a hook_event_name, a text."),
    ],
)
def test_members_that_are_not_known_are_named(
    api: httpx2.Client, method: str, path: str, body: bytes, code: str, said: str
) -> None:
    answer = api.request(method, path, content=body, headers={"Content-Type": JSON})
    assert (answer.status_code, error_code(answer)) == (400, code)
    assert said in check_words(answer)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/sessions", {"agent": "a", "environment_id": "e", "unknown": 1}),
        ("/v1/agents", {"name": "a", "model": "m", "unknown": 1}),
        ("/v1/environments", {"name": "e", "unknown": 1}),
    ],
)
def test_the_other_dialect_ignores_what_it_does_not_know(
    api: httpx2.Client, path: str, body: dict[str, Any]
) -> None:
    assert api.post(path, json=body, headers=THEIRS).status_code == 200


def test_an_empty_body_says_nothing_where_nothing_is_needed(api: httpx2.Client) -> None:
    assert api.post("/v1/sessions").status_code == 201
    assert api.post("/v1/sessions/s").status_code == 200
    for path, said in (
        ("/v1/sessions/s/events", "There is no event in the request; send {"),
        ("/v1/sessions/s/resources", "it is empty; send a JSON value"),
        ("/v1/ingest/claude-code", "it is empty; send a JSON value"),
        ("/v1/agents", 'An agent needs a "name" and a "model".'),
    ):
        answer = api.post(path, headers={"Content-Type": JSON})
        assert answer.status_code == 400
        assert said in check_words(answer)
