"""What a member of a JSON value takes, in words, from the type that it is decoded to.

The decoder names one bound of one type; here stand both bounds, all choices, and the words for a pattern.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec import inspect

_STEP = re.compile(r"\.(?P<member>[^.\[]+)|\[(?:\d+|\.\.\.)\]")
_WORDS = "words"


def as_words(words: str) -> dict[str, str]:
    """Return the ``extra`` of a pattern: what is told to whoever sends something else."""
    return {_WORDS: words}


def wanted(shape: Any, place: str) -> str:
    """Return what belongs at a place of the decoder's, such as ``$.features[0].id``, null left out."""
    found = _at(shape, place)
    if any(isinstance(one, inspect.FloatType) for one in found):
        found = [
            one for one in found if not isinstance(one, inspect.IntType)
        ]  # every whole number is a number
    return " or ".join(said for one in found if (said := _words(one)))


def choices(shape: Any, place: str) -> list[str]:
    """Return the texts of which one belongs at a place."""
    literals = [one for one in _at(shape, place) if isinstance(one, inspect.LiteralType)]
    return [str(value) for one in literals for value in one.values]


@lru_cache(maxsize=256)
def _inspected(shape: Any) -> inspect.Type:
    return inspect.type_info(shape)


def _at(shape: Any, place: str) -> list[inspect.Type]:
    """Return the types that a place takes; those that have words keep them."""
    types = list(_alternatives(_inspected(shape)))
    for step in _STEP.finditer(place):
        types = [inner for one in types for inner in _inner(one, step["member"])]
    return types


def _alternatives(kind: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.Metadata) and _WORDS not in (kind.extra or {}):
        yield from _alternatives(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _alternatives(one)
    else:
        yield kind


def _inner(kind: inspect.Type, member: str | None) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.encode_name == member:
                yield from _alternatives(field.type)
    elif isinstance(kind, inspect.DictType):
        yield from _alternatives(kind.value_type)
    elif isinstance(kind, inspect.ListType):
        yield from _alternatives(kind.item_type)


def _words(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        return str((kind.extra or {})[_WORDS])
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(map(str, kind.values))
    if isinstance(kind, inspect.IntType):
        return f"a whole number{_bounds(kind)}"
    if isinstance(kind, inspect.FloatType):
        return f"a number{_bounds(kind)}"
    if isinstance(kind, inspect.StrType):
        return f"a text{_size(' of ', kind, 'character')}"
    if isinstance(kind, inspect.ListType):
        return f"a list{_size(' of ', kind, 'entry')}"
    return ""


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge} to {kind.le}"
    sides = (("above", kind.gt), ("from", kind.ge), ("below", kind.lt), ("up to", kind.le))
    said = " and ".join(f"{word} {bound}" for word, bound in sides if bound is not None)
    return f" {said}" if said else ""


def _size(of: str, kind: inspect.StrType | inspect.ListType, one: str) -> str:
    least, most = kind.min_length, kind.max_length
    if least is None and most is None:
        return ""
    many = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    if least is not None and most is not None:
        return f"{of}{least} to {most} {many}"
    number, word = (least, "at least") if most is None else (most, "at most")
    return f"{of}{word} {number} {one if number == 1 else many}"
