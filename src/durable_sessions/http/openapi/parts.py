"""The parts of the interface description: nouns with operations, each with parameters and answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from durable_sessions.http.openapi.schemas import Schema

JSON = "application/json"
NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"
OCTETS = "application/octet-stream"
TEXT = "text/plain"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path, the query or the headers of a request, with a working ``example``.

    ``default`` is the value if it is left out; the parser takes it and the bounds from here.
    """

    name: str
    place: str
    schema: Schema
    text: str
    example: Any = None
    required: bool = False
    style: str | None = None
    default: Any = None


def in_path(name: str, schema: Schema, text: str, example: str) -> Parameter:
    """Return a path parameter."""
    return Parameter(name, "path", schema, text, example, required=True)


def in_query(
    name: str,
    schema: Schema,
    text: str,
    example: Any = None,
    style: str | None = None,
    *,
    default: Any = None,
) -> Parameter:
    """Return a query parameter; ``style`` is OpenAPI's, for objects."""
    return Parameter(name, "query", schema, text, example, style=style, default=default)


def in_header(
    name: str, schema: Schema, text: str, example: str | None = None, *, required: bool = False
) -> Parameter:
    """Return a request header."""
    return Parameter(name, "header", schema, text, example, required=required)


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request, by media type."""

    content: Mapping[str, Schema]
    text: str = ""
    required: bool = True


def json_body(schema: Schema, text: str = "", *, required: bool = True) -> Body:
    """Return a JSON body."""
    return Body({JSON: schema}, text, required)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is not an error: its bodies by media type, and the headers that it may have."""

    text: str
    content: Mapping[str, Schema] = field(default_factory=dict)
    headers: tuple[str, ...] = ()


def json_answer(text: str, schema: Schema, *headers: str) -> Answer:
    """Return a JSON answer."""
    return Answer(text, {JSON: schema}, headers)


@dataclass(frozen=True, slots=True)
class Call:
    """A working request as an example; path parameters have their own examples.

    ``body`` is JSON, or text if ``media_type`` says otherwise.
    """

    title: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    media_type: str = JSON
    status: int = 200


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path.

    ``role`` is the lowest role that the caller's key must have; None means that no key is needed.
    ``refusals`` are the error codes beyond those that every request can get. With ``head``, HEAD gets the
    same answer without a body. ``gives`` maps path parameters of other operations to OpenAPI's expression
    for their value in the answer.
    """

    method: str
    path: str
    id: str
    summary: str
    answers: Mapping[int, Answer]
    text: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    refusals: tuple[str, ...] = ()
    role: str | None = "reader"
    calls: tuple[Call, ...] = (Call(""),)
    head: bool = False
    gives: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Noun:
    """The operations on one kind of thing, in reading order.

    With ``preflight``, CORS preflights from other origins are answered on all of its paths.
    """

    name: str
    text: str
    operations: tuple[Operation, ...]
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    preflight: bool = True
