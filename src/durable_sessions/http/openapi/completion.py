"""Completes operations with what follows from their method, their path and their parameters."""

import re
from dataclasses import replace

from durable_sessions.http.openapi.answer_headers import SESSION_INCARNATION
from durable_sessions.http.openapi.common import INCARNATION, PATH_PARAMETERS
from durable_sessions.http.openapi.errors import ONE_SESSION
from durable_sessions.http.openapi.examples import calls_of
from durable_sessions.http.openapi.parts import BY_METHOD, Noun, Operation, Parameter
from durable_sessions.http.openapi.request_headers import IF_MATCH, IF_MISSING, SESSION_PRINCIPAL

_OF_SESSIONS = "/v1/sessions"
_NAME = re.compile(r"\{(\w+)\}")


def complete(noun: Noun) -> Noun:
    """Return a noun with everything that its operations do not state themselves."""
    return replace(noun, operations=tuple(_completed(one, noun.writing) for one in noun.operations))


def _completed(operation: Operation, writing: tuple[str, ...]) -> Operation:
    operation = replace(operation, parameters=(*_of_path(operation), *_others(operation)))
    if operation.path.startswith(ONE_SESSION):
        operation = _with_incarnation(operation)
    if operation.path.startswith(_OF_SESSIONS):
        operation = replace(operation, parameters=(*operation.parameters, SESSION_PRINCIPAL))
    role = operation.role
    if role == BY_METHOD:
        role = "reader" if operation.reads else "writer"
    errors = [*operation.errors, *(code for one in operation.parameters for code in one.errors)]
    if operation.body is not None:
        errors += operation.body.errors
    if not operation.reads:
        errors += writing
    return replace(operation, role=role, errors=(*dict.fromkeys(errors),), calls=calls_of(operation))


def _of_path(operation: Operation) -> list[Parameter]:
    stated = {one.name: one for one in operation.parameters if one.place == "path"}
    return [stated.get(name) or PATH_PARAMETERS[name] for name in _NAME.findall(operation.path)]


def _others(operation: Operation) -> list[Parameter]:
    return [one for one in operation.parameters if one.place != "path"]


def _with_incarnation(operation: Operation) -> Operation:
    """Add what all operations on one session share: they can insist on an incarnation, and tell theirs."""
    parameters, errors = operation.parameters, operation.errors
    # PUT creates or confirms: there is no incarnation yet that it could insist on.
    if operation.method != "put":
        parameters = (*parameters, INCARNATION)
        errors = (*errors, "session_replaced" if operation.reads else "precondition_failed")
        # An append states it itself, among the headers of an append.
        if not operation.reads and IF_MATCH not in parameters:
            parameters = (*parameters, IF_MATCH)
    if not operation.reads:
        parameters = (*parameters, IF_MISSING)
    answers = {
        status: replace(answer, headers=(*answer.headers, SESSION_INCARNATION))
        for status, answer in operation.answers.items()
    }
    return replace(operation, parameters=parameters, errors=errors, answers=answers)
