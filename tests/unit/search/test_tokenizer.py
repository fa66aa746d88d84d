"""Text taken apart, for the index, for queries and for highlights alike."""

import base64
import random
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from durable_sessions.search import tokenizer

WRITTEN = st.text(
    st.one_of(st.characters(), st.sampled_from("aAbBzZ09_-/. éÉßİ错误かがﾊﾞไทย한ﬁ½²Ⅷ\u0301\u0940\ufe0f\u200d"))
)
RANDOM = random.Random(7)
BLOB = base64.b64encode(RANDOM.randbytes(3_000)).decode()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("checkAuthToken", "check auth token"),
        ("check_auth_token", "check auth token"),
        ("src/auth/token.py", "src auth token py"),
        ("HTTPServer", "http server"),
        ("parseHTML5Doc", "parse html5 doc"),
        ("utf8Decode v1Beta", "utf8 decode v1 beta"),
        ("E0308 sha256 utf8 v1 x86_64 i18n", "e0308 sha256 utf8 v1 x86 64 i18n"),
        ("URLs IDs APIs", "urls ids apis"),
        ("DEADBEEF01AB", "deadbeef01ab"),
        ("--no-verify a=b, (c)", "no verify a b c"),
        ("it's 3.14", "it s 3 14"),
        ("Straße STRASSE", "strasse strasse"),
        ("café cafe\u0301", "café café"),
        ("ÉcoleNormale É\u0301COLE", "école normale é\u0301cole"),
        ("ﬁle Ｆｉｌｅ", "file file"),
        ("错误信息 error", "错 误 信 息 error"),
        ("エラーlog", "エ ラ ー log"),
        ("오류가", "오 류 가"),
        ("ไทย", "ไ ท ย"),
        ("हिन्दी में", "हिन्दी में"),
        ("✔️ │ — “done”", "done"),
        ("", ""),
    ],
)
def test_parts(text: str, parts: str) -> None:
    assert tokenizer.parts(text) == parts.split()


def test_wholes_do_not_mind_capitals() -> None:
    assert tokenizer.wholes("JavaScript on GitHub, src/myFile") == [
        "javascript",
        "on",
        "github",
        "src",
        "myfile",
    ]


def test_what_is_indexed_are_wholes_and_then_the_parts_of_each() -> None:
    assert tokenizer.indexed("a GitHub token, myFile") == "a github token  myfile | git hub | my file"
    assert tokenizer.indexed("nothing to cut") == "nothing to cut"
    assert tokenizer.indexed("日本のGitHub!") == "日 本 の github | git hub"


@given(WRITTEN)
@example("aS As ABs")
@example("x" * 65 + "Ab")
def test_spans_and_parts_agree(text: str) -> None:
    found = list(tokenizer.spans(text))
    assert [part for part, _, _ in found] == tokenizer.parts(text)
    assert all(0 <= begin < end <= len(text) for _, begin, end in found)
    assert all(one[2] <= other[1] for one, other in pairwise(found))


@given(WRITTEN, st.sampled_from([" é", " 错", " \u0940"]))
def test_one_letter_of_another_script_changes_nothing_else(text: str, more: str) -> None:
    assert tokenizer.parts(text + more) == tokenizer.parts(text) + tokenizer.parts(more)
    assert tokenizer.wholes(text + more) == tokenizer.wholes(text) + tokenizer.wholes(more)


@given(WRITTEN)
def test_what_is_indexed_is_what_can_be_asked_for(text: str) -> None:
    main, *compounds = tokenizer.indexed(text).split(tokenizer.APART)
    assert main.split() == tokenizer.wholes(text)
    cut = [part for compound in compounds for part in compound.split()]
    assert set(tokenizer.parts(text)) <= {*main.split(), *cut}
    assert set(cut) <= set(tokenizer.parts(text))


@given(WRITTEN)
def test_a_part_is_short_and_has_nothing_but_letters_and_digits(text: str) -> None:
    for part in tokenizer.parts(text):
        assert 0 < len(part) <= tokenizer.PART_CHARACTERS_MAX
        assert tokenizer.parts(part) == [part] or not part.isascii()
        assert not set(part) & set(" \t\n_-/.|")


@pytest.mark.parametrize(
    "blob",
    [
        BLOB,
        f"data:image/png;base64,{BLOB}",
        "\n".join(BLOB[at : at + 76] for at in range(0, 26 * 76, 76)),
        base64.urlsafe_b64encode(RANDOM.randbytes(900)).decode(),
        RANDOM.randbytes(900).hex(),
        "a" * 65,
        RANDOM.randbytes(48).hex(" "),
        RANDOM.randbytes(48).hex(" ", 2),
    ],
)
def test_blobs_are_left_out(blob: str) -> None:
    left = tokenizer.parts(f"before {blob} after")
    assert left[0] == "before"
    assert left[-1] == "after"
    assert len(left) < 16


@pytest.mark.parametrize(
    "text",
    [
        "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        "/home/user/projects/some-project/src/components/forms/inputs/TextInputWithValidation.test.tsx",
        "shouldReturnTheCorrectValueWhenTheInputIsLongerThan64CharactersAndNotEmpty",
        "10 20 30 40 50 60 70 80 90 11 12 13",
        "test_that_a_very_long_name_in_snake_case_of_more_than_sixty_characters_is_not_a_blob_2",
    ],
)
def test_what_is_long_but_written_is_kept(text: str) -> None:
    assert "".join(tokenizer.parts(text)) == "".join(filter(str.isalnum, text.lower()))
