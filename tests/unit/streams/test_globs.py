import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.streams.globs import Glob


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("events/*", "events/a", True),
        ("events/*", "events", False),
        ("events/*", "events/a/b", False),
        ("events/**", "events", True),
        ("events/**", "events/a/b/c", True),
        ("events/**", "other/a", False),
        ("events/**", "eventsfoo", False),
        ("**", "a", True),
        ("**", "a/b/c", True),
        ("**/log", "log", True),
        ("**/log", "a/b/log", True),
        ("**/log", "a/log/b", False),
        ("a/**/b/*/c", "a/b/x/c", True),
        ("a/**/b/*/c", "a/b/b/x/c", True),
        ("a/**/b/*/c", "a/x/y/b/z/c", True),
        ("a/**/b/*/c", "a/x/y/b/c", False),
        ("a/b", "a/b", True),
        ("a/b", "a/b/c", False),
        ("a/b*", "a/bc", False),
        ("a/b*", "a/b*", True),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("**/**", "a", True),
    ],
)
def test_patterns(pattern: str, path: str, fits: bool) -> None:
    assert Glob(pattern).matches(path) is fits


def _by_definition(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_by_definition(pattern[1:], path[taken:]) for taken in range(len(path) + 1))
    return bool(path) and pattern[0] in ("*", path[0]) and _by_definition(pattern[1:], path[1:])


@given(
    st.lists(st.sampled_from(["*", "**", "a", "b", "ab"]), min_size=1, max_size=7),
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=7),
)
def test_matching_is_what_the_definition_says(pattern: list[str], path: list[str]) -> None:
    assert Glob("/".join(pattern)).matches("/".join(path)) is _by_definition(pattern, path)


def test_a_hostile_pattern_takes_no_longer_than_pattern_times_path() -> None:
    glob = Glob("/".join(["**", "a"] * 250 + ["b"]))
    path = "/".join(["a"] * 500)
    started = time.perf_counter()
    assert not glob.matches(path)
    assert time.perf_counter() - started < 60  # not a matter of days
