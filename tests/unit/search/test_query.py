"""What a line of text asks for."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.search.query import (
    CLAUSES_MAX,
    PHRASE_PARTS_MAX,
    PHRASES_MAX,
    QUERY_CHARACTERS_MAX,
    Clause,
    Filter,
    Occur,
    Query,
    parse,
)


def clause(occur: Occur, text: str, wholes: str | None = None, is_prefix: bool = False) -> Clause:
    return Clause(occur, tuple(text.split()), tuple((wholes or text).split()), is_prefix)


@pytest.mark.parametrize(
    ("q", "clauses"),
    [
        ("Auth failed", [clause("may", "auth"), clause("may", "failed")]),
        ('"exact phrase"', [clause("may", "exact phrase")]),
        ('+"exact phrase" -"other one"', [clause("must", "exact phrase"), clause("not", "other one")]),
        ("+must -not", [clause("must", "must"), clause("not", "not")]),
        (
            "auth* +to* -ke*",
            [
                clause("may", "auth", None, True),
                clause("must", "to", None, True),
                clause("not", "ke", None, True),
            ],
        ),
        ("a* b", [clause("may", "a"), clause("may", "b")]),
        ("*ing", [clause("may", "ing")]),
        ("“curly marks”, and", [clause("may", "curly marks"), clause("may", "and")]),
        ("checkAuthToken", [clause("may", "check auth token", "checkauthtoken")]),
        ("+checkAuth*", [clause("must", "check auth", "checkauth", True)]),
        ("src/auth/token.py", [clause("may", "src auth token py")]),
        ('"GitHub token"', [clause("may", "git hub token", "github token")]),
        ("--no-verify", [clause("may", "no verify")]),
        ("word word WORD", [clause("may", "word")]),
        ("错误信息", [clause("may", "错 误"), clause("may", "误 信"), clause("may", "信 息")]),
        ("修 fix登录", [clause("may", "修"), clause("may", "fix"), clause("may", "登 录")]),
        ('+错误信息 "登录失败"', [clause("must", "错 误 信 息"), clause("may", "登 录 失 败")]),
    ],
)
def test_words(q: str, clauses: list[Clause]) -> None:
    assert parse(q) == Query(tuple(clauses))


@pytest.mark.parametrize(
    ("q", "filters"),
    [
        ("type:agent.tool_use", [Filter("type", "agent.tool_use")]),
        ("type:agent.* -type:span.*", [Filter("type", "agent.", True), Filter("type", "span.", True, True)]),
        ('+type:"user.message"', [Filter("type", "user.message")]),
        ("name:Bash", [Filter("name", "bash")]),
        ('name:"Read File"', [Filter("name", "read file")]),
        (
            "name:mcp__* is:error -is:error",
            [Filter("name", "mcp__", True), Filter("error"), Filter("error", "", False, True)],
        ),
    ],
)
def test_filters(q: str, filters: list[Filter]) -> None:
    assert parse(q) == Query((), tuple(filters))


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ('"unbalanced quote', ["unbalanced", "quote"]),
        ('un"balanced', ["un balanced"]),
        ("+ - word", ["word"]),
        ("foo:bar", ["foo bar"]),
        ("foo:", ["foo"]),
        ("type:", ["type"]),
        ("is:strange", ["is strange"]),
        ("type:a*b*", ["type a b"]),
        ("(a OR b) AND c", ["a", "or", "b", "and", "c"]),
        ('""', []),
        ("", []),
        ("?!", []),
        ("[1 TO 2}", ["1", "to", "2"]),
        ("a^2 b~3", ["a 2", "b 3"]),
        ("\ud800 x", ["x"]),
    ],
)
def test_what_does_not_fit_is_plain_words(q: str, found: list[str]) -> None:
    assert [" ".join(each.parts) for each in parse(q).clauses] == found
    assert not parse(q).filters


def test_what_to_show_is_what_was_not_excluded() -> None:
    assert [each.parts for each in parse("a +b -c").words] == [("a",), ("b",)]


def test_there_is_an_end_to_clauses() -> None:
    exactly = " ".join(f"w{number}" for number in range(CLAUSES_MAX))
    assert len(parse(exactly).clauses) == CLAUSES_MAX
    assert not parse(exactly).truncated
    assert not parse(f"{exactly} {exactly}").truncated
    more = parse(f"{exactly} more type:x")
    assert len(more.clauses) + len(more.filters) == CLAUSES_MAX
    assert more.truncated


def test_there_is_an_end_to_phrases_and_lines() -> None:
    assert not parse(" ".join(f"a.{number}" for number in range(PHRASES_MAX))).truncated
    many = parse(" ".join(f"a.{number} w{number}" for number in range(PHRASES_MAX - 1)) + " a.b b.c last")
    assert len([each for each in many.clauses if len(each.parts) > 1]) == PHRASES_MAX
    assert many.clauses[-1].parts != ("b", "c")
    assert many.truncated
    assert len(parse('"' + "w " * 500 + '"').clauses[0].parts) == PHRASE_PARTS_MAX
    assert not parse("w " * (QUERY_CHARACTERS_MAX // 2)).truncated
    assert parse("w " * QUERY_CHARACTERS_MAX).truncated


@given(st.text(st.one_of(st.characters(), st.sampled_from('+-":* typenamis.错aB'))))
def test_anything_is_a_query_and_survives_the_way_to_another_process(q: str) -> None:
    query = parse(q)
    assert len(query.clauses) + len(query.filters) <= CLAUSES_MAX
    assert all(each.parts for each in query.clauses)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(query), type=Query) == query
