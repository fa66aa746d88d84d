import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.rendering.text import clean, lines_of, one_line, shortened, size, width
from tests.unit.exporters.hostile import texts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://e.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b\x1b[0m[31m", "␛[31m"),
        ("a\x00b\x07", "a␀b␇"),
        ("\x9b31m", "\ufffd31m"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("evil\u202etxt.exe", "evil\ufffdtxt.exe"),
        ("half \ud800", "half \ufffd"),
        ("tab\tand ünïcödé 漢字 🎉", "tab\tand ünïcödé 漢字 🎉"),
        ("\x7f", "␡"),
    ],
)
def test_escape_sequences_go_and_control_characters_are_seen(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.one_of(texts, st.text(st.characters(codec=None))))
def test_clean_text_can_be_printed_anywhere(text: str) -> None:
    shown = clean(text)
    shown.encode()
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]
    assert clean(shown) == shown


@given(st.one_of(texts, st.text()), st.integers(2, 50))
def test_one_line_is_one_line(text: str, most: int) -> None:
    line = one_line(text, most)
    assert len(line) <= most
    assert "\n" not in line


def test_one_line_does_not_read_all_of_a_huge_text() -> None:
    assert one_line(" " * 10_000_000 + "x", 10) == "…"


@given(st.text(max_size=400), st.integers(3, 30), st.integers(10, 200))
def test_shortened_text_has_a_bounded_length(text: str, lines_max: int, characters_max: int) -> None:
    short = shortened(text, lines_max, characters_max)
    assert len(lines_of(short)) <= lines_max + 3
    assert len(short) <= characters_max + 80


def test_shortened_says_what_is_missing() -> None:
    text = "\n".join(map(str, range(100)))
    assert shortened(text, 9, 1_000) == "0\n1\n2\n3\n4\n5\n… 91 lines left out …\n97\n98\n99"
    assert shortened(text, 100, 10_000) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (123_456, "123 kB"), (5 * 10**12, "5000 GB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_width_counts_columns() -> None:
    assert width("漢字") == 4
    assert width("e\u0301") == 1
