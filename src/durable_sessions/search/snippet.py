"""Where in a text the best of a query is: a few words around it, and what to highlight in them."""

from collections.abc import Iterator
from typing import NamedTuple

from durable_sessions.search import words
from durable_sessions.search.query import Clause, Query

SNIPPET_CHARACTERS = 240
"""About how long a snippet is."""
_BORDER_CHARACTERS = 24
"""How far a snippet is shortened to end with a whole word."""
_PLACES_MAX = 64
"""Places that are looked at for each word."""
_TRIES_MAX = 8
"""Stretches of text that are taken apart to see what really matches there."""

_Part = tuple[str, int, int]


class Snippet(NamedTuple):
    """A piece of a text, with ``…`` where it was cut."""

    text: str
    highlights: list[tuple[int, int]]
    """Where the words of the query begin and end, in characters of the snippet."""


def snippet(text: str, query: Query) -> Snippet:
    """Return the piece of a text with most of the query close together; its beginning if there is nothing."""
    clauses = query.words
    best: tuple[tuple[int, int], int, int, list[tuple[int, int]]] | None = None
    for promise, begin in _candidates(text, clauses):
        if best is not None and promise <= best[0][0]:
            break
        start, end = _stretch(text, begin)
        worth, found = _matches(text, start, end, clauses)
        if best is None or worth > best[0]:
            best = worth, start, end, found
    if best is None:
        return _made(text, *_stretch(text, 0), [])
    return _made(text, *best[1:])


def _candidates(text: str, clauses: tuple[Clause, ...]) -> list[tuple[int, int]]:
    """Return how many of the clauses may be in a stretch and where it begins, the most promising first."""
    lower = _lower(text)
    places = sorted(
        place for number, clause in enumerate(clauses) for place in _places(lower, number, clause)
    )
    scored: dict[int, int] = {0: 0}
    first = 0
    inside: dict[int, int] = {}
    for at, number in places:
        inside[number] = inside.get(number, 0) + 1
        while places[first][0] < at - SNIPPET_CHARACTERS * 2 // 3:
            left = places[first][1]
            inside[left] -= 1
            if not inside[left]:
                del inside[left]
            first += 1
        begin = max(0, places[first][0] - SNIPPET_CHARACTERS // 6)
        scored[begin] = max(scored.get(begin, 0), len(inside))
    promises = sorted(
        ((count, begin) for begin, count in scored.items()), key=lambda each: (-each[0], each[1])
    )
    return promises[:_TRIES_MAX]


def _lower(text: str) -> str:
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(each if len(each.lower()) != 1 else each.lower() for each in text)


def _places(lower: str, number: int, clause: Clause) -> Iterator[tuple[int, int]]:
    """Return where the longest part of a clause may be."""
    part = max(clause.parts, key=len)
    at = lower.find(part)
    for _ in range(_PLACES_MAX):
        if at < 0:
            return
        yield at, number
        at = lower.find(part, at + len(part))


def _stretch(text: str, begin: int) -> tuple[int, int]:
    """Return where a snippet begins and ends, with whole words as far as they are not very long."""
    end = min(len(text), begin + SNIPPET_CHARACTERS)
    begin = max(0, min(begin, end - SNIPPET_CHARACTERS))
    if begin and text[begin - 1].isalnum():
        begin += next(
            (at for at, each in enumerate(text[begin : begin + _BORDER_CHARACTERS]) if each.isspace()), 0
        )
    if end < len(text) and text[end].isalnum():
        tail = reversed(text[end - _BORDER_CHARACTERS : end])
        end -= next((at for at, each in enumerate(tail) if each.isspace()), 0)
    return begin, end


def _matches(
    text: str, begin: int, end: int, clauses: tuple[Clause, ...]
) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Return how many clauses are in a stretch and how long what matches is, and where that is."""
    around = max(0, begin - words.PART_CHARACTERS_MAX), end + words.PART_CHARACTERS_MAX
    offset = around[0]
    parts = [(part, at + offset, to + offset) for part, at, to in words.spans(text[slice(*around)])]
    readings = [
        [each for each in reading if begin <= each[1] and each[2] <= end]
        for reading in (parts, _joined(parts))
    ]
    found: set[tuple[int, int]] = set()
    clauses_found = 0
    for clause in clauses:
        places = {
            place
            for reading, sequence in zip(readings, (clause.parts, clause.wholes), strict=True)
            for place in _occurrences(reading, sequence, clause.is_prefix)
        }
        clauses_found += bool(places)
        found |= places
    merged = _merged(sorted(found))
    return (clauses_found, sum(to - at for at, to in merged)), merged


def _joined(parts: list[_Part]) -> list[_Part]:
    """Return the words that are made of parts which touch."""
    joined: list[_Part] = []
    for part, at, to in parts:
        if (
            joined
            and joined[-1][2] == at
            and not words.is_single(part)
            and not words.is_single(joined[-1][0])
        ):
            joined[-1] = (joined[-1][0] + part, joined[-1][1], to)
        else:
            joined.append((part, at, to))
    return joined


def _occurrences(
    reading: list[_Part], sequence: tuple[str, ...], is_prefix: bool
) -> Iterator[tuple[int, int]]:
    """Return where parts follow each other as they should."""
    size = len(sequence)
    for first in range(len(reading) - size + 1 if sequence else 0):
        if all(
            part == sought or (is_prefix and number == size - 1 and part.startswith(sought))
            for number, ((part, _, _), sought) in enumerate(
                zip(reading[first : first + size], sequence, strict=True)
            )
        ):
            yield reading[first][1], reading[first + size - 1][2]


def _merged(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return places of which none overlaps or touches another."""
    merged: list[tuple[int, int]] = []
    for begin, end in places:
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _made(text: str, begin: int, end: int, found: list[tuple[int, int]]) -> Snippet:
    while begin < end and text[begin].isspace():
        begin += 1
    while end > begin and text[end - 1].isspace():
        end -= 1
    before = "… " if begin else ""
    after = " …" if end < len(text.rstrip()) else ""
    shift = len(before) - begin
    return Snippet(f"{before}{text[begin:end]}{after}", [(at + shift, to + shift) for at, to in found])
