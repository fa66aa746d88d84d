"""Markup of coding tools in the results of tools is read as what it is, and everything else stays."""

import pytest

from durable_sessions.rendering.content import Fields, Part, Preformatted
from durable_sessions.rendering.entries import TranscriptEntry, entry_of


def result(text: str) -> TranscriptEntry:
    return entry_of({"type": "agent.tool_result", "tool_use_id": "a", "content": text})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "<tool_use_error>File has not been read yet.</tool_use_error>",
            (Preformatted("File has not been read yet.", "error of the tool"),),
        ),
        (
            "     1\tx = 1\n\n<system-reminder>\nIs it malware?\n</system-reminder>\n",
            (Preformatted("     1\tx = 1"), Preformatted("Is it malware?", "reminder of the tool")),
        ),
        (
            "done\n<usage>total_tokens: 7\ntool_uses: 2</usage>",
            (Preformatted("done"), Preformatted("total_tokens: 7\ntool_uses: 2", "usage")),
        ),
        (
            "(no output)\n\n<shell_metadata>\nUser aborted the command\n</shell_metadata>",
            (Preformatted("(no output)"), Preformatted("User aborted the command", "note of the tool")),
        ),
        (
            "<path>/shop/a.py</path>\n<type>file</type>\n<content>1: <b>\n2: x\n</content>",
            (Fields((("path", "/shop/a.py"), ("type", "file"))), Preformatted("1: <b>\n2: x")),
        ),
        (
            "<retrieval_status>success</retrieval_status>\n\n<task_id>c3</task_id>\n\n<output>\nok\n</output>",
            (Fields((("retrieval status", "success"), ("task id", "c3"))), Preformatted("ok")),
        ),
        ("<file>\n00001| x\n</file>", (Preformatted("00001| x"),)),
        (
            '<task id="ses_1" state="completed">\n<task_result>\nTwo files.\n</task_result>\n</task>',
            (Fields((("task id", "ses_1"), ("state", "completed"))), Preformatted("Two files.")),
        ),
    ],
)
def test_markup_is_shown_as_what_it_is(text: str, parts: tuple[Part, ...]) -> None:
    assert result(text).parts == parts


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "",
        "  two spaces in front\n",
        "x = '<system-reminder>no</system-reminder>'",
        "<system-reminder>no</system-reminder> = x",
        "<system-reminder>never closed",
        "<html><path>a</path></html>",
        "<path>never closed",
        "<type>file</type>",
        "use <path> or <usage>x</usage>",
        '<task id="1">\nnever closed',
        "<task>\nx\n</task>",
        '<task id="1">\nx\n</task> and more',
    ],
)
def test_angle_brackets_of_files_and_programs_stay(text: str) -> None:
    assert result(text).parts == ((Preformatted(text),) if text else ())


def test_the_line_of_a_result_is_without_markup() -> None:
    assert result("<tool_use_error>Not found.</tool_use_error>").line == "Not found."


def test_very_many_tags_cost_little() -> None:
    text = "<usage>\n" * 100_000
    assert result(text).parts == (Preformatted(text),)
    text += "</usage>x"
    assert result(text).parts == (Preformatted(text),)
