"""Hypothesis strategies for JSON as strangers write it: odd spaces, escapes, repeated keys."""

import json
from typing import NamedTuple

from hypothesis import strategies as st

spaces = st.text(" \t\n\r", max_size=3)
characters = st.characters(codec="utf-8", exclude_categories=["Cs"])


class Text(NamedTuple):
    """A JSON text, and if it is an object its members as they were written."""

    text: str
    members: tuple[tuple[str, str], ...] = ()


def _written(value: str, *, ascii_only: bool, slash: bool) -> str:
    text = json.dumps(value, ensure_ascii=ascii_only)
    return text.replace("/", "\\/") if slash else text


escapes = st.sampled_from(["\\u0041", "\\ud83d\\ude00", "\\ud800", "\\n", "\\\\", '\\"', "\\/"])
strings = st.one_of(
    st.builds(_written, st.text(characters, max_size=8), ascii_only=st.booleans(), slash=st.booleans()),
    st.lists(escapes | st.sampled_from(["a", "{", "]", ",", ":", " "]), max_size=5).map(
        lambda parts: '"' + "".join(parts) + '"'
    ),
)
numbers = st.sampled_from(["0", "-0", "1", "-12.50", "1E+2", "1e999", "12345678901234567890123", "0.1e-5"])
scalars = strings | numbers | st.sampled_from(["true", "false", "null"])


@st.composite
def arrays(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    items = draw(st.lists(values, max_size=3))
    return "[" + ",".join(draw(spaces) + item + draw(spaces) for item in items) + draw(spaces) + "]"


@st.composite
def objects(
    draw: st.DrawFn,
    values: st.SearchStrategy[str],
    keys: st.SearchStrategy[str] = strings,
    most: int = 4,
) -> Text:
    pairs = tuple(draw(st.lists(st.tuples(keys, values), max_size=most)))
    inner = ",".join(
        draw(spaces) + name + draw(spaces) + ":" + draw(spaces) + value + draw(spaces)
        for name, value in pairs
    )
    return Text("{" + inner + (draw(spaces) if not pairs else "") + "}", pairs)


values = st.recursive(
    scalars, lambda inner: arrays(inner) | objects(inner).map(lambda made: made.text), max_leaves=8
)
