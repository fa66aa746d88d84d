"""Where in a text the best of a query is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.search.query import parse
from durable_sessions.search.snippet import SNIPPET_CHARACTERS, Snippet, snippet

FILLER = "lorem ipsum dolor sit amet " * 200


def shown(found: Snippet) -> list[str]:
    return [found.text[begin:end] for begin, end in found.highlights]


@pytest.mark.parametrize(
    ("text", "q", "highlighted"),
    [
        ("The auth token expired", "token AUTH", ["auth", "token"]),
        ("checkAuthToken(x)", "auth", ["Auth"]),
        ("checkAuthToken(x)", "check_auth_token", ["checkAuthToken"]),
        ("check_auth_token(x)", "checkAuthToken", ["check_auth_token"]),
        ("on GitHub now", "github", ["GitHub"]),
        ("JavaScript heap out", '"javascript heap"', ["JavaScript heap"]),
        ("authors and auth", "auth", ["auth"]),
        ("authors and auth", "auth*", ["authors", "auth"]),
        ("the end of the phrase", '"the phrase"', ["the phrase"]),
        ("to be or not", "be -not", ["be"]),
        ("登录失败了", "登录失败", ["登录失败"]),
        ("STRASSE Straße", "strasse", ["STRASSE", "Straße"]),
        ("İstanbul token", "token", ["token"]),
        ("nothing of it", "else", []),
        ("nothing of it", "is:error", []),
        ("", "word", []),
    ],
)
def test_highlights(text: str, q: str, highlighted: list[str]) -> None:
    found = snippet(text, parse(q))
    assert found.text == text
    assert shown(found) == highlighted


def test_the_best_place_has_most_of_the_words() -> None:
    text = f"{FILLER} needle {FILLER} a needle in the haystack {FILLER} haystack {FILLER}"
    found = snippet(text, parse("needle haystack"))
    assert shown(found) == ["needle", "haystack"]
    assert found.text.startswith("… ")
    assert found.text.endswith(" …")
    assert len(found.text) <= SNIPPET_CHARACTERS + 4


def test_a_place_that_only_looks_like_it_is_not_taken() -> None:
    text = f"{'authors unauthorized ' * 5}{FILLER} at last auth {FILLER}"
    assert shown(snippet(text, parse("auth"))) == ["auth"]


def test_without_a_match_the_beginning_is_shown() -> None:
    found = snippet(FILLER, parse("nowhere"))
    assert found.highlights == []
    assert found.text.startswith("lorem ipsum")
    assert found.text.endswith(" …")


def test_words_are_not_cut() -> None:
    found = snippet(FILLER + "needle " + FILLER, parse("needle"))
    assert set(found.text.strip("… ").split()) <= {*FILLER.split(), "needle"}


def test_a_very_long_text_and_a_very_long_query() -> None:
    text = "a b c d e f g h " * 65_536
    query = parse(" ".join(f"{one}{two}* {one}" for one in "abcdefgh" for two in "abcd"))
    assert shown(snippet(text, query))


@given(st.text(st.sampled_from("abAB cd .…\n登录ßİ")), st.text(st.sampled_from('abAB cd+"*登录ßİ')))
def test_highlights_are_in_order_and_inside(text: str, q: str) -> None:
    found = snippet(text * 20, parse(q))
    ends = [0, *(end for _, end in found.highlights)]
    assert all(before <= begin < end for before, (begin, end) in zip(ends, found.highlights, strict=False))
    assert ends[-1] <= len(found.text)
    assert len(found.text) <= SNIPPET_CHARACTERS + 4
