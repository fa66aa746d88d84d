"""What a description of the interface is made of: nouns with operations, each with parameters and answers."""

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
    """Something that a request says in its path, its query or its headers; ``example`` is worth trying.

    ``default`` is what it means to leave it out; a parser takes that and the bounds from here.
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
    """Return a part of the path."""
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
    """Return a parameter of the query; ``style`` is OpenAPI's, for objects."""
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
    """Return a body of JSON."""
    return Body({JSON: schema}, text, required)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is no refusal: its bodies by media type, and the headers that it may carry."""

    text: str
    content: Mapping[str, Schema] = field(default_factory=dict)
    headers: tuple[str, ...] = ()


def json_answer(text: str, schema: Schema, *headers: str) -> Answer:
    """Return an answer of JSON."""
    return Answer(text, {JSON: schema}, headers)


@dataclass(frozen=True, slots=True)
class Call:
    """One request that works, as an example; path parameters have their own examples.

    ``body`` is JSON unless ``media_type`` says otherwise; then it is text.
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

    ``role`` is the least that the caller's key must have; None needs no key. ``refusals`` are the error codes
    beyond those that every request can meet. With ``head`` the same is answered to HEAD, without a body. An
    answer ``gives`` path parameters of other operations: by name, OpenAPI's expression for the value.
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
    """What is served of one kind of thing, in the order in which to read it.

    With ``preflight`` browsers of other origins are answered, on all of its paths.
    """

    name: str
    text: str
    operations: tuple[Operation, ...]
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    preflight: bool = True
