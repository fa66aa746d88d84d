"""What a writer holds, and what becomes of it."""

import pytest

from durable_sessions.client.calls import Appended
from durable_sessions.client.errors import (
    ApiError,
    BadRequestError,
    ConflictError,
    ConnectionFailedError,
    TooLargeError,
    WriterClosedError,
)
from durable_sessions.client.outbox import Bounds, Outbox, body_of

DONE = Appended("x")


class Told:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.outcome: Appended | Exception | None = None

    def resolve(self, outcome: Appended | Exception) -> None:
        assert self.outcome is None, "told twice"
        self.outcome = outcome


def outbox(**bounds: int) -> Outbox[Told]:
    chosen = {"batch_events": 3, "batch_bytes": 100, "queue_events": 5, "queue_bytes": 1_000, **bounds}
    return Outbox(Bounds(linger_seconds=0, **chosen))


def fill(box: Outbox[Told], *bodies: bytes) -> list[Told]:
    told = []
    for body in bodies:
        assert box.has_room(len(body))
        told.append(Told())
        box.put(body, told[-1])
    return told


def refused(code: str, index: int | None = None, kind: type[ApiError] = BadRequestError) -> ApiError:
    details: dict[str, object] = {"error_code": code}
    if index is not None:
        details["index"] = index
    return kind(400, "invalid_request_error", "No.", None, details)


def test_batches_keep_the_order_and_the_bounds() -> None:
    box = outbox(batch_bytes=10)
    fill(box, b"1", b"2", b"3", b"4", b"0123456789")
    assert box.full_batch
    assert [body_of(box.next_batch()) for _ in range(3)] == [b"[1,2,3]", b"[4]", b"[0123456789]"]
    assert box.empty


@pytest.mark.parametrize(("sizes", "batches"), [((3, 3, 3), [2, 1]), ((4, 3, 1), [2, 1]), ((2, 2, 2), [3])])
def test_a_body_is_never_larger_than_the_bound(sizes: tuple[int, ...], batches: list[int]) -> None:
    box = outbox(batch_bytes=10)
    fill(box, *(b"x" * size for size in sizes))
    found = []
    while not box.empty:
        batch = box.next_batch()
        assert len(body_of(batch)) <= 10
        found.append(len(batch))
    assert found == batches


def test_the_queue_is_bounded_in_events_and_bytes_and_counts_what_is_being_sent() -> None:
    box = outbox(queue_bytes=10)
    assert box.has_room(11), "a single event always fits"
    fill(box, b"12345", b"6789")
    assert box.has_room(1)
    assert not box.has_room(2)
    batch = box.next_batch()
    assert not box.has_room(2)
    box.acknowledged(batch, DONE)
    assert box.has_room(2)
    fill(box, b"1", b"2", b"3", b"4", b"5")
    assert not box.has_room(1)


def test_an_event_that_is_refused_fails_alone() -> None:
    box = outbox()
    told = fill(box, b"1", b"2", b"3", b"4")
    error = refused("invalid_event", 1)
    box.failed(box.next_batch(), error)
    assert [one.outcome for one in told] == [None, error, None, None]
    assert box.full_batch, "what is left of it goes at once"
    rest = box.next_batch()
    assert body_of(rest) == b"[1,3]"
    box.acknowledged(rest, DONE)
    box.acknowledged(box.next_batch(), DONE)
    assert [one.outcome for one in told] == [DONE, error, DONE, DONE]
    assert box.settled == box.taken == 4
    with pytest.raises(BadRequestError):
        box.raise_unreported()
    box.raise_unreported()


@pytest.mark.parametrize("code", ["invalid_json", "body_too_large"])
def test_a_batch_with_an_unnamed_culprit_is_divided(code: str) -> None:
    box = outbox(batch_events=4)
    told = fill(box, b"1", b"2", b"3", b"4", b"5")
    sent = []
    while not box.empty:
        batch = box.next_batch()
        sent.append(body_of(batch))
        if b"3" in sent[-1]:
            box.failed(batch, refused(code, kind=TooLargeError))
        else:
            box.acknowledged(batch, DONE)
    assert sent == [b"[1,2,3,4]", b"[1,2]", b"[3,4]", b"[3]", b"[4]", b"[5]"]
    assert [isinstance(one.outcome, TooLargeError) for one in told] == [False, False, True, False, False]


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailedError("u", "r", outcome_unknown=True),
        refused("stream_closed", kind=ConflictError),
        refused("invalid_path"),
        RuntimeError("a bug"),
    ],
)
def test_any_other_failure_stops_everything(error: Exception) -> None:
    box = outbox()
    told = fill(box, b"1", b"2", b"3", b"4")
    box.failed(box.next_batch(), error)
    assert [one.outcome for one in told] == [error] * 4
    assert box.empty
    assert box.settled == 4
    with pytest.raises(type(error)):
        box.has_room(1)
    with pytest.raises(type(error)):
        box.raise_unreported()


def test_a_refusal_whose_outcome_is_unknown_blames_nobody() -> None:
    box = outbox()
    told = fill(box, b"1", b"2")
    error = ApiError(409, "t", "No.", None, {"error_code": "invalid_event", "index": 0}, outcome_unknown=True)
    box.failed(box.next_batch(), error)
    assert [one.outcome for one in told] == [error, error]


def test_a_closed_writer_takes_nothing() -> None:
    box = outbox()
    box.closing = True
    with pytest.raises(WriterClosedError):
        box.has_room(1)


@pytest.mark.parametrize("name", ["batch_events", "batch_bytes", "queue_events", "queue_bytes"])
def test_bounds_are_checked(name: str) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        outbox(**{name: 0})
    with pytest.raises(ValueError, match="linger_seconds"):
        Bounds(1, 1, -1, 1, 1)
