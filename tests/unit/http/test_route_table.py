"""The route table: what a method and a path name."""

from collections.abc import Awaitable

import pytest

from durable_sessions.access.caller import Role
from durable_sessions.errors import MethodNotAllowedError, RouteNotFoundError, UnknownParameterError
from durable_sessions.http.api.route_table import ROUTES, RouteTable, delegate, unknown_route
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.http.manual import contents
from durable_sessions.http.openapi.document import NOUNS, document
from durable_sessions.http.openapi.parts import Noun, Operation
from durable_sessions.limits import DEFAULT_LIMITS


def found(path: bytes, method: bytes = b"GET") -> tuple[str, tuple[str, ...]]:
    match = ROUTES.find(path)
    assert match is not None
    return match.resource.methods[method].id, match.values


def request(method: bytes, path: bytes, query: bytes = b"") -> Request:
    return Request(method, path, query, {}, b"")


def handler(*_: object) -> Answer | Awaitable[Answer]:
    return Response(204, [])


def test_every_operation_that_is_described_is_found_at_its_path() -> None:
    for noun in NOUNS:
        for operation in noun.operations:
            path = operation.path.replace("{", "a-").replace("}", "")
            method = operation.method.upper().encode()
            assert found(path.encode(), method)[0] == operation.id
            if operation.head:
                assert found(path.encode(), b"HEAD")[0] == operation.id


def test_a_fixed_segment_is_preferred_to_a_variable_one() -> None:
    assert found(b"/v1/sessions/s/events/stream") == ("streamEvents", ("s",))
    assert found(b"/v1/sessions/s/events/e") == ("getEvent", ("s", "e"))
    assert found(b"/v1/sessions/events/events") == ("readEvents", ("events",))


def test_a_fixed_segment_that_leads_nowhere_is_taken_for_a_variable_one() -> None:
    assert found(b"/docs/api") == ("docsApi", ())
    assert found(b"/docs/api/first") == ("docsPageInFolder", ("api", "first"))


def test_segments_are_decoded_after_they_are_told_apart() -> None:
    assert found(b"/v1/agents/a%2Fb%20c") == ("getAgent", ("a/b c",))
    assert found(b"/v1/sessions/s/%65vents") == ("readEvents", ("s",))
    assert ROUTES.find(b"/v1/%61gents") is None
    assert ROUTES.find(b"/v1%2Fagents") is None


def test_a_path_of_a_stream_may_have_any_number_of_segments() -> None:
    assert found(b"/v1/stream/a") == ("readStream", ("a",))
    assert found(b"/v1/stream/a/b/c") == ("readStream", ("a/b/c",))


def test_what_is_not_described_is_not_found() -> None:
    for path in (
        b"",
        b"*",
        b"/v1",
        b"/v1/agents/a/b",
        b"/v1/search/",
        b"/v1/audit/x",
        b"/v1/agents/a/versions/1",
    ):
        assert ROUTES.find(path) is None


def test_a_method_that_a_path_lacks_is_told_those_it_has() -> None:
    for path, allow in (
        (b"/v1/keys", "GET, HEAD, POST"),
        (b"/v1/sessions/s", "GET, HEAD, POST, PUT, DELETE"),
    ):
        match = ROUTES.find(path)
        assert match is not None
        with pytest.raises(MethodNotAllowedError) as refused:
            match.resource.route(request(b"PATCH", path))
        assert f"Use one of: {allow}." in str(refused.value)


def test_a_route_knows_who_may_use_it() -> None:
    roles = {method: route.role for method, route in ROUTES.at("/v1/artifacts/{sha256}").methods.items()}
    assert roles == {b"GET": None, b"HEAD": None, b"PUT": Role.WRITER, b"DELETE": Role.ADMIN}


def test_parameters_are_those_of_the_operation() -> None:
    ROUTES.check_parameters(request(b"GET", b"/v1/agents/a", b"version=1"))
    with pytest.raises(UnknownParameterError, match="There is no query parameter version here"):
        ROUTES.check_parameters(request(b"POST", b"/v1/agents/a", b"version=1"))
    ROUTES.check_parameters(request(b"PATCH", b"/v1/agents/a", b"version=1"))
    ROUTES.check_parameters(request(b"GET", b"/nowhere", b"version=1"))


def test_an_operation_without_a_handler_and_a_handler_without_one_are_both_faults() -> None:
    operations = tuple(Operation(f"{name}: GET /{name}", name, {}, role="reader") for name in "ab")
    table = RouteTable([*NOUNS, Noun("Letters", "", operations)])
    assert table.complete({"a": handler, "b": handler}, "Letters").keys() == {"a", "b"}
    with pytest.raises(LookupError, match=r"\['b'\]"):
        table.complete({"a": handler}, "Letters")
    with pytest.raises(LookupError, match=r"\['c'\]"):
        table.complete({"a": handler, "b": handler, "c": handler}, "Letters")
    with pytest.raises(LookupError, match=r"already: \['a', 'b'\]"):
        table.complete({"a": handler, "b": handler}, "Letters")
    assert table.unhandled == {noun.name for noun in NOUNS}


def test_a_part_of_a_face_carries_out_what_is_delegated_to_it() -> None:
    class Part:
        def act(self, number: int) -> Response:
            return Response(200 + number, [])

    class Face:
        part = Part()

    answer = delegate("part", Part.act)(Face(), 4)
    assert isinstance(answer, Response)
    assert answer.status == 204


def test_a_path_deeper_than_described_is_found_but_its_parameters_are_nobodys() -> None:
    assert found(b"/v1/keys/a/b", b"DELETE") == ("revokeKey", ("a/b",))
    ROUTES.check_parameters(request(b"DELETE", b"/v1/keys/a/b", b"x=1"))
    ROUTES.check_parameters(request(b"GET", b"/v1/sessions/", b"x=1"))
    with pytest.raises(UnknownParameterError):
        ROUTES.check_parameters(request(b"DELETE", b"/v1/keys/a", b"x=1"))


def test_what_is_not_described_has_a_noun_that_refuses_it() -> None:
    match = ROUTES.find(b"/v1/ingest/unknown")
    assert match is not None
    assert match.resource.noun == "Ingest"
    with pytest.raises(RouteNotFoundError, match="Nothing is served at /v1/ingest/unknown"):
        match.resource.route(request(b"POST", b"/v1/ingest/unknown"))


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        (b"/v1/sesions", "/v1/sessions"),
        (b"/v1/sessions/build-42/event", "/v1/sessions/build-42/events"),
        (b"/v1/sesions/build-42/events", "/v1/sessions/build-42/events"),
        (b"/v1/memory/scops", "/v1/memory/scopes"),
        (b"/v1/sesions/build-42/event", None),
        (b"/v1/nothing-like-it", None),
        (b"/v1/vaults", None),
        (b"/v1", None),
        (b"/docs/nothing-like-it", None),
        (b"/v1/%73esions", None),
        (b"/v1/sesions/" + b"a" * 288, "/v1/sessions/" + "a" * 288),
        (b"/v1/sesions/" + b"a" * 289, None),
    ],
)
def test_one_misspelt_segment_of_a_path_is_recognised(path: bytes, meant: str | None) -> None:
    assert ROUTES.nearest(path) == meant
    said = str(unknown_route(path))
    assert said.startswith(f"Nothing is served at {path.decode()}. ")
    assert ("Did you mean" in said) == (meant is not None)


def test_every_page_of_the_manual_is_at_a_path_that_is_described() -> None:
    for name in contents.pages():
        assert found(f"/docs/{name}".encode())[0] in ("docsPage", "docsPageInFolder")


def test_links_of_the_document_name_parameters_in_the_order_of_the_path() -> None:
    described = document(DEFAULT_LIMITS)
    linked = [
        link
        for item in described["paths"].values()
        for operation in item.values()
        for answer in operation["responses"].values()
        for link in answer.get("links", {}).values()
    ]
    paths = {
        operation["operationId"]: path
        for path, item in described["paths"].items()
        for operation in item.values()
    }
    assert any(len(link["parameters"]) > 1 for link in linked)
    for link in linked:
        path = paths[link["operationId"]]
        assert list(link["parameters"]) == sorted(link["parameters"], key=lambda name: path.index("{" + name))


def test_a_path_can_be_found_with_its_escapes_as_they_came() -> None:
    match = ROUTES.find(b"/v1/stream/__ds/subscriptions/a%FF/streams/x%2Fy/z", escaped=True)
    assert match is not None
    assert match.resource.methods[b"DELETE"].id == "unlinkStream"
    assert match.values == ("a%FF", "x%2Fy/z")
    unescaped = ROUTES.find(b"/v1/stream/__ds/subscriptions/a/%63laim", escaped=True)
    assert unescaped is not None
    assert unescaped.resource.noun == "Streams"


def test_only_who_works_on_a_wake_and_who_reads_public_things_needs_no_key() -> None:
    keyless = {
        operation.id
        for noun in NOUNS
        for operation in noun.operations
        if ROUTES.at(operation.path).methods[operation.method.upper().encode()].keyless
    }
    assert keyless >= {"ackWake", "releaseWake", "callbackWake", "getSigningKeys", "live", "ready"}
    assert not keyless & {"claimWake", "putSubscription", "metrics", "readEvents", "readStream", "listKeys"}


def test_a_refusal_names_options_where_it_always_did() -> None:
    assert ROUTES.at("/v1/stream/__ds/jwks.json").allow == "GET, HEAD, OPTIONS"
    assert ROUTES.at("/v1/artifacts/{sha256}").allow == "GET, HEAD, PUT, DELETE, OPTIONS"
    assert ROUTES.at("/v1/ingest/claude-code").allow == "POST, OPTIONS"
    assert ROUTES.at("/v1/keys").allow == "GET, HEAD, POST"


def test_a_face_of_one_resource_is_bound_by_method_with_the_role_that_each_needs() -> None:
    resource = ROUTES.at("/v1/stream/{path}")
    bound = resource.bind({route.id: handler for route in resource.methods.values()})
    assert {method: role for method, (role, _) in bound.items()} == {
        b"GET": None,
        b"HEAD": None,
        b"PUT": Role.WRITER,
        b"POST": Role.WRITER,
        b"DELETE": Role.WRITER,
    }
    assert resource.allow == "GET, HEAD, PUT, POST, DELETE, OPTIONS"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        (b"/docs/tutoral", "/docs/tutorial"),
        (b"/docs/tutorial.md", "/docs/tutorial"),
        (b"/docs/howto/run-in-prod", "/docs/howto/run-in-production"),
        (b"/docs/", "/docs"),
        (b"/docs/nothing-like-it", None),
        (b"/docs/" + b"a" * 300, None),
        (b"/dogs/tutorial", "/docs/tutorial"),
    ],
)
def test_a_misspelt_page_of_the_manual_is_recognised(path: bytes, meant: str | None) -> None:
    said = str(unknown_route(path))
    assert f"Did you mean {meant}?" in said if meant else "Did you mean" not in said
