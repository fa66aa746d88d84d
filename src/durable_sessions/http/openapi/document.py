"""The OpenAPI 3.1 document of the whole interface."""

from functools import lru_cache
from typing import Any

import msgspec

from durable_sessions import __version__
from durable_sessions.http.error_codes import STATUS_BY_CODE
from durable_sessions.http.openapi import (
    agents,
    approvals,
    artifacts,
    dossiers,
    environment_work,
    environments,
    errors,
    events,
    exports,
    files,
    graph,
    ingest,
    keys,
    memory,
    memory_stores,
    operations,
    otlp,
    outlines,
    resources,
    search,
    sessions,
    sign_in,
    slots,
    streams,
    subscriptions,
    threads,
    usage,
    work,
)
from durable_sessions.http.openapi.answer_headers import MEANINGS, STREAM_NEXT_OFFSET
from durable_sessions.http.openapi.completion import complete
from durable_sessions.http.openapi.error_groups import CARRIER
from durable_sessions.http.openapi.limit_names import filled
from durable_sessions.http.openapi.operation_objects import (
    Document,
    described,
    described_head,
    described_preflight,
)
from durable_sessions.http.openapi.parts import Operation
from durable_sessions.http.openapi.samples import samples
from durable_sessions.limits import Limits
from durable_sessions.schema_notes import OFFSET

_MODULES = (
    sessions,
    events,
    slots,
    work,
    graph,
    dossiers,
    exports,
    approvals,
    usage,
    memory,
    search,
    threads,
    outlines,
    resources,
    agents,
    environments,
    environment_work,
    memory_stores,
    artifacts,
    files,
    ingest,
    otlp,
    streams,
    subscriptions,
    keys,
    sign_in,
    operations,
)
_ORIGIN = "http://127.0.0.1:4437"
_SECURED: list[dict[str, list[str]]] = [{"bearer": []}, {"x-api-key": []}]


NOUNS = tuple(complete(module.NOUN) for module in _MODULES)
"""The whole interface, in reading order."""


@lru_cache(maxsize=4)
def encoded(limits: Limits, public_url: str) -> bytes:
    """Return the document as JSON; it is made once for each configuration."""
    return msgspec.json.encode(document(limits, public_url))


def document(limits: Limits, public_url: str = "") -> Document:
    """Return the document of a server with these limits, which is reached under a URL."""
    return filled(_document(public_url), limits)


def _document(public_url: str) -> Document:
    """Return the document with the names of limits."""
    paths: dict[str, Any] = {}
    schemas = dict(errors.SCHEMAS)
    for noun in NOUNS:
        schemas |= noun.schemas
        for operation in noun.operations:
            item = paths.setdefault(operation.path, {})
            item[operation.method] = shown = described(noun, operation)
            if operation.calls:
                shown["x-codeSamples"] = samples(operation, public_url or _ORIGIN)
            if operation.head:
                item["head"] = described_head(noun, operation)
            if noun.preflight:
                item["options"] = described_preflight(noun, operation)
            _link(shown, operation)
    used = {code for noun in NOUNS for one in noun.operations for code in errors.codes(one)}
    used.update(CARRIER)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Durable Sessions",
            "version": __version__,
            "summary": "The append-only event log for AI agents.",
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": public_url or "/"}],
        "security": _SECURED,
        "tags": [{"name": noun.name, "description": noun.text} for noun in NOUNS],
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
                name.decode(): {
                    "description": meaning,
                    "schema": OFFSET if name == STREAM_NEXT_OFFSET else {"type": "string"},
                }
                for name, meaning in MEANINGS.items()
            },
        },
    }


def _link(shown: Document, operation: Operation) -> None:
    """Add links to an operation's answers: the operations that can be called with values from the answer."""
    known = {name: f"$request.path.{name}" for name in _path_names(operation)}
    known.update(operation.gives)
    links: Document = {}
    for noun in NOUNS:
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
    # Compared as JSON: dicts cannot be hashed, and equal ones are made anew for each operation.
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


_INTRODUCTION = "\n\n".join(
    (
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
        "**Limits.** A body has at most {append_body_bytes_max:,} bytes (413), an event "
        "{event_bytes_max:,} (413), a request {events_per_request_max:,} events (400), "
        "a target {target_bytes_max:,} bytes (414), all headers {header_bytes_max:,} "
        "bytes and {header_count_max} lines (431). JSON is UTF-8 and nests at most "
        "{json_depth_max} levels. Times are RFC 3339 in UTC with milliseconds.",
        "**Browsers.** Pages of other origins are served if the origin is in `allowed_origins`, or if they "
        "send a key in a header and the path is not one of keys, audit, metrics or administration. All else "
        "that another site sends is 403 `origin_not_allowed`.",
    )
)
