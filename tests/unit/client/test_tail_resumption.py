"""The tail of a session across all that can end a connection: each event once, in order, to the end."""

import json
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from durable_sessions.client import errors, offsets, retry
from tests.unit.client.shells import Shell
from tests.unit.client.stub import LOST, UNSENT, Reply, Stub, refusal, said

pytestmark = pytest.mark.anyio

OLD, NEW = "0123456789ab", "ba9876543210"
HELLO = b": heartbeat\n\n"


def event(position: int, kind: str = "note") -> dict[str, Any]:
    return {"id": f"e{position}", "type": kind, "offset": offsets.of(position)}


def frame(value: dict[str, Any]) -> bytes:
    return f"id: {value['id']}\nevent: {value['type']}\ndata: {json.dumps(value)}\n\n".encode()


def stream(*positions: int, more: bytes = b"", life: str | None = None) -> httpx2.Response:
    """Return a connection that brings some events and then ends."""
    headers = {"Content-Type": "text/event-stream"} | ({} if life is None else {"Session-Incarnation": life})
    content = HELLO + b"".join(frame(event(one)) for one in positions) + more
    return httpx2.Response(200, headers=headers, content=content)


def page(*positions: int, until: int, up_to_date: bool = True, closed: bool = False) -> httpx2.Response:
    """Return a page of events that ends before a position."""
    headers = {"stream_closed": "true"} if closed else {}
    body = {
        "data": [event(one) for one in positions],
        "next_page": None if up_to_date else "p",
        "next_offset": offsets.of(until),
        "up_to_date": up_to_date,
    }
    return said(200, body, **headers)


def over(at: int) -> httpx2.Response:
    return page(until=at, closed=True)


def asked(stub: Stub) -> list[tuple[str, str]]:
    """Return what each request was for, and from where."""
    return [
        ("stream" if request.url.path.endswith("/stream") else "page", request.url.params["offset"])
        for request in stub.requests
    ]


async def seen(shell: Shell, stub: Stub, retries: int = 3, **options: Any) -> list[int]:
    client = shell.client(stub, retries)
    return [one.position for one in await shell.all(lambda: client.session("s").tail(**options))]


@pytest.fixture
def exact_pauses(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that a client makes, without jitter."""
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.25)
    monkeypatch.setattr(retry, "random", SimpleNamespace(uniform=lambda low, high: high))
    return pauses


# Where it goes on -----------------------------------------------------------------------


@pytest.mark.parametrize("failure", [LOST, UNSENT, said(502), said(503), said(429), httpx2.ReadTimeout("")])
async def test_it_goes_on_behind_the_last_event_after_any_passing_failure(
    shell: Shell, failure: Reply
) -> None:
    stub = Stub(stream(0, 1), page(until=2), failure, stream(2), over(3))
    assert await seen(shell, stub) == [0, 1, 2]
    assert asked(stub) == [
        ("stream", "-1"),
        ("page", offsets.of(2)),
        ("stream", offsets.of(2)),
        ("stream", offsets.of(2)),
        ("page", offsets.of(3)),
    ]


async def test_what_was_appended_between_two_connections_comes_with_the_page(shell: Shell) -> None:
    stub = Stub(stream(0), page(1, 2, until=3), stream(3), over(4))
    assert await seen(shell, stub) == [0, 1, 2, 3]
    assert asked(stub)[2] == ("stream", offsets.of(3))


async def test_a_reader_far_behind_reads_pages_until_it_has_caught_up(shell: Shell) -> None:
    numbers = range(1, 2_501)
    pages = [
        page(*numbers[:1000], until=1_001, up_to_date=False),
        page(*numbers[1000:2000], until=2_001, up_to_date=False),
        page(*numbers[2000:], until=2_501),
    ]
    stub = Stub(stream(0), *pages, stream(2_501), over(2_502))
    assert await seen(shell, stub) == list(range(2_502))
    assert [place for kind, place in asked(stub) if kind == "page"] == [
        offsets.of(at) for at in (1, 1_001, 2_001, 2_502)
    ]


async def test_a_page_that_is_closed_but_not_the_last_is_not_the_end(shell: Shell) -> None:
    stub = Stub(stream(0), page(1, until=2, up_to_date=False, closed=True), page(2, until=3, closed=True))
    assert await seen(shell, stub) == [0, 1, 2]


async def test_a_session_that_is_closed_already_ends_with_its_last_event(shell: Shell) -> None:
    stub = Stub(stream(0, 1, 2), over(3))
    assert await seen(shell, stub) == [0, 1, 2]
    assert len(stub.requests) == 2


async def test_a_saved_offset_is_where_it_begins(shell: Shell) -> None:
    stub = Stub(stream(8), over(9))
    assert await seen(shell, stub, offset=offsets.of(8)) == [8]
    assert asked(stub)[0] == ("stream", offsets.of(8))
    stub = Stub(stream(8), over(9))
    assert await seen(shell, stub, offset=8) == [8]
    assert asked(stub)[0] == ("stream", offsets.of(8))


async def test_now_is_asked_for_once_though_the_first_connection_fails(shell: Shell) -> None:
    stub = Stub(page(until=5), LOST, stream(5, 6), over(7))
    assert await seen(shell, stub, offset="now") == [5, 6]
    assert asked(stub) == [
        ("page", "now"),
        ("stream", offsets.of(5)),
        ("stream", offsets.of(5)),
        ("page", offsets.of(7)),
    ]


async def test_types_are_asked_for_on_every_connection_and_page(shell: Shell) -> None:
    stub = Stub(stream(0), page(until=9), stream(9), over(10))
    await seen(shell, stub, types=["note", "tool.*"])
    for request in stub.requests:
        assert request.url.params.get_list("types[]") == ["note", "tool.*"]


async def test_a_filtered_tail_goes_on_behind_what_was_filtered_out(shell: Shell) -> None:
    stub = Stub(stream(3), page(until=1_000), stream(1_000), over(1_001))
    assert await seen(shell, stub, types="note") == [3, 1_000]
    assert asked(stub)[2] == ("stream", offsets.of(1_000)), "not behind the last event that was wanted"


# When it gives up -----------------------------------------------------------------------


@pytest.mark.parametrize("retries", [0, 2])
async def test_failures_in_a_row_are_bounded(shell: Shell, retries: int) -> None:
    stub = Stub(stream(0), page(until=1), LOST)
    with pytest.raises(errors.ConnectionFailedError) as caught:
        await seen(shell, stub, retries)
    assert caught.value.attempts == retries + 1
    assert len(stub.requests) == 2 + retries + 1


async def test_a_connection_that_brought_anything_starts_the_count_again(shell: Shell) -> None:
    stub = Stub(LOST, LOST, stream(0), page(until=1), LOST, LOST, stream(1), over(2))
    assert await seen(shell, stub, retries=2) == [0, 1]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequestError),
        (401, errors.AuthenticationError),
        (403, errors.PermissionDeniedError),
        (404, errors.NotFoundError),
        (410, errors.NotFoundError),
    ],
)
async def test_a_final_refusal_of_a_later_connection_is_raised(
    shell: Shell, status: int, kind: type[errors.ApiError]
) -> None:
    stub = Stub(stream(0), page(until=1), refusal(status, "some_code", "Say something else."))
    with pytest.raises(kind, match="Say something else"):
        await seen(shell, stub)
    assert len(stub.requests) == 3


async def test_what_came_before_a_failure_was_given_out(shell: Shell) -> None:
    stub = Stub(stream(0, 1), refusal(403, "forbidden"))
    client = shell.client(stub)
    tail = client.session("s").tail()
    assert [(await shell.first(tail)).position for _ in range(2)] == [0, 1]
    with pytest.raises(errors.PermissionDeniedError):
        await shell.first(tail)


async def test_a_deleted_session_is_not_found_behind_its_last_event(shell: Shell) -> None:
    deleted = frame({"id": "x", "type": "session.deleted"})
    stub = Stub(stream(0, more=deleted))
    client = shell.client(stub)
    tail = client.session("s").tail()
    assert (await shell.first(tail)).position == 0
    with pytest.raises(errors.NotFoundError, match="deleted while it was followed") as caught:
        await shell.first(tail)
    assert caught.value.code == "session_not_found"
    assert len(stub.requests) == 1, "it is not asked whether there is more"


async def test_another_announcement_without_an_offset_is_no_event_and_no_end(shell: Shell) -> None:
    notice = frame({"id": "x", "type": "session.notice"})
    stub = Stub(stream(0, more=notice), page(until=1), stream(1), over(2))
    assert await seen(shell, stub) == [0, 1]


async def test_something_that_is_no_event_stream_is_given_up(shell: Shell) -> None:
    stub = Stub(httpx2.Response(200, content=b"data: <html>\n\n"))
    with pytest.raises(errors.ConnectionFailedError, match="no event stream of a session"):
        await seen(shell, stub, retries=0)


# Which session --------------------------------------------------------------------------


async def test_all_connections_are_for_the_incarnation_that_answered_first(shell: Shell) -> None:
    stub = Stub(stream(0, life=OLD), page(until=1), stream(1), over(2))
    assert await seen(shell, stub) == [0, 1]
    assert [request.url.params.get("incarnation") for request in stub.requests] == [None, OLD, OLD, OLD]


async def test_a_session_created_under_the_same_id_is_not_followed(shell: Shell) -> None:
    replaced = refusal(410, "session_replaced", session_incarnation=NEW)
    stub = Stub(stream(0, life=OLD), page(until=1), replaced)
    with pytest.raises(errors.SessionReplacedError) as caught:
        await seen(shell, stub)
    assert caught.value.incarnation == NEW


async def test_a_handle_that_tails_is_bound_to_what_it_reads(shell: Shell) -> None:
    stub = Stub(stream(0, life=OLD), over(1), said(204, stream_next_offset="x"))
    session = shell.client(stub).session("s")
    await shell.all(session.tail)
    assert session.incarnation == OLD
    await shell.run(lambda: session.append({"type": "a"}))
    assert stub.requests[-1].headers["if-match"] == f'"{OLD}"'


# How long it waits ----------------------------------------------------------------------


async def test_a_server_that_ends_connections_at_once_is_not_hammered(
    shell: Shell, exact_pauses: list[float]
) -> None:
    stub = Stub(stream(0), page(until=1), stream(1), over(2))
    assert await seen(shell, stub) == [0, 1]
    assert exact_pauses == [0.25, 0.25], "each connection had one piece"


async def test_pauses_grow_with_failures_in_a_row_and_start_again(
    shell: Shell, exact_pauses: list[float]
) -> None:
    stub = Stub(LOST, LOST, LOST, stream(0), over(1))
    assert await seen(shell, stub) == [0]
    assert exact_pauses == [0.25, 0.5, 1.0, 0.25]


async def test_a_pause_that_the_server_asks_for_is_kept(shell: Shell, exact_pauses: list[float]) -> None:
    stub = Stub(refusal(503, "overloaded", retry_after="9"), stream(0), over(1))
    assert await seen(shell, stub) == [0]
    assert exact_pauses == [9.0, 0.25]
