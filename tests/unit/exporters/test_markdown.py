"""The Markdown document: nothing in an event changes the document around it."""

import json

from hypothesis import given, settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

from durable_sessions.exporters.markdown import code, escaped, fenced
from tests.unit.exporters import hostile
from tests.unit.exporters.golden import exported

READER = MarkdownIt("commonmark", {"html": True}).enable("table")
OWN_HTML = {"<sub>", "</sub>"}


def inline(tokens: list[Token]) -> list[Token]:
    return [child for token in tokens for child in token.children or ()]


@settings(max_examples=200, deadline=None)
@given(hostile.lines)
def test_events_cannot_leave_their_place(lines: list[bytes]) -> None:
    tokens = READER.parse(exported("markdown", lines, full=True))
    assert not [token for token in tokens if token.type == "html_block"]
    assert {token.content for token in inline(tokens) if token.type == "html_inline"} <= OWN_HTML
    assert not [token for token in inline(tokens) if token.type == "image"]
    heads = [
        tokens[at + 1].content
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]
    assert heads[0] == "Make it \\<green\\>"
    assert heads[-1] == "Summary"
    shown = sum(token.tag == "h3" and token.level == 0 and token.nesting == 1 for token in tokens)
    assert shown <= len(lines)


@settings(max_examples=200, deadline=None)
@given(hostile.texts)
def test_escaped_text_means_nothing(text: str) -> None:
    tokens = READER.parse(f"a {escaped(text)}")
    assert all(child.type in ("text", "text_special", "entity") for child in inline(tokens))
    alone = READER.parse(escaped(text))
    assert not alone or (alone[0].type, alone[0].level) == ("paragraph_open", 0)


@settings(max_examples=200, deadline=None)
@given(hostile.texts)
def test_code_and_fences_are_not_closed_from_within(text: str) -> None:
    kinds = [child.type for child in inline(READER.parse(f"a {code(text)} b"))]
    assert kinds in (["text", "code_inline", "text"], ["text"])
    clean = text.encode("utf-8", "replace").decode().replace("\x00", "").replace("\r", "")
    assert [token.type for token in READER.parse(fenced(clean))] == ["fence"]


def test_long_output_is_cut_in_the_middle_and_says_so() -> None:
    output = "\n".join(f"line {number}" for number in range(500))
    events = [
        {"id": "c", "type": "agent.tool_use", "name": "bash", "input": {"command": "seq"}},
        {"id": "r", "type": "agent.tool_result", "tool_use_id": "c", "content": output},
    ]
    lines = [json.dumps(event).encode() for event in events]
    short, full = exported("markdown", lines), exported("markdown", lines, full=True)
    assert "… 440 lines left out …" in short
    assert "line 499" in short
    assert "left out" not in full
    assert output in full
