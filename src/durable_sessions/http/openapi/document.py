"""The OpenAPI 3.1 document of the whole interface."""

import shlex
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import msgspec

from durable_sessions import __version__
from durable_sessions.http.error_codes import STATUS_BY_CODE
from durable_sessions.http.openapi import (
    agents,
    artifacts,
    environments,
    errors,
    events,
    incarnations,
    ingest,
    keys,
    operations,
    resources,
    search,
    sessions,
    streams,
    subscriptions,
    threads,
)
from durable_sessions.http.openapi.common import HEADERS
from durable_sessions.http.openapi.parts import JSON, Answer, Body, Call, Noun, Operation, Parameter
from durable_sessions.limits import Limits
from durable_sessions.schema_notes import OFFSET

Document = dict[str, Any]

_NOUNS = (
    sessions,
    events,
    search,
    threads,
    resources,
    agents,
    environments,
    artifacts,
    ingest,
    streams,
    subscriptions,
    keys,
    operations,
)
_ORIGIN = "http://127.0.0.1:4437"
_SECURED: list[dict[str, list[str]]] = [{"bearer": []}, {"x-api-key": []}]


def nouns(limits: Limits) -> list[Noun]:
    """Return the description of the whole interface, in reading order."""
    return [incarnations.with_incarnation(module.noun(limits)) for module in _NOUNS]


@lru_cache(maxsize=4)
def encoded(limits: Limits, public_url: str) -> bytes:
    """Return the document as JSON; it is made once for each configuration."""
    return msgspec.json.encode(document(limits, public_url))


def document(limits: Limits, public_url: str = "") -> Document:
    """Return the document."""
    described = nouns(limits)
    paths: dict[str, Any] = {}
    schemas = errors.schemas(limits)
    for noun in described:
        schemas |= noun.schemas
        for operation in noun.operations:
            item = paths.setdefault(operation.path, {})
            item[operation.method] = _operation(noun, operation) | _samples(operation, public_url or _ORIGIN)
            if operation.head:
                item["head"] = _head(noun, operation)
            if noun.preflight:
                item["options"] = _preflight(noun, operation)
            _link(item[operation.method], operation, described)
    used = {code for noun in described for one in noun.operations for code in errors.codes(one)}
    used.update(errors.CARRIER)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Durable Sessions",
            "version": __version__,
            "summary": "The append-only event log for AI agents.",
            "description": _introduction(limits),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": public_url or "/"}],
        "security": _SECURED,
        "tags": [{"name": noun.name, "description": noun.text} for noun in described],
        "paths": paths,
        "x-errors": errors.explained(code for code in STATUS_BY_CODE if code in used),
        "components": {
            "responses": _shared(paths),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`Authorization: Bearer <key>`.",
                },
                "x-api-key": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "x-api-key",
                    "description": "The same key.",
                },
            },
            "schemas": schemas,
            "headers": {
                name: {
                    "description": text,
                    "schema": OFFSET if name == "Stream-Next-Offset" else {"type": "string"},
                }
                for name, text in HEADERS.items()
            },
        },
    }


def _link(shown: Document, operation: Operation, described: list[Noun]) -> None:
    """Add links to an operation's answers: the operations that can be called with values from the answer."""
    known = {name: f"$request.path.{name}" for name in _path_names(operation)}
    known.update(operation.gives)
    links: Document = {}
    for noun in described:
        for other in noun.operations:
            names = _path_names(other)
            if (
                other is not operation
                and operation.gives.keys() & names.keys()
                and names.keys() <= known.keys()
            ):
                links[other.id] = {
                    "operationId": other.id,
                    "parameters": {name: known[name] for name in names},
                }
    for status in operation.answers if links else ():
        shown["responses"][str(status)]["links"] = links


def _path_names(operation: Operation) -> dict[str, None]:
    """Return the names of a path's parameters in order, so that the document is deterministic."""
    return dict.fromkeys(parameter.name for parameter in operation.parameters if parameter.place == "path")


def _shared(paths: dict[str, Any]) -> dict[str, Any]:
    """Give error answers that several operations share a name, and refer to them by it."""
    seen: dict[bytes, list[tuple[dict[str, Any], str]]] = {}
    for item in paths.values():
        for operation in item.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    seen.setdefault(msgspec.json.encode(answer), []).append((operation["responses"], status))
    named: dict[str, Any] = {}
    for places in seen.values():
        if len(places) > 1:
            responses, status = places[0]
            name = f"refused-{status}-{sum(one.startswith(f'refused-{status}-') for one in named) + 1}"
            named[name] = responses[status]
            for responses, status in places:
                responses[status] = {"$ref": f"#/components/responses/{name}"}
    return dict(sorted(named.items()))


def _samples(operation: Operation, origin: str) -> Document:
    samples = [
        {"lang": "Shell", "label": call.title or operation.summary, "source": curl(operation, call, origin)}
        for call in operation.calls
    ]
    return {"x-codeSamples": samples} if samples else {}


def curl(operation: Operation, call: Call, origin: str) -> str:
    """Return a call as a command line."""
    path = operation.path
    for parameter in operation.parameters:
        if parameter.place == "path":
            safe = "/" if parameter.name == "path" else ":@"
            path = path.replace("{" + parameter.name + "}", quote(str(parameter.example), safe=safe))
    query = "&".join(
        f"{quote(name, safe='[]')}={quote(value, safe='*')}" for name, value in call.query.items()
    )
    url = origin + path + ("?" + query if query else "")
    words = ["curl"]
    if call.query.get("live") == "sse" or path.endswith("/stream"):
        words.append("-N")
    if operation.method == "head":
        words.append("-I")
    elif operation.method != "get" and not (operation.method == "post" and call.body is not None):
        words += ["-X", operation.method.upper()]
    lines = [" ".join([*words, shlex.quote(url)])]
    headers = dict(call.headers)
    if call.body is not None:
        headers = {"Content-Type": call.media_type, **headers}
    lines += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()]
    if call.body is not None:
        lines.append(f"--data-raw {shlex.quote(body_text(call))}")
    return " \\\n  ".join(lines)


def body_text(call: Call) -> str:
    """Return the body of a call as it is sent."""
    if call.media_type != JSON:
        return str(call.body)
    return msgspec.json.encode(call.body).decode()


def _operation(noun: Noun, operation: Operation) -> Document:
    described: Document = {
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
    described["description"] = " ".join(part for part in about if part)
    if operation.role is None:
        described["security"] = [{"bearer": []}] if any(map(_is_token, operation.parameters)) else []
    if operation.body is not None:
        described["requestBody"] = _body(operation.body, operation.calls)
    return described


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
        "headers": {
            name: {"$ref": f"#/components/headers/{name}"} for name in ("request-id", *answer.headers)
        },
        "content": {media_type: {"schema": schema} for media_type, schema in answer.content.items()},
    }


def _head(noun: Noun, operation: Operation) -> Document:
    """Describe HEAD, which is GET without a body."""
    described = _operation(noun, operation)
    described["operationId"] += "Head"
    described["summary"] += ", headers only"
    for status, answer in described["responses"].items():
        if int(status) < 300:
            answer["content"] = {}
    return described


def _preflight(noun: Noun, operation: Operation) -> Document:
    """Describe OPTIONS, which browsers send before a request from a page of another origin."""
    path = tuple(parameter for parameter in operation.parameters if parameter.place == "path")
    allowed = Answer(
        "What pages of other origins may do.",
        {},
        ("Allow", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers"),
    )
    refused = ("invalid_request", "route_not_found") if errors.face(operation) == "control" else ()
    preflight = Operation(
        "options",
        operation.path,
        "preflight" + operation.path.title().translate(str.maketrans("", "", "/{}_.")),
        "Preflight",
        {204: allowed},
        parameters=path,
        refusals=refused,
        role=None,
        calls=(),
    )
    return _operation(noun, preflight)


def _introduction(limits: Limits) -> str:
    paragraphs = (
        "Durable Sessions keeps what agents do in append-only logs: durable before it is "
        "acknowledged, readable from any position, followed live. `/v1/sessions` speaks the language "
        "of sessions and events and is a drop-in for Anthropic's Managed Agents; `/v1/stream` is the "
        "Durable Streams protocol over the same logs.",
        "**Keys.** Send `Authorization: Bearer <key>` or `x-api-key: <key>`. Without any key the "
        "server answers on loopback only and needs none. What another workspace owns is 404, never "
        "403.",
        "**Two dialects.** A request with `anthropic-version` is checked, and answered, as Managed "
        "Agents would. Every other request is native and permissive. What is stored is the same. "
        "An unknown query parameter is 400 and names the nearest one, except in Anthropic's dialect and on "
        "`/v1/stream`, where it is ignored.",
        "**Errors** are JSON with a stable code and a message that says what to send instead. Below "
        "`/v1` they have Anthropic's shape, with the code in `details.error_code`; on `/v1/stream` and "
        'outside of `/v1` they are `{"error":{"code","message"}}`. Bad input is 400. 503 has '
        "`Retry-After`. Every answer has `request-id`.",
        f"**Limits.** A body has at most {limits.append_body_bytes_max:,} bytes (413), an event "
        f"{limits.event_bytes_max:,} (413), a request {limits.events_per_request_max:,} events (400), "
        f"a target {limits.target_bytes_max:,} bytes (414), all headers {limits.header_bytes_max:,} "
        f"bytes and {limits.header_count_max} lines (431). JSON is UTF-8 and nests at most "
        f"{limits.json_depth_max} levels. Times are RFC 3339 in UTC with milliseconds.",
        "**Browsers.** Pages of other origins are served if the origin is in `allowed_origins`, or if they "
        "send a key in a header and the path is not one of keys, audit, metrics or administration. All else "
        "that another site sends is 403 `origin_not_allowed`.",
    )
    return "\n\n".join(paragraphs)
