"""Elements of markup in a text: a name in angle brackets, what it encloses, and the same name to close it."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

NAMES_MAX = 64
"""How many different elements are looked for in one text; what follows is plain text."""
_ATTRIBUTES = r"(?:\s[^<>]{0,2000})?"


class Element(NamedTuple):
    """An element that is known and closed; what is inside it is its text."""

    tag: str
    text: str
    start: int
    end: int


def opening(tags: Iterable[str], *, begins_line: bool = False) -> re.Pattern[str]:
    """Return the pattern for openings of these elements."""
    names = "|".join(map(re.escape, tags))
    return re.compile(rf"{'^' if begins_line else ''}<({names}){_ATTRIBUTES}>", re.MULTILINE)


def elements(text: str, openings: re.Pattern[str], *, fill_lines: bool = False) -> Iterator[Element]:
    """Yield the elements of a text; if they have to fill lines, none ends in the middle of one."""
    at = 0
    # The closing after a place is also that of later openings before it: each is looked for once.
    closings: dict[str, int] = {}
    while found := openings.search(text, at):
        at, tag = found.end(), found[1]
        if tag not in closings and len(closings) >= NAMES_MAX:
            return
        closing = closings.get(tag, 0)
        if 0 <= closing < at:
            closing = closings[tag] = text.find(f"</{tag}>", at)
        if closing < 0:
            continue
        end = closing + len(tag) + 3
        if fill_lines and text[end : end + 1] not in ("", "\n"):
            continue
        yield Element(tag, text[at:closing], found.start(), end)
        at = end
