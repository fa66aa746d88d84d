"""Many patterns at once match what each of them matches alone."""

from random import Random

from durable_sessions.streams.globs import Glob
from durable_sessions.streams.patterns import PatternIndex

NAMES = ["a", "b", "ab", "*", "**"]


def test_an_index_finds_what_each_pattern_finds_alone() -> None:
    random = Random(11)
    patterns = ["/".join(random.choices(NAMES, k=random.randint(1, 5))) for _ in range(300)]
    index: PatternIndex[int] = PatternIndex()
    for number, pattern in enumerate(patterns):
        index.add(pattern, number)
    for _ in range(2_000):
        path = "/".join(random.choices(["a", "b", "ab", "c"], k=random.randint(1, 6)))
        expected = {number for number, pattern in enumerate(patterns) if Glob(pattern).matches(path)}
        assert set(index.matching(path)) == expected, path


def test_what_was_removed_is_found_no_more() -> None:
    index: PatternIndex[str] = PatternIndex()
    index.add("a/**", "one")
    index.add("a/**", "two")
    index.add("a/**/b", "three")
    assert set(index.matching("a/x/b")) == {"one", "two", "three"}
    index.remove("a/**", "one")
    index.remove("a/**/b", "three")
    assert list(index.matching("a/x/b")) == ["two"]
    index.remove("a/**", "two")
    assert list(index.matching("a/x/b")) == []
    index.add("a/*/b", "four")
    assert list(index.matching("a/x/b")) == ["four"]


def test_a_segment_named_like_a_wildcard_stands_for_itself() -> None:
    index: PatternIndex[str] = PatternIndex()
    index.add("a/**", "any")
    index.add("a/*", "one")
    assert set(index.matching("a/**")) == {"any", "one"}
    assert set(index.matching("a/*")) == {"any", "one"}
    assert set(index.matching("a")) == {"any"}
