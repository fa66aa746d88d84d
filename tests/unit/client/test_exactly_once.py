"""Appends through a server that loses answers: which numbers are sent, and what the caller is told."""

import os

import httpx2
import pytest

from durable_sessions.client import producer
from durable_sessions.client.errors import (
    BadRequestError,
    ConflictError,
    ConnectionFailedError,
    PreconditionFailedError,
    ProducerFencedError,
    ServerError,
    SessionReplacedError,
    TooLargeError,
    UnexpectedAnswerError,
)
from tests.unit.client.stub import LOST, STORED, UNSENT, Stub, refusal, said

A, B = {"type": "a"}, {"type": "b"}
BAD = refusal(400, "invalid_event")


def test_numbers_grow_with_every_acknowledged_append() -> None:
    stub = Stub(STORED)
    session = stub.client().session("s")
    for _ in range(3):
        assert session.append(A).next_offset == "0000000000000000_0000000000000001"
    assert stub.numbers() == [(0, 0), (0, 1), (0, 2)]
    assert len({request.headers["producer-id"] for request in stub.requests}) == 1


def test_a_retry_has_the_same_number() -> None:
    replayed = said(204, stream_next_offset="x", idempotent_replayed="true")
    stub = Stub(LOST, said(503), replayed)
    assert stub.client().session("s").append(A).replayed
    assert stub.numbers() == [(0, 0)] * 3


def test_a_refusal_uses_no_number_up() -> None:
    stub = Stub(BAD, STORED)
    session = stub.client().session("s")
    with pytest.raises(BadRequestError) as caught:
        session.append(A)
    assert not caught.value.outcome_unknown
    session.append(B)
    assert stub.numbers() == [(0, 0), (0, 0)]


def test_the_same_again_after_an_unknown_outcome_is_the_same_append() -> None:
    stub = Stub(LOST, STORED)
    session = stub.client(retries=0).session("s")
    with pytest.raises(ConnectionFailedError) as caught:
        session.append(A)
    assert caught.value.outcome_unknown
    session.append(A)
    session.append(A)
    assert stub.numbers() == [(0, 0), (0, 0), (0, 1)]


def test_something_else_after_an_unknown_outcome_begins_an_epoch() -> None:
    stub = Stub(STORED, LOST, STORED)
    session = stub.client(retries=0).session("s")
    session.append(A)
    with pytest.raises(ConnectionFailedError):
        session.append(A)
    session.append(B)
    session.append(A)
    assert stub.numbers() == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_another_condition_is_something_else() -> None:
    stub = Stub(LOST, STORED)
    session = stub.client(retries=0).session("s")
    with pytest.raises(ConnectionFailedError):
        session.append(A, if_match="x")
    session.append(A, if_match="y")
    assert stub.numbers() == [(0, 0), (1, 0)]
    assert [request.headers["if-match"] for request in stub.requests] == ['"x"', '"y"']


def test_a_refusal_after_a_lost_answer_leaves_the_outcome_unknown() -> None:
    stub = Stub(LOST, refusal(409, "stream_closed", x_should_retry="false"), STORED)
    session = stub.client().session("s")
    with pytest.raises(ConflictError) as caught:
        session.append(A)
    assert caught.value.outcome_unknown
    assert "may have been carried out" in str(caught.value)
    session.append(A)
    assert stub.numbers() == [(0, 0)] * 3


def test_a_refusal_of_something_else_leaves_what_was_unknown_as_it_was() -> None:
    stub = Stub(LOST, BAD, STORED)
    session = stub.client(retries=0).session("s")
    with pytest.raises(ConnectionFailedError):
        session.append(A)
    with pytest.raises(BadRequestError) as caught:
        session.append(B)
    assert not caught.value.outcome_unknown
    session.append(A)
    assert stub.numbers() == [(0, 0), (1, 0), (0, 0)]


@pytest.mark.parametrize("status", [400, 413])
def test_what_follows_from_the_request_alone_is_certain(status: int) -> None:
    stub = Stub(LOST, LOST, refusal(status, "invalid_event"), STORED)
    session = stub.client(retries=1).session("s")
    with pytest.raises(ConnectionFailedError):
        session.append(A)
    with pytest.raises((BadRequestError, TooLargeError)) as caught:
        session.append(A)
    assert not caught.value.outcome_unknown
    session.append(B)
    assert stub.numbers() == [(0, 0)] * 4


def test_a_refusal_of_the_same_again_leaves_the_outcome_unknown() -> None:
    stub = Stub(LOST, refusal(409, "stream_closed"), STORED)
    session = stub.client(retries=0).session("s")
    with pytest.raises(ConnectionFailedError):
        session.append(A)
    with pytest.raises(ConflictError, match="may have been carried out") as caught:
        session.append(A)
    assert caught.value.outcome_unknown
    session.append(B)
    assert stub.numbers() == [(0, 0), (0, 0), (1, 0)]


def test_a_failed_condition_of_the_same_again_is_certain() -> None:
    stub = Stub(LOST, refusal(412, "precondition_failed"), STORED)
    session = stub.client(retries=0).session("s")
    with pytest.raises(ConnectionFailedError):
        session.append(A, if_match="x")
    with pytest.raises(PreconditionFailedError) as caught:
        session.append(A, if_match="x")
    assert not caught.value.outcome_unknown
    session.append(B)
    assert stub.numbers() == [(0, 0)] * 3


def test_a_failed_condition_is_certain_even_after_a_lost_answer() -> None:
    stub = Stub(LOST, refusal(412, "precondition_failed", stream_next_offset="z"), STORED)
    session = stub.client().session("s")
    with pytest.raises(PreconditionFailedError) as caught:
        session.append(A, if_match="y")
    assert not caught.value.outcome_unknown
    assert caught.value.next_offset == "z"
    session.append(B)
    assert stub.numbers() == [(0, 0)] * 3


@pytest.mark.parametrize("failure", [said(500), said(502), LOST, httpx2.ReadTimeout("")])
def test_what_leaves_the_outcome_unknown(failure: httpx2.Response | Exception) -> None:
    with pytest.raises((ServerError, ConnectionFailedError)) as caught:
        Stub(failure).client(retries=1).session("s").append(A)
    assert caught.value.outcome_unknown


def test_what_was_never_sent_had_no_effect() -> None:
    stub = Stub(UNSENT, UNSENT, STORED)
    session = stub.client(retries=1).session("s")
    with pytest.raises(ConnectionFailedError) as caught:
        session.append(A)
    assert not caught.value.outcome_unknown
    session.append(B)
    assert stub.numbers() == [(0, 0)] * 3


def test_what_was_not_sent_again_may_have_had_an_effect_before() -> None:
    stub = Stub(LOST, UNSENT, STORED)
    session = stub.client(retries=0).session("s")
    for _ in range(2):
        with pytest.raises(ConnectionFailedError) as caught:
            session.append(A)
        assert caught.value.outcome_unknown
    session.append(A)
    assert stub.numbers() == [(0, 0)] * 3


def test_something_else_that_answers_leaves_the_outcome_unknown() -> None:
    stub = Stub(said(200, "Please log in."), STORED)
    session = stub.client().session("s")
    with pytest.raises(UnexpectedAnswerError) as caught:
        session.append(A)
    assert caught.value.outcome_unknown
    session.append(B)
    assert stub.numbers() == [(0, 0), (1, 0)]


def test_a_session_made_anew_is_never_written_to_in_place_of_the_old_one() -> None:
    gap = refusal(409, "producer_gap", producer_expected_seq="0", x_should_retry="false")
    stub = Stub(STORED, gap, STORED)
    session = stub.client().session("s")
    session.append(A)
    with pytest.raises(SessionReplacedError):
        session.append(B)
    assert stub.numbers() == [(0, 0), (0, 1)], "it was not sent again under other numbers"
    session.append(B)
    first, second, third = [request.headers["producer-id"] for request in stub.requests]
    assert first == second != third, "who was told, and goes on, is another producer"


def test_a_gap_that_cannot_be_explained_is_told_and_not_repeated() -> None:
    stub = Stub(STORED, refusal(409, "producer_gap", producer_expected_seq="7"), STORED)
    session = stub.client().session("s")
    session.append(A)
    with pytest.raises(ConflictError):
        session.append(B)
    session.append(B)
    assert stub.numbers() == [(0, 0), (0, 1), (0, 0)]


def test_a_fenced_producer_is_told() -> None:
    with pytest.raises(ProducerFencedError):
        Stub(refusal(403, "stale_epoch")).client().session("s").append(A)


def test_handles_of_one_session_share_their_numbers() -> None:
    stub = Stub(STORED)
    client = stub.client()
    client.session("s").append(A)
    client.session("t").append(A)
    client.session("s").append(B)
    assert stub.numbers() == [(0, 0), (0, 0), (0, 1)]


def test_a_client_remembers_so_many_sessions_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "PRODUCERS_MAX", 2)
    stub = Stub(STORED)
    client = stub.client()
    kept = client.session("a")
    for name in ("a", "b", "c", "a"):
        client.session(name).append(A)
    assert stub.numbers() == [(0, 0)] * 4, "the first was forgotten"
    kept.append(A)
    assert stub.numbers()[-1] == (0, 1), "a handle keeps its own"


def test_a_forked_process_is_another_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = Stub(STORED)
    session = stub.client().session("s")
    session.append(A)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    session.append(A)
    assert stub.numbers() == [(0, 0), (0, 0)]
    assert stub.requests[0].headers["producer-id"] != stub.requests[1].headers["producer-id"]


def test_an_append_needs_events() -> None:
    session = Stub(STORED).client().session("s")
    with pytest.raises(ValueError, match="at least one event"):
        session.append([])
    with pytest.raises(TypeError, match="mapping"):
        session.append(["text"])  # type: ignore[list-item]


@pytest.mark.anyio
async def test_the_async_client_does_the_same() -> None:
    stub = Stub(STORED, LOST, STORED)
    async with stub.async_client(retries=0) as client:
        session = client.session("s")
        await session.append(A)
        with pytest.raises(ConnectionFailedError):
            await session.append(A)
        await session.append(B)
    assert stub.numbers() == [(0, 0), (0, 1), (1, 0)]
