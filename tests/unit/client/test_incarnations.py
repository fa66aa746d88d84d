"""Lives: a handle means the session that answered it first, and is never served by another."""

import pytest

from durable_sessions.client import calls
from durable_sessions.client.errors import (
    ConnectionFailedError,
    NotFoundError,
    PreconditionFailedError,
    SessionReplacedError,
)
from tests.unit.client.stub import LOST, Reply, Stub, refusal, said

A, B = {"type": "a"}, {"type": "b"}
OLD, NEW = "0123456789ab", "ba9876543210"
INFO = {"id": "s", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
OTHER = refusal(412, "precondition_failed", session_incarnation=NEW)
GONE = refusal(412, "precondition_failed")


def stored(life: str = OLD) -> Reply:
    return said(204, stream_next_offset="x", session_incarnation=life)


def condition(stub: Stub, index: int) -> str | None:
    value: str | None = stub.requests[index].headers.get("if-match")
    return value


def test_all_that_follows_the_first_answer_is_for_that_life() -> None:
    page = said(200, {"data": [], "next_page": None}, session_incarnation=OLD)
    stub = Stub(stored(), stored(), page, said(200, INFO, session_incarnation=OLD))
    session = stub.client().session("s")
    assert session.append(A).incarnation == OLD
    assert session.incarnation == OLD
    session.append(B)
    list(session.events())
    session.info()
    session.close()
    assert condition(stub, 0) is None
    assert condition(stub, 1) == condition(stub, 4) == f'"{OLD}"'
    assert [stub.requests[at].url.params.get("incarnation") for at in (2, 3)] == [OLD, OLD]


def test_an_offset_and_a_life_go_together() -> None:
    stub = Stub(stored(), refusal(412, "precondition_failed", session_incarnation=OLD))
    session = stub.client().session("s")
    session.append(A)
    with pytest.raises(PreconditionFailedError):
        session.append(B, if_match="0_1")
    assert condition(stub, 1) == '"0_1"'
    assert stub.requests[1].url.params["incarnation"] == OLD


@pytest.mark.parametrize(("answer", "now"), [(OTHER, NEW), (GONE, None)])
def test_an_append_never_goes_to_another_life(answer: Reply, now: str | None) -> None:
    stub = Stub(stored(), answer, answer, stored(NEW))
    client = stub.client()
    session = client.session("s")
    session.append(A)
    for _ in range(2):
        with pytest.raises(SessionReplacedError) as caught:
            session.append(B)
        assert caught.value.incarnation == now
        assert isinstance(caught.value, NotFoundError)
    assert client.session("s").append(B).incarnation == NEW, "a new handle takes what is there"
    assert condition(stub, 3) is None
    assert len({stub.requests[at].headers["producer-id"] for at in (0, 3)}) == 2


def test_a_new_handle_is_told_as_well_if_the_client_had_written_to_the_old_life() -> None:
    stub = Stub(stored(), OTHER, stored(NEW))
    client = stub.client()
    client.session("s").append(A)
    with pytest.raises(SessionReplacedError):
        client.session("s").append(B)
    assert condition(stub, 1) == f'"{OLD}"'
    client.session("s").append(B)


def test_numbers_of_two_lives_are_kept_apart() -> None:
    made = said(201, INFO | {"incarnation": NEW}, session_incarnation=NEW)
    stub = Stub(stored(), made, LOST, stored(NEW), OTHER, stored(NEW))
    client = stub.client(retries=0)
    old = client.session("s")
    old.append(A)
    new = client.sessions.create("s")
    with pytest.raises(ConnectionFailedError):
        new.append(B)
    new.append(B)
    with pytest.raises(SessionReplacedError):
        old.append(A)
    new.append(A)
    sent = [one.headers for one in stub.requests if "producer-id" in one.headers]
    names = [one["producer-id"] for one in sent]
    assert names[1] == names[2] == names[4] != names[0], "an append that may be stored keeps its number"
    assert [one["producer-seq"] for one in sent] == ["0", "0", "0", "0", "1"]


def test_a_delete_that_finds_another_one_after_a_lost_answer_was_carried_out() -> None:
    stub = Stub(stored(), LOST, OTHER)
    client = stub.client()
    session = client.session("s")
    session.append(A)
    session.delete()
    stub = Stub(stored(), OTHER)
    session = stub.client().session("s")
    session.append(A)
    with pytest.raises(SessionReplacedError):
        session.delete()


def test_a_delete_of_the_old_one_leaves_the_numbers_of_the_new_one() -> None:
    made = said(201, INFO | {"incarnation": NEW}, session_incarnation=NEW)
    stub = Stub(stored(), made, stored(NEW), LOST, OTHER, stored(NEW))
    client = stub.client()
    old = client.session("s")
    old.append(A)
    new = client.sessions.create("s")
    new.append(A)
    old.delete()
    new.append(B)
    first, second = stub.requests[2], stub.requests[5]
    assert first.headers["producer-id"] == second.headers["producer-id"]
    assert [one.headers["producer-seq"] for one in (first, second)] == ["0", "1"]


def test_an_append_after_a_delete_is_of_another_producer() -> None:
    stub = Stub(stored(), said(204), stored(NEW))
    session = stub.client().session("s")
    session.append(A)
    session.delete()
    unbound = session.incarnation
    assert unbound is None
    assert session.append(A).incarnation == session.incarnation == NEW
    first, last = stub.requests[0], stub.requests[2]
    assert first.headers["producer-id"] != last.headers["producer-id"]
    assert last.headers["producer-seq"] == "0"
    assert "if-match" not in last.headers, "it creates a session"


def test_a_read_that_meets_another_life_says_so() -> None:
    replaced = refusal(410, "session_replaced", session_incarnation=NEW)
    for read in (lambda one: list(one.events()), lambda one: one.info(), lambda one: list(one.tail())):
        session = Stub(stored(), replaced).client().session("s")
        session.append(A)
        with pytest.raises(SessionReplacedError) as caught:
            read(session)
        assert caught.value.incarnation == NEW


def test_servers_that_tell_no_lives_are_served_as_before() -> None:
    stub = Stub(said(204, stream_next_offset="x"))
    session = stub.client().session("s")
    session.append(A)
    session.append(B)
    assert session.incarnation is None
    assert all("if-match" not in request.headers for request in stub.requests)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ()), ("0", (0,)), ("0,2", (0, 2)), ("1-3,7", (1, 2, 3, 7)), ("0,2,...", (0, 2)), ("...", ())],
)
def test_what_was_there_before_is_told(text: str, expected: tuple[int, ...]) -> None:
    stub = Stub(said(204, stream_next_offset="x", events_repeated=text, events_differ=text))
    appended: calls.Appended = stub.client().session("s").append(A)
    assert (appended.repeated, appended.differ) == (expected, expected)
