"""Schemas that are derived from structs say what the structs say."""

from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
import pytest

from durable_sessions.http.openapi.limit_names import filled
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.schema_notes import Time, about, ref


class Part(msgspec.Struct):
    """A part, for those who read the code."""

    name: str


class Body(msgspec.Struct):
    """A body, for those who read the code.

    What clients are told of it, over
    two lines.
    """

    kind: Literal["b", "a"]
    always: Literal["thing"]
    count: Annotated[int, msgspec.Meta(ge=1, le=9)]
    title: Annotated[str | None, about("A title.")] = None
    short: Annotated[str, msgspec.Meta(min_length=1, max_length=5)] | None = None
    parts: Annotated[list[Part], msgspec.Meta(max_length=3)] | msgspec.UnsetType = msgspec.UNSET
    part: Part | None = None
    pairs: dict[str, msgspec.Raw] | None = None
    raw: msgspec.Raw | None = None
    model: str | dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    at: Annotated[Time | None, about("When.")] = None
    named: list[Annotated[dict[str, Any], about(**ref("Named"))]] | None = None
    object: Annotated[dict[str, Any] | None, about(properties={"id": {"type": "string"}})] = None


class Shown(msgspec.Struct, omit_defaults=True):
    """What is null is left out of it."""

    part: Part | None = None
    note: str | None = None
    choice: Literal["a", "b"] | None = None


def test_members_have_the_type_the_bounds_and_the_description_of_their_fields() -> None:
    part = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    assert schema_of(Body) == {
        "type": "object",
        "description": "What clients are told of it, over two lines.",
        "required": ["kind", "always", "count"],
        "properties": {
            "kind": {"type": "string", "enum": ["b", "a"]},
            "always": {"type": "string", "const": "thing"},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "title": {"type": ["string", "null"], "description": "A title."},
            "short": {"type": ["string", "null"], "minLength": 1, "maxLength": 5},
            "parts": {"type": "array", "items": part, "maxItems": 3},
            "part": {**part, "type": ["object", "null"]},
            "pairs": {"type": ["object", "null"], "additionalProperties": True},
            "raw": {},
            "model": {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": True}]},
            "at": {
                "type": ["string", "null"],
                "format": "date-time",
                "examples": ["2026-11-15T12:00:00.123Z"],
                "description": "When.",
            },
            "named": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/Named"}},
            "object": {"type": ["object", "null"], "properties": {"id": {"type": "string"}}},
        },
    }


def test_what_is_left_out_where_it_is_null_is_not_described_as_null() -> None:
    properties = schema_of(Shown)["properties"]
    assert properties["part"]["type"] == "object"
    assert properties["note"] == {"type": "string"}
    assert properties["choice"] == {"type": "string", "enum": ["a", "b"]}


def test_a_body_that_refuses_unknown_members_says_so() -> None:
    strict = msgspec.defstruct("Strict", [("name", str)], forbid_unknown_fields=True)
    assert schema_of(strict)["additionalProperties"] is False
    assert "additionalProperties" not in schema_of(Part)


def test_a_body_with_members_of_its_own_says_so() -> None:
    schema = schema_of(Part, open_ended=True)
    assert schema == {**schema_of(Part), "additionalProperties": True}


def test_members_can_be_asked_for_later_or_kept_back() -> None:
    schema = schema_of(Body, required={"title": {"minLength": 1}}, without=["raw", "kind"])
    assert schema["required"] == ["always", "count", "title"]
    assert schema["properties"]["title"]["minLength"] == 1
    assert not {"raw", "kind"} & schema["properties"].keys()


def test_limits_are_those_of_the_server() -> None:
    text = Annotated[str, about("Up to {event_id_max:,} of {those}.", maxLength="{event_id_max}")]
    noted = msgspec.defstruct("Noted", [("text", text)])
    limits = replace(DEFAULT_LIMITS, event_id_max=12_345)
    assert filled(schema_of(noted), limits)["properties"]["text"] == {
        "type": "string",
        "maxLength": 12_345,
        "description": "Up to 12,345 of {those}.",
    }


def test_a_bound_that_is_no_limit_is_a_fault() -> None:
    noted = msgspec.defstruct("Noted", [("text", Annotated[str, about(maxLength="{event_id_mox}")])])
    with pytest.raises(KeyError, match="event_id_mox"):
        filled(schema_of(noted), DEFAULT_LIMITS)
    with pytest.raises(KeyError, match="event_id_mox"):
        filled({"description": "Up to {event_id_mox:,} bytes."}, DEFAULT_LIMITS)
