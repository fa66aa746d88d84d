"""The guide of strict events: each type has one, and its example is what parser and schema take."""

from typing import Any

import msgspec
import pytest
from openapi_schema_validator import OAS31Validator

from durable_sessions.errors import InvalidEventError
from durable_sessions.http.openapi.document import document
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions.graph import schemas, strict
from durable_sessions.sessions.graph.event_guide import GUIDE

Event = dict[str, Any]
COMPONENTS = document(DEFAULT_LIMITS)["components"]
KINDS = list(schemas.TYPES)
SENT = [kind for kind in KINDS if not schemas.TYPES[kind].is_servers]


def fits(name: str, event: Event) -> bool:
    """Say whether an event fits a schema of the document."""
    return bool(OAS31Validator({"components": COMPONENTS, **COMPONENTS["schemas"][name]}).is_valid(event))


def is_taken(event: Event) -> bool:
    """Say whether the parser takes an event."""
    kind = event["type"]
    if schemas.TYPES[kind].is_servers:
        return strict.read(kind, msgspec.json.encode(event)) is not None
    try:
        strict.parse(kind, msgspec.json.encode(event), None, DEFAULT_LIMITS)
    except InvalidEventError:
        return False
    return True


def test_every_type_has_a_guide_in_the_same_order() -> None:
    assert list(GUIDE) == KINDS
    assert len(KINDS) == 24


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_is_taken_and_fits_its_schema_alone(kind: str) -> None:
    example = GUIDE[kind].example
    assert example["type"] == kind
    assert is_taken(example)
    assert [one for one in KINDS if fits(one, example)] == [kind]
    assert fits("StrictEvent", example) == fits("NewEvent", example) == (kind in SENT)
    assert fits("ServerEvent", example) == (kind not in SENT)
    assert not fits("FreeEvent", example)
    assert COMPONENTS["schemas"][kind]["examples"] == [example]


def wrong(kind: str) -> list[Event]:
    """Return the example with one thing wrong at a time: a member gone, of another kind, or too many."""
    example, schema = GUIDE[kind].example, COMPONENTS["schemas"][kind]
    needed = [name for name in schema["required"] if name != "type"]
    bounded = [
        name for name in example if name != "type" and {"type", "anyOf"} & {*schema["properties"][name]}
    ]
    return [
        *({key: value for key, value in example.items() if key != name} for name in needed),
        *({**example, name: 7 if isinstance(example[name], str | list | dict) else "7"} for name in bounded),
        *([{**example, "vlaue": 1}] if kind in SENT else []),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_schema_and_parser_refuse_the_same(kind: str) -> None:
    for event in wrong(kind):
        assert not is_taken(event), event
        assert not fits(kind, event), event


@pytest.mark.parametrize("kind", ["ds.fcat", "ds.", "ds.session"])
def test_a_type_that_is_not_known_fits_nothing(kind: str) -> None:
    assert not fits("NewEvent", {"type": kind})


@pytest.mark.parametrize("kind", ["user.message", "dsx", "note", "xds.fact"])
def test_other_types_are_free(kind: str) -> None:
    assert fits("NewEvent", {"type": kind, "refs": 7, "value": None})
