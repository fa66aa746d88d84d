"""Who sent a request: found out once, where it came in."""

from collections.abc import Iterator

import pytest

from durable_sessions.access.audit import Audit
from durable_sessions.access.caller import Caller, Role
from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import ManualClock
from durable_sessions.errors import KeyRateExceededError, UnauthenticatedError
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.carrier.message import Request
from durable_sessions.shares import CURRENT_HOLDER, LOCAL
from tests.unit.access.documents import document

ELSEWHERE = Caller("other", "ann", Role.READER, "key_elsewhere")


class NoAudit(Audit):
    """Records nothing."""

    def __init__(self) -> None:
        """Need nothing."""

    def key_refused(self, *_: object) -> None:
        """Record nothing."""


@pytest.fixture(autouse=True)
def _current_holder() -> Iterator[None]:
    token = CURRENT_HOLDER.set("server")
    yield
    CURRENT_HOLDER.reset(token)


@pytest.fixture
def table() -> KeyTable:
    return KeyTable(ManualClock(), "default")


@pytest.fixture
def auth(table: KeyTable) -> Authenticator:
    return Authenticator(table, ManualClock(), NoAudit())


def request(secret: bytes = b"") -> Request:
    return Request(b"GET", b"/v1/stream/s", b"", {b"x-api-key": secret} if secret else {}, b"")


def test_a_request_keeps_the_caller_that_was_found(table: KeyTable, auth: Authenticator) -> None:
    table.apply(document("one"))
    asked = request(b"one")
    caller = auth.caller(asked)
    assert asked.caller is caller
    assert CURRENT_HOLDER.get() == "one"


def test_a_request_is_counted_once_however_often_its_caller_is_asked_for(
    table: KeyTable, auth: Authenticator
) -> None:
    table.apply(document("slow", rate=1))
    asked = request(b"slow")
    assert auth.caller(asked) == auth.caller(asked) == auth.caller(asked)
    with pytest.raises(KeyRateExceededError):
        auth.caller(request(b"slow"))


def test_the_caller_that_another_process_found_is_taken_without_a_key(
    table: KeyTable, auth: Authenticator
) -> None:
    table.apply(document("one"))
    passed_on = request()
    passed_on.caller = ELSEWHERE
    assert auth.caller(passed_on) is ELSEWHERE
    assert auth.recognised(passed_on) is ELSEWHERE
    assert CURRENT_HOLDER.get() == "key_elsewhere"
    with pytest.raises(UnauthenticatedError):
        auth.caller(request())


def test_a_local_caller_is_kept_too(auth: Authenticator) -> None:
    asked = request()
    assert auth.caller(asked).key_id is None
    assert asked.caller is not None
    assert auth.caller(asked) is asked.caller
    assert CURRENT_HOLDER.get() == LOCAL


def test_the_head_of_a_request_is_not_counted(table: KeyTable, auth: Authenticator) -> None:
    table.apply(document("slow", rate=1))
    asked = request(b"slow")
    auth.recognised(asked)
    assert asked.caller is None
    auth.caller(asked)
