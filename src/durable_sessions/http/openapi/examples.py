"""The example calls of operations, read from ``examples.http``."""

import re
from functools import cache
from importlib.resources import files

import msgspec

from durable_sessions.http.openapi.parts import JSON, Call, Operation

_HEADING = re.compile(r"^### (?P<id>\w+)(?: (?P<status>\d{3}))?(?:: (?P<title>.+))?\n", re.MULTILINE)
_HEADER = re.compile(r"^([\w-]+): (.+)\n", re.MULTILINE)
_WITHOUT = frozenset({"callbackWake"})
"""Operations without an example: only a webhook brings what is needed to call them."""


def calls_of(operation: Operation) -> tuple[Call, ...]:
    """Return the examples of an operation; one that needs nothing but its path is its own example."""
    usual = 200 if 200 in operation.answers else min(operation.answers)
    if operation.id in _WITHOUT:
        return ()
    found = [_call(heading, text, usual) for heading, text in _recorded().get(operation.id, ())]
    return tuple(found) or (Call("", status=usual),)


@cache
def _recorded() -> dict[str, list[tuple[re.Match[str], str]]]:
    """Return the headings of examples, each with the text below it, by operation."""
    text = files(__package__).joinpath("examples.http").read_text(encoding="utf-8")
    headings = [*_HEADING.finditer(text)]
    # The blank line between two examples belongs to neither; the newline at the end of a text body does.
    ends = [heading.start() for heading in headings[1:]] + [len(text) + 1]
    found: dict[str, list[tuple[re.Match[str], str]]] = {}
    for heading, end in zip(headings, ends, strict=True):
        found.setdefault(heading["id"], []).append((heading, text[heading.end() : end - 1]))
    return found


def _call(heading: re.Match[str], text: str, usual: int) -> Call:
    query: dict[str, str] = {}
    if text.startswith("?"):
        line, _, text = text[1:].partition("\n")
        pairs = (pair.partition("=") for pair in line.split("&"))
        query = {name: value for name, _, value in pairs}
    headers: dict[str, str] = {}
    while (line_found := _HEADER.match(text)) is not None:
        headers[line_found[1]] = line_found[2]
        text = text[line_found.end() :]
    media_type = headers.pop("Content-Type", JSON)
    text = text.removeprefix("\n")
    body = msgspec.json.decode(text) if text and media_type == JSON else text or None
    status = int(heading["status"] or usual)
    return Call(heading["title"] or "", query, headers, body, media_type, status)


def recorded_ids() -> set[str]:
    """Return the ids of the operations that have an example in the file."""
    return set(_recorded())
