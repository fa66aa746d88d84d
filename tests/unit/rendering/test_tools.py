from typing import Any

import pytest

from durable_sessions.rendering.content import Diff, Fields, Preformatted, text_of
from durable_sessions.rendering.diffs import COMPARED_LINES_MAX, edit
from durable_sessions.rendering.tools import headline, input_parts


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"command": "make test"}, "make test"),
        ({"command": "cd x\nmake"}, "cd x …"),
        ({"command": ["bash", "-lc", "make test"]}, "make test"),
        ({"cmd": ["git", "status"]}, "git status"),
        ({"command": "str_replace", "path": "a.py", "old_str": "x", "new_str": "y"}, "a.py (+1 −1)"),
        ({"file_path": "a.py", "old_string": "x\ny", "new_string": "x\nz\nq"}, "a.py (+2 −1)"),
        ({"file_path": "a.py", "content": "x\ny\n"}, "a.py (2 lines)"),
        ({"file_path": "a.py"}, "a.py"),
        ({"pattern": "TODO", "path": "src"}, "TODO in src"),
        ({"input": "*** Begin Patch\n*** Update File: a.py\n-x\n+y\n*** End Patch"}, "a.py (+1 −1)"),
        (
            {"todos": [{"status": "completed"}, {"status": "in_progress", "content": "b"}]},
            "1 of 2 done, now: b",
        ),
        ({"n": 7}, '{"n":7}'),
        ({}, ""),
        (None, ""),
        ("free text", "free text"),
        ('{"command":["ls"]}', "ls"),
        ({"input": '{"command":"ls -l"}'}, "ls -l"),
        ({"arguments": "{not json"}, '{"arguments":"{not json"}'),
        ([1, 2], "[1,2]"),
        ('{"a":"\ud800"}', '{"a":"\ufffd"}'),
    ],
)
def test_one_line_says_what_a_tool_does(given: object, line: str) -> None:
    assert headline(given) == line


def test_a_text_that_is_nested_too_deeply_is_shown_as_text() -> None:
    assert headline('{"a":' * 100_000).startswith('{"a":{"a":')


@pytest.mark.parametrize(
    "given",
    [
        {"command": "make", "timeout": 5, "description": "x" * 500},
        {"file_path": "a.py", "old_string": "x", "new_string": "y", "replace_all": True},
        {"file_path": "a.py", "edits": [{"old_string": "x", "new_string": "y"}]},
        {"path": "a.py", "file_text": "text", "nested": {"a": [1]}},
        {"input": "*** Begin Patch\n+y", "why": "z"},
    ],
)
def test_no_member_of_an_input_is_lost(given: dict[str, Any]) -> None:
    shown = text_of(list(input_parts(given)))
    for value in given.values():
        if isinstance(value, str):
            assert value in shown
    assert all(
        str(value) in shown for value in given.values() if isinstance(value, int) and value is not True
    )


def test_parts_are_of_the_right_kind() -> None:
    parts = list(input_parts({"command": "ls", "timeout": 5, "script_text": "a\nb"}))
    assert parts == [
        Preformatted("ls", language="sh"),
        Fields((("timeout", "5"),)),
        Preformatted("a\nb", label="script_text"),
    ]


def test_an_edit_is_a_diff() -> None:
    assert edit("a\nb\nc", "a\nx\nc") == Diff((" a", "-b", "+x", " c"))


def test_a_huge_edit_is_not_compared() -> None:
    before, after = "\n".join("x" * COMPARED_LINES_MAX), "\n".join("y" * (COMPARED_LINES_MAX + 1))
    assert len(edit(before, after).lines) == 2 * COMPARED_LINES_MAX + 1
