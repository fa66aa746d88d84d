"""What a refusal says beyond its message is described."""

import msgspec
from openapi_schema_validator import OAS31Validator

from durable_sessions.errors import (
    AlreadyClaimedError,
    DurableSessionsError,
    InvalidEventError,
    MemoryPathConflictError,
    PreconditionNotMetError,
    StreamClosedError,
)
from durable_sessions.http.api.errors import error_response
from durable_sessions.http.api.sessions.errors import refusal_to
from durable_sessions.http.openapi.document import document
from durable_sessions.limits import DEFAULT_LIMITS

DOCUMENT = document(DEFAULT_LIMITS)
TAIL = "0000000000000000_0000000000000003"


def described(name: str, *members: str) -> set[str]:
    """Return the described members of a member of a schema."""
    schema = DOCUMENT["components"]["schemas"][name]
    for member in members:
        schema = schema["properties"][member]
    return set(schema["properties"])


def details(error: DurableSessionsError, life: str | None = None) -> dict[str, object]:
    body = msgspec.json.decode(refusal_to(error, b"req_1", life).body)
    OAS31Validator(
        {"components": DOCUMENT["components"], "$ref": "#/components/schemas/SessionsError"}
    ).validate(body)
    assert set(body) == described("SessionsError")
    assert set(body["error"]) == described("SessionsError", "error") - {"conflicting_memory_id"}
    found: dict[str, object] = body["error"]["details"]
    assert set(found) <= described("SessionsError", "error", "details")
    return found


def test_a_condition_that_was_not_met_tells_what_is_there() -> None:
    error = PreconditionNotMetError(problem="It is another.", exists=True, tail=TAIL)
    assert details(error, "0123456789ab") == {
        "error_code": "precondition_failed",
        "exists": True,
        "tail": TAIL,
        "incarnation": "0123456789ab",
    }
    absent = PreconditionNotMetError(problem="There is none.", exists=False, tail=None)
    assert details(absent) == {"error_code": "precondition_failed", "exists": False}


def test_other_refusals_tell_what_they_are_about() -> None:
    assert details(StreamClosedError(tail=TAIL)) == {"error_code": "stream_closed", "tail": TAIL}
    assert details(InvalidEventError(problem="It has no type.", index=2)) == {
        "error_code": "invalid_event",
        "index": 2,
    }


def test_a_path_that_is_taken_tells_by_which_memory() -> None:
    error = MemoryPathConflictError(path="/a", conflicting_memory_id="mem_1")
    said = msgspec.json.decode(refusal_to(error, b"req_1", None).body)["error"]
    assert (said["type"], said["conflicting_memory_id"]) == ("memory_path_conflict_error", "mem_1")
    assert set(said) == described("SessionsError", "error")


def test_a_lease_that_another_holds_is_told_with_its_holder() -> None:
    error = AlreadyClaimedError(current_holder="worker-7", generation=3)
    said = msgspec.json.decode(error_response(error, control=True).body)["error"]
    assert (said["code"], said["current_holder"], said["generation"]) == ("ALREADY_CLAIMED", "worker-7", 3)
    assert set(said) == described("Error", "error")
