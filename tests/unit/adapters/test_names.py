"""Names of sessions, events and slots: whatever a framework calls its objects, two of them stay two."""

import hashlib
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.adapters import _names as names

ODD = [
    "",
    "@",
    "@@",
    "@2F",
    "/",
    ":",
    "..",
    ".",
    "a/b",
    "a:b",
    "a",
    "☃",
    "é",
    "e\u0301",
    "%",
    "%2F",
    "\udc80",
]
LONG = ["x" * 500, "x" * 501, "☃" * 500, "/" * 130]
TEXT = st.text(st.characters(), max_size=300)


@pytest.mark.parametrize(
    ("part", "written"),
    [
        ("", "@"),
        ("a-Z_0.9", "a-Z_0.9"),
        ("a/b", "a@2Fb"),
        ("@", "@40"),
        ("☃", "@E2@98@83"),
        ("\udc80", "@ED@B2@80"),
    ],
)
def test_a_part_is_written_with_plain_characters(part: str, written: str) -> None:
    assert names.escaped(part) == written


def test_a_session_is_named_after_its_parts_or_their_hash() -> None:
    assert names.session_id("adk", "shop", "ann@x", "") == "adk:shop:ann@40x:@"
    whole = "adk:" + "u" * 197
    assert names.session_id("adk", "u" * 196) == whole[:-1]
    assert names.session_id("adk", "u" * 197) == f"adk:@@{hashlib.sha256(whole.encode()).hexdigest()}"


def test_no_two_objects_share_a_session_or_a_slot() -> None:
    objects = [*itertools.product(ODD + LONG, repeat=2), *((one,) for one in ODD + LONG)]
    sessions = {names.session_id("a", *parts) for parts in objects}
    slots = {names.slot(*parts) for parts in objects}
    assert len(sessions) == len(slots) == len(objects)
    assert all(re.fullmatch(r"[A-Za-z0-9._:@-]{1,200}", one) for one in sessions)
    assert all(re.fullmatch(r"[A-Za-z0-9._/%-]*", one) and len(one) <= 512 for one in slots)


@given(st.lists(TEXT, min_size=1, max_size=4), st.lists(TEXT, min_size=1, max_size=4))
def test_different_parts_have_different_names(first: list[str], second: list[str]) -> None:
    same = first == second
    assert (names.session_id("a", *first) == names.session_id("a", *second)) is same
    assert (names.slot(*first) == names.slot(*second)) is same
    assert (names.event_id("ae", *first) == names.event_id("ae", *second)) is same
