"""Finds the excerpt of a text that matches a query best, and what to highlight in it."""

from collections.abc import Iterator
from typing import NamedTuple

from durable_sessions.search import tokenizer
from durable_sessions.search.query import Clause, Query

SNIPPET_CHARACTERS = 240
"""About how long a snippet is."""
_BORDER_CHARACTERS = 24
"""How far a snippet is shortened to end with a whole word."""
_PLACES_MAX = 64
"""How many occurrences of each word are considered."""
_TRIES_MAX = 8
"""How many candidate excerpts are tokenized to see what really matches."""

_WEIGHT_MAX = 12

_Part = tuple[str, int, int]


class Snippet(NamedTuple):
    """A piece of a text, with ``…`` where it was cut."""

    text: str
    highlights: list[tuple[int, int]]
    """Where the words of the query begin and end, in characters of the snippet."""


def snippet(text: str, query: Query) -> Snippet:
    """Return the excerpt with most of the query close together; the beginning if nothing matches."""
    clauses = query.words
    best: tuple[tuple[int, int], int, int, list[tuple[int, int]]] | None = None
    for promise, begin in _candidates(text, clauses):
        if best is not None and promise <= best[0][0]:
            break  # the most promising come first, so none of the rest can be better
        start, end = _stretch(text, begin)
        worth, found = _matches(text, start, end, clauses)
        if best is None or worth > best[0]:
            best = worth, start, end, found
    if best is None:
        return _made(text, *_stretch(text, 0), [])
    return _made(text, *best[1:])


def _weight(clause: Clause) -> int:
    """Return how much a clause counts: a long word says more than a short one."""
    return min(sum(map(len, clause.parts)), _WEIGHT_MAX)


def _candidates(text: str, clauses: tuple[Clause, ...]) -> list[tuple[int, int]]:
    """Return the possible weight and the beginning of candidate excerpts, the most promising first."""
    lower = _lower(text)
    places = sorted(
        place for number, clause in enumerate(clauses) for place in _places(lower, number, clause)
    )
    weights = list(map(_weight, clauses))
    promises: dict[int, int] = {0: 0}
    first = 0
    inside = [0] * len(clauses)
    weight = 0
    for at, number in places:
        weight += 0 if inside[number] else weights[number]
        inside[number] += 1
        while places[first][0] < at - SNIPPET_CHARACTERS * 2 // 3:
            left = places[first][1]
            inside[left] -= 1
            weight -= 0 if inside[left] else weights[left]
            first += 1
        begin = max(0, places[first][0] - SNIPPET_CHARACTERS // 6)
        promises[begin] = max(promises.get(begin, 0), weight)
    best = sorted(promises.items(), key=lambda each: (-each[1], each[0]))[:_TRIES_MAX]
    return [(promise, begin) for begin, promise in best]


def _lower(text: str) -> str:
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # Some characters become two in lower case. They are left as they are, so that all places stay right.
    return "".join(each if len(each.lower()) != 1 else each.lower() for each in text)


def _places(lower: str, number: int, clause: Clause) -> Iterator[tuple[int, int]]:
    """Yield where the longest part of a clause occurs; whether all of it matches is checked later."""
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
    """Return the weight and length of what matches in an excerpt, and where it is."""
    around = max(0, begin - tokenizer.PART_CHARACTERS_MAX), end + tokenizer.PART_CHARACTERS_MAX
    offset = around[0]
    parts = [(part, at + offset, to + offset) for part, at, to in tokenizer.spans(text[slice(*around)])]
    joined = _joined(parts)
    readings = [_Reading(parts, begin, end)]
    readings.append(readings[0] if len(joined) == len(parts) else _Reading(joined, begin, end))
    found: set[tuple[int, int]] = set()
    weight = 0
    for clause in clauses:
        places = {
            place
            for reading, sequence in zip(readings, (clause.parts, clause.wholes), strict=True)
            for place in reading.places(sequence, clause.is_prefix)
        }
        weight += _weight(clause) if places else 0
        found |= places
    merged = _merged(sorted(found))
    return (weight, sum(to - at for at, to in merged)), merged


class _Reading:
    """The words of an excerpt, with an index of where each occurs."""

    def __init__(self, parts: list[_Part], begin: int, end: int) -> None:
        self._parts = parts = [each for each in parts if begin <= each[1] and each[2] <= end]
        self._where: dict[str, list[int]] = {}
        for number, (part, _, _) in enumerate(parts):
            self._where.setdefault(part, []).append(number)

    def places(self, sequence: tuple[str, ...], is_prefix: bool) -> Iterator[tuple[int, int]]:
        """Yield where the words of a sequence follow each other."""
        size = len(sequence)
        for first in self._beginnings(sequence, is_prefix):
            run = self._parts[first : first + size]
            written = tuple(part for part, _, _ in run)
            if is_prefix and len(run) == size:
                written = (*written[:-1], written[-1][: len(sequence[-1])])
            if written == sequence:
                yield run[0][1], run[-1][2]

    def _beginnings(self, sequence: tuple[str, ...], is_prefix: bool) -> list[int]:
        if len(sequence) == 1 and is_prefix:
            return [
                at for part, places in self._where.items() if part.startswith(sequence[0]) for at in places
            ]
        return self._where.get(sequence[0], []) if sequence else []


def _joined(parts: list[_Part]) -> list[_Part]:
    """Return the words that adjacent parts make up."""
    joined: list[_Part] = []
    before = -1
    for each in parts:
        part, at, to = each
        if before == at and not tokenizer.is_single(part) and not tokenizer.is_single(joined[-1][0]):
            joined[-1] = (joined[-1][0] + part, joined[-1][1], to)
        else:
            joined.append(each)
        before = to
    return joined


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
