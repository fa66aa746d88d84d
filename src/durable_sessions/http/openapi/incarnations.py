"""The incarnation parameters and headers, which all operations on one session share."""

from dataclasses import replace

from durable_sessions.http.openapi.common import IF_MATCH
from durable_sessions.http.openapi.parts import Answer, Noun, Operation, in_query
from durable_sessions.http.openapi.schemas import text

_ROOT = "/v1/sessions/{session_id}"
_INCARNATION = in_query(
    "incarnation",
    text(pattern="^[0-9a-f]{12}$"),
    "Only if the session is still this one, as `Session-Incarnation` told: else a read is 410, a change 412.",
)


def with_incarnation(noun: Noun) -> Noun:
    """Return a noun with the incarnation added to its operations on one session."""
    operations = tuple(_described(one) if one.path.startswith(_ROOT) else one for one in noun.operations)
    return replace(noun, operations=operations)


def _described(operation: Operation) -> Operation:
    reads = operation.method in ("get", "head")
    parameters, refusals = operation.parameters, ["session_gone"]
    if operation.method != "put":
        parameters = (*parameters, _INCARNATION)
        refusals += ["invalid_request", "session_replaced" if reads else "precondition_failed"]
    if not reads and operation.method != "put" and IF_MATCH not in parameters:
        parameters = (*parameters, IF_MATCH)
        refusals += ["invalid_header", "invalid_offset"]
    answers = {status: _with_header(answer) for status, answer in operation.answers.items()}
    refused = tuple(dict.fromkeys([*operation.refusals, *refusals]))
    return replace(operation, parameters=parameters, refusals=refused, answers=answers)


def _with_header(answer: Answer) -> Answer:
    return replace(answer, headers=(*answer.headers, "Session-Incarnation"))
