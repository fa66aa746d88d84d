"""The limits of the sessions face and of artifacts, each pressed on at its edge."""

import asyncio
import hashlib

import pytest

from durable_sessions.limits import DEFAULT_LIMITS as LIMITS
from tests.hostile.arena import Arena
from tests.hostile.stranger import request

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def limits() -> dict[str, float]:
    return {"artifact_body_seconds_max": 1.0}


def append(body: bytes, *lines: bytes) -> bytes:
    return request(b"POST", b"/v1/sessions/edge/events", *lines, body=body)


def event(kind: int = 1, name: int = 1) -> bytes:
    return b'{"id":"%b","type":"%b"}' % (b"i" * name, b"t" * kind)


def keyed(size: int) -> bytes:
    return append(b'{"type":"t"}', b"Idempotency-Key: " + b"k" * size)


def described(size: int) -> bytes:
    """Return a creation whose record has about so many bytes."""
    metadata = b'{"metadata":{"m":"%b"}}' % (b"x" * size)
    return request(b"PUT", b"/v1/sessions/edge-%d" % size, body=metadata)


def page(limit: int, path: bytes = b"/v1/sessions/edge/events") -> bytes:
    return request(b"GET", path + b"?limit=%d" % limit)


EDGES: dict[str, tuple[bytes, int, bytes, int]] = {
    "event_type_max": (event(LIMITS.event_type_max), 204, event(LIMITS.event_type_max + 1), 400),
    "event_id_max": (event(name=LIMITS.event_id_max), 204, event(name=LIMITS.event_id_max + 1), 400),
    "idempotency_key_max": (
        keyed(LIMITS.idempotency_key_max),
        204,
        keyed(LIMITS.idempotency_key_max + 1),
        400,
    ),
    "session_document_bytes_max": (
        described(LIMITS.session_document_bytes_max - 1_000),
        201,
        described(LIMITS.session_document_bytes_max + 1),
        413,
    ),
    "page_events_max": (page(LIMITS.page_events_max), 200, page(LIMITS.page_events_max + 1), 400),
    "page_items_max": (
        page(LIMITS.page_items_max, b"/v1/keys"),
        200,
        page(LIMITS.page_items_max + 1, b"/v1/keys"),
        400,
    ),
}


@pytest.fixture
def framed() -> dict[str, tuple[bytes, int, bytes, int]]:
    """Return the edges with bodies of events made into requests."""
    return {
        name: (
            append(within) if within.startswith(b"{") else within,
            accepted,
            append(beyond) if beyond.startswith(b"{") else beyond,
            refused,
        )
        for name, (within, accepted, beyond, refused) in EDGES.items()
    }


@pytest.mark.parametrize("name", EDGES)
async def test_at_the_limit_and_beyond_it(
    arena: Arena, framed: dict[str, tuple[bytes, int, bytes, int]], name: str
) -> None:
    within, accepted, beyond, refused = framed[name]
    async with arena.attacked():
        await arena.ask(append(b'{"type":"first"}'))
        answer = await arena.ask(within)
        assert answer.status == accepted, answer
        answer = await arena.ask(beyond)
        assert answer.status == refused, answer


async def test_an_artifact_that_never_ends(arena: Arena) -> None:
    name = hashlib.sha256(b"never").hexdigest().encode()
    head = b"PUT /v1/artifacts/%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000000\r\n\r\n" % name

    async with arena.attacked():
        answers = await asyncio.gather(*[arena.refused(head + b"x" * 1_000) for _ in range(20)])
        assert {answer.status for received in answers for answer in received} == {408}
        assert (await arena.ask(request(b"GET", b"/v1/artifacts/" + name))).status == 404
