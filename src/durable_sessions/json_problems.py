"""What is wrong with a JSON value, in the words of whoever sent it instead of the decoder's.

Of bytes that are no JSON at all, :mod:`durable_sessions.json_syntax` says what is wrong.
"""

import re
from typing import Any

import msgspec

from durable_sessions import json_wanted

_PLACE = re.compile(r" - at `(?P<place>\$[^`]*)`$")
_EXPECTED = re.compile(
    r"Expected `(?P<wanted>[^`]+)`(?P<bound>.*?)(?:, got `(?P<found>[^`]+)`(?P<value>.*))?$"
)
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]+)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]+)`$")
_ENUM = re.compile(r"Invalid enum value (?P<value>.+)$")
_TAG = re.compile(r"Invalid value (?P<value>.+)$")
_LENGTH = re.compile(r" of length (?P<side>[<>])=? ")
_BOUND = re.compile(r" (?P<side>[<>])=? ")
_NAMES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}


def problem(error: Exception, shape: Any = Any) -> str:
    """Return what is wrong, such as ``title is a whole number; send a text or null``, without a full stop.

    ``shape`` is the type that was to be decoded.
    """
    if isinstance(error, RecursionError):
        return "it nests too deeply"
    said = str(error)
    if not isinstance(error, msgspec.ValidationError):
        # A part of a body that has been read as JSON before: nothing else can be wrong with it.
        return "it holds an escape such as \\ud800, half of a character; send both halves, or the character"
    found = _PLACE.search(said)
    raw = found["place"] if found else "$"
    what = said[: found.start()] if found else said
    return _problem(what, _spelt(raw), json_wanted.wanted(shape, raw), json_wanted.choices(shape, raw))


def path(error: Exception) -> str:
    """Return the place of what is wrong, such as ``features[1].id``; of a missing member, its own.

    Which value of a map is wrong the decoder does not say: then it is the place of the map.
    """
    said = str(error)
    found = _PLACE.search(said)
    whole, map_value, _ = found["place"].partition("[...]") if found else ("", "", "")
    place = _spelt(whole)
    what = said[: found.start()] if found else said
    named = None if map_value else _MISSING.match(what) or _UNKNOWN.match(what)
    return place if named is None else _under(place, named["name"])


def unknown_member(error: Exception) -> str | None:
    """Return the name of the member that an object should not have, None if something else is wrong."""
    found = _UNKNOWN.match(_PLACE.sub("", str(error)))
    return None if found is None else found["name"]


def _problem(what: str, place: str, wanted: str, choices: list[str]) -> str:
    if match := _EXPECTED.match(what):
        if match["found"] is None:
            return f"{place or 'it'} is {_fault(match['bound'])}; send {wanted}"
        return (
            f"{place or 'it'} is {_NAMES.get(match['found'], match['found'])}; send {_names(match['wanted'])}"
        )
    if match := _MISSING.match(what):
        return f"{_under(place, match['name'])} is missing"
    if match := _UNKNOWN.match(what):
        return f"{_under(place, match['name'])} is not known here"
    if match := _ENUM.match(what) or _TAG.match(what):
        send = f"; send {' or '.join(choices)}" if choices else ""
        return f"{place or 'it'} is {_quoted(match['value'])}, which is not one of its values{send}"
    if what.endswith("out of range"):
        return f"{place or 'it'} is out of range; send a smaller number"
    return f"{place or 'it'} is not usable"


def _names(wanted: str) -> str:
    """Return the types that the decoder names in words; every whole number is a number."""
    names = [name.strip() for name in wanted.split("|")]
    return " or ".join(_NAMES.get(name, name) for name in names if name != "int" or "float" not in names)


def _fault(bound: str) -> str:
    """Return on which side of a bound of the decoder's a value is, such as `` of length <= 3``."""
    if length := _LENGTH.match(bound):
        return "too long" if length["side"] == "<" else "empty" if bound.endswith(" 1") else "too short"
    if number := _BOUND.match(bound):
        return "too large" if number["side"] == "<" else "too small"
    return "not usable"


def _quoted(value: str) -> str:
    """Return a value as it stands in JSON; the decoder shows texts as Python does."""
    return f'"{value[1:-1]}"' if value[:1] == value[-1:] == "'" else value


def _spelt(path: str) -> str:
    """Return a path of the decoder's, ``$.events[0].type``, as ``events[0].type``."""
    owner, _, member = path.removeprefix("$").removeprefix(".").partition("[...]")
    if owner == path.removeprefix("$").removeprefix("."):
        return owner
    inner = _spelt(member)
    return f"{inner} in a value of {owner or 'it'}" if inner else f"a value of {owner or 'it'}"


def _under(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
