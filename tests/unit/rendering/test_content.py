"""Content blocks as parts: every known kind, whatever else there is, and nothing that a terminal obeys."""

import pytest

from durable_sessions.rendering.content import (
    ONE_LINE_CHARACTERS_MAX,
    Diff,
    Fields,
    Part,
    Picture,
    Preformatted,
    Prose,
    parts_of,
    text_of,
    weight,
)

SHA256 = "ab" * 32


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (None, []),
        ("", []),
        ("Hi \x1b[31mthere", [Prose("Hi there")]),
        ({"type": "text", "text": "Hi"}, [Prose("Hi")]),
        ([{"type": "input_text", "text": "a"}, {"text": "b"}, "c"], [Prose("a"), Prose("b"), Prose("c")]),
        ([{"type": "thinking", "thinking": "Hm.\x07"}], [Prose("Hm.␇")]),
        (
            [{"type": "thinking", "thinking": 7}],
            [Preformatted('{"type":"thinking","thinking":7}', "", "json")],
        ),
        ([{"type": "redacted_thinking", "data": "x"}], [Preformatted("(redacted)")]),
        ([{"type": "encrypted_content"}], [Preformatted("(encrypted)")]),
        ([7, None], [Preformatted("7", "", "json"), Preformatted("null", "", "json")]),
        (
            [{"type": "search_result", "source": "https://a", "title": "A", "content": [{"text": "found"}]}],
            [Fields((("source", "https://a"), ("title", "A"))), Prose("found")],
        ),
    ],
)
def test_blocks_become_parts(content: object, parts: list[Part]) -> None:
    assert list(parts_of(content, prose=True)) == parts


def test_output_is_not_prose() -> None:
    assert list(parts_of(["# no heading"], prose=False)) == [Preformatted("# no heading")]


def test_a_long_value_of_no_known_kind_has_lines() -> None:
    short = {"a": "x" * (ONE_LINE_CHARACTERS_MAX - len('{"a":""}'))}
    (line,) = parts_of([short], prose=True)
    assert isinstance(line, Preformatted)
    assert "\n" not in line.text
    (several,) = parts_of([{"a": short["a"] + "x"}], prose=True)
    assert isinstance(several, Preformatted)
    assert several.text.splitlines()[0] == "{"


@pytest.mark.parametrize(
    ("source", "picture", "label"),
    [
        (
            {"type": "base64", "media_type": "image/png", "data": "A" * 4_000},
            Picture("image/png", base64="A" * 4_000),
            "image/png, 3.0 kB",
        ),
        (
            {"type": "url", "url": f"http://h/v1/artifacts/{SHA256}?x=1", "media_type": "image/gif"},
            Picture("image/gif", artifact=SHA256),
            f"image/gif, artifact {SHA256[:12]}",
        ),
        (
            {"type": "url", "url": f"/v1/artifacts/{SHA256[:-1]}"},
            Picture("", url=f"/v1/artifacts/{SHA256[:-1]}"),
            f"image at /v1/artifacts/{SHA256[:-1]}",
        ),
        ({"type": "file", "file_id": "file_1"}, Picture("", url="file_1"), "image at file_1"),
        ("nonsense", Picture(""), "image"),
    ],
)
def test_pictures(source: object, picture: Picture, label: str) -> None:
    (part,) = parts_of([{"type": "image", "source": source}], prose=True)
    assert part == picture
    assert picture.label == label
    assert text_of([part]) == f"[{label}]"


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            {"source": {"type": "text", "data": "a\x1b[2J\nb"}, "title": "Notes"},
            Preformatted("a\nb", label="Notes"),
        ),
        (
            {"source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 4_000}},
            Fields((("document", "document, application/pdf, 3.0 kB"),)),
        ),
        (
            {"source": {"type": "url", "url": "https://a/b.pdf"}, "title": "B"},
            Fields((("document", "B, url, https://a/b.pdf"),)),
        ),
        ({"source": None}, Fields((("document", "document"),))),
    ],
)
def test_documents(block: dict[str, object], part: Part) -> None:
    assert list(parts_of([{"type": "document", **block}], prose=True)) == [part]


def test_parts_can_be_read_and_weighed() -> None:
    parts: list[Part] = [Prose("said"), Diff(("-a", "+b")), Fields((("n", "1"),)), Preformatted("")]
    assert text_of(parts) == "said\n-a\n+b\nn: 1"
    assert [weight(part) for part in [*parts, Picture("", base64="AAAA")]] == [104, 104, 102, 100, 104]
