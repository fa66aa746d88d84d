"""A misspelt filter is refused with the nearest; what only has a colon is words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.search.query_problems import problem_of


@pytest.mark.parametrize(
    ("q", "told"),
    [
        ("typ:agent.message", "typ:agent.message: there is no field typ; did you mean type:agent.message?"),
        ("timeout -types:span.*", "did you mean type:span.*?"),
        ("nam:bash", "did you mean name:bash?"),
        ("+naem:bash x", "did you mean name:bash?"),
        ("is:eror", "is:eror: the only filter of this kind is is:error."),
        ("role:agent", "role is no field of a query; send role=agent beside it, with ds --role agent."),
        ("Role:agent", "send role=agent"),
        ("before:2026-11-15", "send before=2026-11-15"),
        ("session:build-42 x", "send session=build-42"),
    ],
)
def test_what_is_refused(q: str, told: str) -> None:
    said = problem_of(q)
    assert said is not None
    assert told in said
    assert said.endswith("To look for these words, put them in quotation marks.")
    assert problem_of(f'"{q}"') is None
    assert problem_of(f"“{q}”") is None


@pytest.mark.parametrize(
    "q",
    [
        "error: foo",
        "http://x",
        "https://name:8080/type:x",
        "std::vector",
        "type:agent.* name:bash is:error -is:error IS:Error",
        'name:"my tool"',
        "role: agent",
        "file:10 line:3 time:12 game:on tape:1 test:unit",
        "nam:",
        "12:30",
        "names::x",
        "type",
        ":",
    ],
)
def test_what_is_words_or_right(q: str) -> None:
    assert problem_of(q) is None


@given(st.text(st.sampled_from('typename:is"+- x'), max_size=60))
def test_any_text_will_do(q: str) -> None:
    problem_of(q)
    assert problem_of(q.replace(":", " ")) is None
