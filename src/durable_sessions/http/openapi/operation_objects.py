"""OpenAPI's objects for operations: parameters, bodies, answers."""

from typing import Any

from durable_sessions.http.openapi import errors
from durable_sessions.http.openapi.answer_headers import ALLOW, ALLOW_HEADERS, ALLOW_METHODS
from durable_sessions.http.openapi.parts import Answer, Body, Call, Noun, Operation, Parameter

Document = dict[str, Any]


def described(noun: Noun, operation: Operation) -> Document:
    """Describe an operation."""
    shown: Document = {
        "operationId": operation.id,
        "tags": [noun.name],
        "summary": operation.summary,
        "parameters": [
            _parameter(parameter) for parameter in operation.parameters if not _is_token(parameter)
        ],
        "responses": {
            **{str(status): _answer(answer) for status, answer in sorted(operation.answers.items())},
            **{
                status: found
                for status, found in errors.responses(operation).items()
                if int(status) not in operation.answers
            },
        },
    }
    about = [operation.text]
    if operation.role not in (None, "reader"):
        about.append(f"The key needs the role `{operation.role}`.")
    shown["description"] = " ".join(part for part in about if part)
    if operation.role is None:
        shown["security"] = [{"bearer": []}] if any(map(_is_token, operation.parameters)) else []
    if operation.body is not None:
        shown["requestBody"] = _body(operation.body, operation.calls)
    return shown


def _is_token(parameter: Parameter) -> bool:
    """Return whether OpenAPI describes this parameter as a security scheme instead."""
    return parameter.name == "Authorization"


def _parameter(parameter: Parameter) -> Document:
    described: Document = {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.text,
        "schema": parameter.schema,
    }
    if parameter.required:
        described["required"] = True
    if parameter.style is not None:
        described |= {"style": parameter.style, "explode": True}
    if parameter.example is not None:
        described["example"] = parameter.example
    return described


def _body(body: Body, calls: tuple[Call, ...]) -> Document:
    content: Document = {}
    for media_type, schema in body.content.items():
        content[media_type] = {"schema": schema}
        examples = {
            _slug(call.title): {"summary": call.title, "value": call.body}
            for call in calls
            if call.media_type == media_type and call.body is not None
        }
        if examples:
            content[media_type]["examples"] = examples
    described: Document = {"content": content, "required": body.required}
    return {"description": body.text, **described} if body.text else described


def _slug(title: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in title.lower()) or "example"


def _answer(answer: Answer) -> Document:
    return {
        "description": answer.text,
        "headers": errors.header_refs(answer.headers),
        "content": {media_type: {"schema": schema} for media_type, schema in answer.content.items()},
    }


def described_head(noun: Noun, operation: Operation) -> Document:
    """Describe HEAD, which is GET without a body."""
    shown = described(noun, operation)
    shown["operationId"] += "Head"
    shown["summary"] += ", headers only"
    for status, answer in shown["responses"].items():
        if int(status) < 300:
            answer["content"] = {}
    return shown


def described_preflight(noun: Noun, operation: Operation) -> Document:
    """Describe OPTIONS, which browsers send before a request from a page of another origin."""
    path = tuple(parameter for parameter in operation.parameters if parameter.place == "path")
    allowed = Answer("What pages of other origins may do.", headers=(ALLOW, ALLOW_METHODS, ALLOW_HEADERS))
    refused = ("invalid_request", "route_not_found") if errors.face(operation) == "control" else ()
    name = operation.path.title().translate(str.maketrans("", "", "/{}_."))
    preflight = Operation(
        f"preflight{name}: OPTIONS {operation.path}",
        "Preflight.",
        {204: allowed},
        parameters=path,
        errors=refused,
        role=None,
    )
    return described(noun, preflight)
