"""Which partition a request is for."""

import pytest

from durable_sessions.http.api.route_table import ROUTES
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.paths import STREAM_ROOT
from durable_sessions.node import targets
from durable_sessions.node.targets import RequestTarget, named_of, stream_target, target_of
from durable_sessions.partition_id import SYSTEM
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.stream import Key

OF = 8
SESSION = home_partition("default", "sessions/x", OF)
EXPECTED = {
    "Sessions": SESSION,
    "Events": SESSION,
    "Work": SESSION,
    "Slots": SESSION,
    "Outlines": SESSION,
    "Threads": SESSION,
    "Resources": SESSION,
    "Streams": home_partition("default", "x/y", OF),
    "Agents": home_partition("default", "__agents", OF),
    "Environments": home_partition("default", "__environments", OF),
    "Environment work": RequestTarget.PARTS,
    "Memory": home_partition("default", "__memory", OF),
    "Memory stores": home_partition("default", "__memory_stores", OF),
    "Dossiers": SESSION,
    "Graph": SESSION,
    "Exports": SESSION,
    "Artifacts": home_partition("default", "__artifacts", OF),
    "Files": home_partition("default", "__artifacts", OF),
    "OpenTelemetry": RequestTarget.PARTS,
    "Search": RequestTarget.EVERY,
    "Approvals": RequestTarget.EVERY,
    "Usage": RequestTarget.EVERY,
    "Ingest": RequestTarget.BODY,
    "Keys and audit": SYSTEM,
    "Sign-in": SYSTEM,
    "Operations": RequestTarget.ANY,
}
"""The target of the operations of each noun; subscriptions are routed by their workspace alone."""
OTHERS = {
    "recallMemory": SESSION,
    "createSession": RequestTarget.BODY,
    "listSessions": RequestTarget.EVERY,
    "ready": RequestTarget.EVERY,
    "metrics": RequestTarget.EVERY,
    "getStatus": RequestTarget.EVERY,
    "flush": RequestTarget.EVERY,
    "reindex": RequestTarget.EVERY,
}


def target(method: str, path: str, workspace: str = "default") -> int:
    return target_of(workspace, Request(method.encode(), path.encode(), b"", {}, b""), OF)


def operations() -> list[tuple[str, str, str, str]]:
    return [
        (route.id, resource.noun, method.decode(), path)
        for path, resource in ROUTES._resources.items()
        for method, route in resource.methods.items()
        if resource.noun != "Subscriptions"
    ]


@pytest.mark.parametrize(("operation", "noun", "method", "path"), operations())
def test_every_operation_has_a_target(operation: str, noun: str, method: str, path: str) -> None:
    named = path.replace("{session_id}", "x").replace("{path}", "x/y")
    if operation == "search" and method == "HEAD":
        assert target(method, named) == RequestTarget.EVERY
    else:
        assert target(method, named) == OTHERS.get(operation, EXPECTED[noun])


def test_one_session_has_one_target_however_it_is_written() -> None:
    assert target("GET", "/v1/sessions/a%3Ab/events") == target("GET", "/v1/sessions/a:b")
    assert target("GET", "/v1/sessions/a:b") == target("GET", "/v1/stream/sessions/a%3ab")
    assert target("PUT", "/v1/stream/sessions/x") == SESSION


def test_workspaces_are_apart() -> None:
    found = {target("GET", "/v1/sessions/x", f"team-{number}") for number in range(50)}
    assert found == set(range(OF))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("OPTIONS", "/v1/sessions/x"),
        ("GET", "/v1/stream/"),
        ("GET", "/v1/stream/a//b"),
        ("GET", "/v1/stream/__agents/x"),
        ("GET", "/v1/nothing"),
        ("DELETE", "/v1/sessions"),
        ("GET", "/"),
    ],
)
def test_what_is_refused_whoever_is_asked_goes_nowhere_else(method: str, path: str) -> None:
    assert target(method, path) == RequestTarget.ANY


def test_long_paths_are_not_kept() -> None:
    before = targets._stream_partition.cache_info().currsize
    for number in range(50):
        name = f"{'x' * 900}{number}"
        assert target("GET", f"/v1/stream/{name}") == home_partition("default", name, OF)
        assert target("GET", f"/v1/sessions/{name}") == RequestTarget.ANY
    assert targets._stream_partition.cache_info().currsize == before


@pytest.mark.parametrize(
    "path", [b"x", b"x/y", b"x%2Fy", b"caf%C3%A9", b"", b"..", b"%ff", b"__ds/keys", b"a" * 600]
)
def test_one_look_up_finds_what_a_stream_needs(path: bytes) -> None:
    request = Request(b"POST", STREAM_ROOT + path, b"", {}, b"")
    found, partition, named = (
        stream_target("w", request.path, OF),
        target_of("w", request, OF),
        named_of(request),
    )
    if found is None:
        assert (partition, named) == (RequestTarget.ANY, None)
    else:
        assert named is not None
        assert found == (partition, Key("w", named.path), named)


def test_the_control_root_is_no_stream() -> None:
    assert stream_target("w", STREAM_ROOT + b"__ds", OF) is None
