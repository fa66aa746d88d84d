"""What is wrong with a JSON value, in the words of whoever sent it instead of the decoder's."""

import re

import msgspec

_PLACE = re.compile(r" - at `(?P<place>\$[^`]*)`$")
_EXPECTED = re.compile(
    r"Expected `(?P<wanted>[^`]+)`(?P<bound>.*?)(?:, got `(?P<found>[^`]+)`(?P<value>.*))?$"
)
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]+)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]+)`$")
_ENUM = re.compile(r"Invalid enum value (?P<value>.+)$")
_TAG = re.compile(r"Invalid value (?P<value>.+)$")
_MALFORMED = re.compile(r"JSON is malformed: (?P<why>.*?) \(byte (?P<byte>\d+)\)$")
_LENGTH = re.compile(r" of length (?P<bound>.+)$")
_NAMES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}


def problem(error: Exception) -> str:
    """Return what is wrong, such as ``title is a whole number; send a text or null``, without a full stop."""
    if isinstance(error, RecursionError):
        return "it nests too deeply"
    said = str(error)
    if not isinstance(error, msgspec.DecodeError):
        return said or type(error).__name__
    found = _PLACE.search(said)
    place = _spelt(found["place"]) if found else ""
    what = said[: found.start()] if found else said
    return _problem(what, place)


def unknown_member(error: msgspec.DecodeError) -> str | None:
    """Return the name of the member that an object should not have, None if something else is wrong."""
    found = _UNKNOWN.match(_PLACE.sub("", str(error)))
    return None if found is None else found["name"]


def _problem(what: str, place: str) -> str:
    if match := _EXPECTED.match(what):
        wanted = " or ".join(_NAMES.get(name.strip(), name.strip()) for name in match["wanted"].split("|"))
        if length := _LENGTH.match(match["bound"]):
            return f"{place or 'it'} is of another length; send {wanted} of length {length['bound']}"
        if match["found"] is None:
            return f"{place or 'it'} is not usable; send {wanted}{match['bound']}"
        return f"{place or 'it'} is {_NAMES.get(match['found'], match['found'])}; send {wanted}"
    if match := _MISSING.match(what):
        return f"{_under(place, match['name'])} is missing"
    if match := _UNKNOWN.match(what):
        return f"{_under(place, match['name'])} is not known here"
    if match := _ENUM.match(what) or _TAG.match(what):
        return f"{place or 'it'} is {match['value']}, which is not one of its values"
    if match := _MALFORMED.match(what):
        return f"it is not JSON: {match['why']} at byte {match['byte']}"
    if what == "Input data was truncated":
        return "it is not JSON: it ends too early"
    return f"{place}: {what}" if place else what


def _spelt(path: str) -> str:
    """Return a path of the decoder's, ``$.events[...].type``, as ``events[].type``."""
    return path.removeprefix("$").removeprefix(".").replace("[...]", "[]")


def _under(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
