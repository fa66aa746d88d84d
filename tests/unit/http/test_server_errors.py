"""Failures over HTTP: the table is total, and each looks as it should."""

import inspect
import string
from collections.abc import Iterator

import msgspec
import pytest

from durable_sessions import errors
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.errors import error_response
from durable_sessions.http.error_codes import STATUS_BY_CODE

FIELDS: dict[str, object] = {"tail": "0_7", "current": 3, "expected": 5, "received": 9, "allow": "GET, PUT"}


def subclasses(base: type[DurableSessionsError]) -> Iterator[type[DurableSessionsError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from subclasses(kind)


def make(kind: type[DurableSessionsError]) -> DurableSessionsError:
    template = inspect.getdoc(kind) or ""
    names = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    more = {"tail": FIELDS["tail"]} if kind is errors.PreconditionNotMetError else {}
    return kind(**{name: FIELDS.get(name, f"<{name}>") for name in names}, **more)


REACH_HTTP = [kind for kind in subclasses(DurableSessionsError) if kind is not errors.SettingsError]


def test_the_table_is_total_and_has_nothing_else() -> None:
    assert {kind.code for kind in REACH_HTTP} == set(STATUS_BY_CODE)


def test_every_code_is_unique() -> None:
    assert len({kind.code for kind in REACH_HTTP}) == len(REACH_HTTP)


@pytest.mark.parametrize("kind", REACH_HTTP, ids=lambda kind: kind.code)
def test_every_failure_has_the_same_shape(kind: type[DurableSessionsError]) -> None:
    error = make(kind)
    response = error_response(error)
    headers = dict(response.headers)
    body = msgspec.json.decode(response.body)
    assert len(headers) == len(response.headers)
    assert headers[b"Content-Type"] == b"application/json"
    assert headers[b"Cache-Control"] == b"no-store"
    is_passing = response.status in (429, 503) or kind is errors.SessionClaimedError
    assert (b"Retry-After" in headers) == is_passing
    assert response.status == STATUS_BY_CODE[kind.code]
    assert body["error"]["message"] == str(error)
    assert body["error"]["code"].lower() in (kind.code, "invalid_offset")


@pytest.mark.parametrize(
    ("kind", "status", "more"),
    [
        (errors.StreamClosedError, 409, {b"Stream-Closed": b"true", b"Stream-Next-Offset": b"0_7"}),
        (errors.StaleEpochError, 403, {b"Producer-Epoch": b"3"}),
        (
            errors.ProducerGapError,
            409,
            {b"Producer-Expected-Seq": b"5", b"Producer-Received-Seq": b"9"},
        ),
        (errors.PreconditionNotMetError, 412, {b"Stream-Next-Offset": b"0_7"}),
        (errors.MethodNotAllowedError, 405, {b"Allow": b"GET, PUT"}),
        (errors.StreamNotFoundError, 404, {}),
        (errors.OffsetBeyondTailError, 400, {}),
        (errors.StreamGoneError, 410, {}),
    ],
)
def test_some_failures_tell_more_in_headers(
    kind: type[DurableSessionsError], status: int, more: dict[bytes, bytes]
) -> None:
    response = error_response(make(kind))
    headers = dict(response.headers)
    for name in (b"Content-Type", b"Cache-Control"):
        del headers[name]
    assert (response.status, headers) == (status, more)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.SubscriptionNotFoundError, "SUBSCRIPTION_NOT_FOUND"),
        (errors.SubscriptionExistsError, "SUBSCRIPTION_ALREADY_EXISTS"),
        (errors.TooManySubscriptionsError, "TOO_MANY_SUBSCRIPTIONS"),
        (errors.WebhookUrlRejectedError, "WEBHOOK_URL_REJECTED"),
        (errors.TokenInvalidError, "TOKEN_INVALID"),
        (errors.TokenExpiredError, "TOKEN_EXPIRED"),
        (errors.FencedError, "FENCED"),
        (errors.AlreadyClaimedError, "ALREADY_CLAIMED"),
        (errors.NoPendingWorkError, "NO_PENDING_WORK"),
        (errors.InvalidAckError, "INVALID_OFFSET"),
        (errors.InvalidRequestError, "INVALID_REQUEST"),
    ],
)
def test_the_subscription_protocol_spells_its_codes_in_upper_case(
    kind: type[DurableSessionsError], code: str
) -> None:
    assert msgspec.json.decode(error_response(make(kind), control=True).body)["error"]["code"] == code
    assert msgspec.json.decode(error_response(make(kind)).body)["error"]["code"] == kind.code


def test_a_claim_that_is_taken_names_its_holder() -> None:
    error = errors.AlreadyClaimedError(current_holder="worker-1", generation=7)
    detail = msgspec.json.decode(error_response(error).body)["error"]
    assert (detail["current_holder"], detail["generation"]) == ("worker-1", 7)
