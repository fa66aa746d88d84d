"""Clipped events: short ones byte for byte, long ones as copies that say what was cut."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.sessions.clipping import clip, clip_all

BYTES_MAX = 1_024
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40) | st.text(min_size=300, max_size=900),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=12,
)


def event(**members: Any) -> bytes:
    written = json.dumps({"id": "e", "type": "note", **members}, ensure_ascii=False, separators=(",", ":"))
    return written.encode()


def pointed(document: Any, path: str) -> Any:
    for part in path.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        document = document[int(name)] if isinstance(document, list) else document[name]
    return document


def test_an_event_at_the_bound_stays_and_one_past_it_is_cut() -> None:
    exact = event(text="x" * (BYTES_MAX - len(event(text=""))))
    assert len(exact) == BYTES_MAX
    assert clip(exact, BYTES_MAX) is exact
    longer = event(text="x" * (BYTES_MAX + 1 - len(event(text=""))))
    found = json.loads(clip(longer, BYTES_MAX))
    assert found["clipped"] == {"bytes": BYTES_MAX + 1, "members": ["/text"]}
    assert found["text"].startswith("x")
    assert found["text"].endswith("x")
    assert "characters" in found["text"]


def test_the_longest_texts_are_cut_and_all_else_stays() -> None:
    long = event(
        number=10**30, small=1e-7, short="kept whole", content=[{"text": "a" * 9_000}, {"text": "é" * 9_000}]
    )
    copy = clip(long, 2_048)
    found = json.loads(copy)
    assert len(copy) < 2_048 + 200
    assert (found["number"], found["short"]) == (10**30, "kept whole")
    assert found["clipped"]["members"] == ["/content/0/text", "/content/1/text"]
    assert b"1e-07" in copy, "numbers keep their spelling"


def test_texts_of_events_that_the_decoder_refuses_are_cut_too() -> None:
    long = b'{"id":"e","parts":["\\ud800 %b"],"big":1e999}' % (b"x" * 3_000)
    copy = clip(long, BYTES_MAX)
    assert len(copy) < 1_200
    assert b'"members":["/parts/0"]' in copy
    assert b"1e999" in copy


def test_an_own_member_of_that_name_does_not_occur_twice() -> None:
    copy = clip(event(clipped="mine", text="x" * 3_000), BYTES_MAX)
    assert copy.count(b'"clipped"') == 1
    assert json.loads(copy)["clipped"]["members"] == ["/text"]


@given(st.dictionaries(st.text(max_size=8), values, max_size=6), st.integers(64, 4_000))
def test_a_copy_differs_in_nothing_but_the_texts_that_it_names(
    members: dict[str, Any], bytes_max: int
) -> None:
    members.pop("clipped", None)
    whole = json.dumps({"id": "e", **members}).encode()
    copy = json.loads(clip(whole, bytes_max))
    if len(whole) <= bytes_max or "clipped" not in copy:
        assert copy == json.loads(whole)
        return
    said = copy.pop("clipped")
    assert said["bytes"] == len(whole)
    original = json.loads(whole)
    for path in said["members"]:
        assert pointed(copy, path) != pointed(original, path)
        holder = pointed(copy, path.rpartition("/")[0])
        name = path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        holder[int(name) if isinstance(holder, list) else name] = pointed(original, path)
    assert copy == original


def test_what_has_no_texts_stays_long() -> None:
    long = b'{"id":"e","n":[%b1],"empty":[%b]}' % (b"1," * 900, b" " * 100)
    assert clip_all([long], 1_024) == [long]
    with_text = long[:-1] + b',"text":"%b"}' % (b"x" * 500)
    copy = json.loads(clip(with_text, 1_024))
    assert (copy["n"], copy["empty"], copy["clipped"]["members"]) == ([1] * 901, [], ["/text"])
