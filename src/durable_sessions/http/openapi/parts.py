"""The parts of the interface description: nouns with operations, each with parameters and answers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from durable_sessions.http.openapi.error_groups import WRITING
from durable_sessions.http.openapi.limit_names import filled
from durable_sessions.http.openapi.schemas import Schema
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.limits import Limits

JSON = "application/json"
NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"
OCTETS = "application/octet-stream"
TEXT = "text/plain"
BY_METHOD = "by method"
"""The role of an operation that states none: ``reader`` for GET and HEAD, ``writer`` for the others."""

_SENTENCE_END = re.compile(r"(?<=[.?]) ")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path, the query or the headers of a request, with a working ``example``.

    ``default`` is the value if it is left out; the parser takes it and the bounds from here. ``errors`` are
    the codes with which a request can be refused because of this parameter.
    """

    name: str
    place: str
    schema: Schema
    text: str
    example: Any = None
    required: bool = False
    style: str | None = None
    default: Any = None
    errors: tuple[str, ...] = ()

    @property
    def key(self) -> bytes:
        """The name of a header as the carrier gives it to handlers: bytes in lower case."""
        return self.name.lower().encode()

    def within(self, limits: Limits) -> "Parameter":
        """Return the parameter of a server with these limits, for its parser."""
        return replace(self, schema=filled(self.schema, limits), text=filled(self.text, limits))


def in_path(name: str, schema: Schema, text: str, example: str, *errors: str) -> Parameter:
    """Return a path parameter."""
    return Parameter(name, "path", schema, text, example, required=True, errors=errors)


def in_query(
    name: str,
    schema: Schema,
    text: str,
    example: Any = None,
    *errors: str,
    style: str | None = None,
    default: Any = None,
) -> Parameter:
    """Return a query parameter; ``style`` is OpenAPI's, for objects."""
    # Any parameter is refused if it is not UTF-8, or is given twice where it makes sense only once.
    refused = ("invalid_request", *errors)
    return Parameter(name, "query", schema, text, example, style=style, default=default, errors=refused)


def in_header(name: str, schema: Schema, text: str, example: str | None = None, *errors: str) -> Parameter:
    """Return a request header."""
    return Parameter(name, "header", schema, text, example, errors=errors)


Content = Schema | type[msgspec.Struct]
"""What a body looks like: a schema, or the struct that it is decoded into or encoded from."""


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request by media type, and the codes with which it is refused whatever it is about."""

    content: Mapping[str, Schema]
    text: str = ""
    required: bool = True
    errors: tuple[str, ...] = ()


def json_body(content: Content, text: str = "", *, required: bool = True) -> Body:
    """Return a JSON body."""
    return Body({JSON: _schema(content)}, text, required, ("invalid_json",))


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is not an error: its bodies by media type, and the headers that it may have."""

    text: str
    content: Mapping[str, Schema] = field(default_factory=dict)
    headers: tuple[bytes, ...] = ()


def json_answer(text: str, content: Content, *headers: bytes) -> Answer:
    """Return a JSON answer."""
    return Answer(text, {JSON: _schema(content)}, headers)


def no_content(text: str, *headers: bytes) -> dict[int, Answer]:
    """Return the answer of an operation that has nothing to say but that it was carried out."""
    return {204: Answer(text, headers=headers)}


def _schema(content: Content) -> Schema:
    return content if isinstance(content, dict) else schema_of(content)


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

    ``route`` is the id, the method and the path, as in ``listAgents: GET /v1/agents``. The first sentence of
    ``said`` is the summary. What can be derived is not stated: ``completion.py`` adds the parameters of the
    path, the role, the errors that follow from parameters and method, and the example ``calls``. So
    ``parameters`` are those of the query and the headers, and ``errors`` are the codes that nothing else
    implies. ``role`` is the lowest role that the caller's key must have; None means that no key is needed.
    With ``head``, HEAD gets the same answer without a body. ``gives`` maps path parameters of other
    operations to OpenAPI's expression for their value in the answer.
    """

    route: str
    said: str
    answers: Mapping[int, Answer]
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    errors: tuple[str, ...] = ()
    role: str | None = BY_METHOD
    head: bool = False
    gives: Mapping[str, str] = field(default_factory=dict)
    calls: tuple[Call, ...] = ()

    @property
    def id(self) -> str:
        """The name by which handlers and examples refer to it."""
        return self.route.partition(": ")[0]

    @property
    def method(self) -> str:
        """The method, in lower case as OpenAPI writes it."""
        return self.route.split(" ")[1].lower()

    @property
    def path(self) -> str:
        """The path, with its parameters in braces."""
        return self.route.split(" ")[2]

    @property
    def summary(self) -> str:
        """What it does, in a few words."""
        return _SENTENCE_END.split(self.said, maxsplit=1)[0].rstrip(".")

    @property
    def text(self) -> str:
        """What else is to be said."""
        return "".join(_SENTENCE_END.split(self.said, maxsplit=1)[1:])

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self.method in ("get", "head", "options")


@dataclass(frozen=True, slots=True)
class Noun:
    """The operations on one kind of thing, in reading order.

    With ``preflight``, CORS preflights from other origins are answered on all of its paths. ``writing`` are
    the error codes that all of its operations but reads have.
    """

    name: str
    text: str
    operations: tuple[Operation, ...]
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    preflight: bool = True
    writing: tuple[str, ...] = WRITING
