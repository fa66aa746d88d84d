"""Errors in the description: statuses and bodies by error code, taken from ``http/error_codes.py``."""

import re
from collections.abc import Iterable
from typing import Any

from durable_sessions import errors
from durable_sessions.http.bodies.errors import ErrorBody, SessionsErrorBody
from durable_sessions.http.error_codes import STATUS_BY_CODE, error_code_under_control
from durable_sessions.http.openapi import error_headers
from durable_sessions.http.openapi.answer_headers import REQUEST_ID
from durable_sessions.http.openapi.error_groups import ALWAYS, CARRIER, ENTRANCE
from durable_sessions.http.openapi.parts import JSON, Operation
from durable_sessions.http.openapi.schemas import Schema, ref
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.http.paths import STREAM_ROOT, checks_parameters, is_of_protocol

ONE_SESSION = "/v1/sessions/{session_id}"
"""The path of a session; those below it are about that session, too."""


def codes(operation: Operation) -> list[str]:
    """Return every code with which the API, and not the carrier, can refuse this operation."""
    found = [*operation.errors]
    if operation.role is not None:
        found += ["authentication_error", "keys_unproven", "rate_limited", "share_exceeded"]
        if operation.role != "reader":
            found.append("permission_error")
    if checks_parameters(operation.path.encode()):
        found.append("unknown_parameter")
    if face(operation) == "control":
        found = [code for code in found if code != "invalid_json"]  # spelled as invalid_request there
    return [*dict.fromkeys([*found, *ENTRANCE, *ALWAYS])]


def face(operation: Operation) -> str:
    """Return the shape of an operation's errors: ``sessions`` (Anthropic's), ``native``, or ``control``.

    In ``control``, codes are in upper case, as the protocol spells them there.
    """
    path = operation.path.encode()
    if path.startswith(STREAM_ROOT + b"__ds"):
        return "control"
    return "native" if is_of_protocol(path) else "sessions"


def responses(operation: Operation) -> dict[str, Any]:
    """Return the error answers of an operation by status; the codes are explained once, elsewhere."""
    carrier, looks = _by_status(CARRIER), face(operation)
    found: dict[str, Any] = {}
    for status, said in sorted(_by_status([*codes(operation), *CARRIER]).items()):
        shapes = [_shape(looks, said)]
        if status in carrier and looks != "native":
            # The carrier refuses before it is known which operation is meant, so always in its own shape.
            shapes.append(_shape("native", carrier[status]))
        headers = error_headers.described(
            said,
            status,
            sessions=looks == "sessions",
            one_session=operation.method != "options" and operation.path.startswith(ONE_SESSION),
        )
        found[str(status)] = {
            "description": ", ".join(f"`{code}`" for code in said),
            "headers": header_refs(headers),
            "content": {JSON: {"schema": shapes[0] if len(shapes) == 1 else {"anyOf": shapes}}},
        }
    return found


def explained(codes_used: Iterable[str]) -> dict[str, Any]:
    """Return the status and the meaning of codes."""
    return {code: {"status": STATUS_BY_CODE[code], "message": message(code)} for code in codes_used}


def message(code: str) -> str:
    """Return the message of an error, with the names of its fields in italics."""
    said = next(kind for kind in vars(errors).values() if getattr(kind, "code", None) == code).template()
    return _PROBLEMS.get(code, "") if said == "{problem}" else re.sub(r"\{(\w+)(!r)?\}", r"*\1*", said)


_PLACES = {code: at for at, code in enumerate(STATUS_BY_CODE)}
"""Where each code stands in the table; the description lists the codes of a status in this order."""
_PROBLEMS = {
    "invalid_request": "Something in the request is not usable; the message says what to send instead.",
    "invalid_query": "A filter in `q` is misspelt, or `q` has signs alone; the message says what to send.",
    "invalid_event": "An event is not usable; `details.index` is its place in the request.",
    "invalid_session": "What is said of the session, or its id, is not usable.",
    "invalid_agent": "What is said of the agent is not usable.",
    "invalid_environment": "What is said of the environment is not usable.",
    "invalid_memory_store": "What is said of the memory store is not usable.",
    "invalid_memory": "What is said of the memory is not usable.",
    "invalid_resource": "What is said of the resource is not usable.",
    "invalid_key": "What is said of the new key is not usable.",
    "invalid_hook": "This is not what Claude Code gives its hooks.",
    "invalid_file": "This is not a file as a form uploads it.",
    "invalid_telemetry": "This is not what an exporter of OpenTelemetry sends.",
    "unsupported_media_type": "The body is of a type, or packed in a way, that is not read here.",
    "invalid_transition": "The session is not in the state that the event changes; the message says which.",
    "permission_error": "The role of the key does not suffice, or the key is of another workspace.",
}


SCHEMAS = {"SessionsError": schema_of(SessionsErrorBody), "Error": schema_of(ErrorBody)}
"""The shapes of refusals."""


def header_refs(headers: Iterable[bytes]) -> dict[str, Schema]:
    """Return references to the headers that an answer may have."""
    names = (name.decode() for name in (REQUEST_ID, *headers))
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _by_status(found: Iterable[str]) -> dict[int, list[str]]:
    grouped: dict[int, list[str]] = {}
    for code in sorted(set(found), key=_PLACES.__getitem__):
        grouped.setdefault(STATUS_BY_CODE[code], []).append(code)
    return grouped


def _shape(looks: str, found: list[str]) -> Schema:
    """Return the schema of a body with one of these codes."""
    if looks == "sessions":
        details = {"properties": {"error_code": {"enum": found}}}
        special: Schema = {"properties": {"error": {"properties": {"details": details}}}}
        return {"allOf": [ref("SessionsError"), special]}
    if looks == "control":
        found = [error_code_under_control(code) for code in found]
    return {"allOf": [ref("Error"), {"properties": {"error": {"properties": {"code": {"enum": found}}}}}]}
