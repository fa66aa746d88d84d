"""Markup of coding tools in messages is read as what it is."""

import pytest

from durable_sessions.rendering.content import Fields, Part, Preformatted, Prose
from durable_sessions.rendering.entries import EntryRole, TranscriptEntry, entry_of


def user(text: str) -> TranscriptEntry:
    return entry_of({"type": "user.message", "content": [{"type": "text", "text": text}]})


SLASH = (
    "<command-name>/orchestrator</command-name>\n  <command-message>orchestrator</command-message>\n"
    "  <command-args>@CLAUDE.md please</command-args>"
)


@pytest.mark.parametrize(
    ("text", "title", "line"),
    [
        (SLASH, "Command", "/orchestrator @CLAUDE.md please"),
        ("<command-name>/clear</command-name><command-args></command-args>", "Command", "/clear"),
        ("<bash-input>make test</bash-input>", "Shell", "$ make test"),
        ("Make it <b>green</b>.", "User", "Make it <b>green</b>."),
        ("<command-name>/never closed", "User", "<command-name>/never closed"),
        ("what does <bash-input>x</bash-input> mean?", "User", "what does"),
    ],
)
def test_commands_are_called_commands(text: str, title: str, line: str) -> None:
    entry = user(text)
    assert (entry.role, entry.title) == (EntryRole.USER, title)
    assert entry.line.startswith(line)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<bash-stdout>ok\n</bash-stdout><bash-stderr></bash-stderr>", (Preformatted("ok", "output"),)),
        (
            "Go on.\n<system-reminder>be brief</system-reminder>",
            (Prose("Go on."), Preformatted("be brief", "reminder of the tool")),
        ),
        (
            "<local-command-stdout>Set model to opus</local-command-stdout>",
            (Preformatted("Set model to opus", "output"),),
        ),
        (
            '<teammate-message teammate_id="alice" color="blue">\nAll green.\n</teammate-message>',
            (Prose("All green."),),
        ),
        (
            "<environment_context><cwd>/shop</cwd><shell>bash</shell></environment_context>",
            (Fields((("cwd", "/shop"), ("shell", "bash"))),),
        ),
        ("<task-notification>no members</task-notification>", (Preformatted("no members", "task"),)),
        ("plain", (Prose("plain"),)),
        ("a <system-reminder> b", (Prose("a <system-reminder> b"),)),
    ],
)
def test_markup_is_shown_as_what_it_is(text: str, parts: tuple[Part, ...]) -> None:
    assert user(text).parts == parts


def test_very_many_tags_that_are_never_closed_cost_little() -> None:
    text = "<system-reminder><bash-stdout>" * 100_000
    assert user(text).parts == (Prose(text),)


def test_very_many_different_tags_cost_little() -> None:
    inner = (
        "".join(
            f"<{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676 % 26)}>" for n in range(17_576)
        )
        * 8
    )
    assert user(f"<task-notification>{inner}</task-notification>").parts == (Preformatted(inner, "task"),)


NOTIFICATION = """<task-notification>
<task-id>a52c</task-id>
<status>completed</status>
<summary>Agent "Count files" finished</summary>
<result>There are 2 files.

Both are small.</result>
<usage><subagent_tokens>812</subagent_tokens><tool_uses>1</tool_uses></usage>
</task-notification>"""


@pytest.mark.parametrize("kind", ["user.message", "system.message", "agent.thread_message_received"])
def test_the_report_of_a_task_begins_with_what_it_says(kind: str) -> None:
    entry = entry_of({"type": kind, "content": NOTIFICATION})
    assert entry.parts == (
        Prose('Agent "Count files" finished'),
        Prose("There are 2 files.\n\nBoth are small."),
        Fields(
            (("task id", "a52c"), ("status", "completed"), ("subagent tokens", "812"), ("tool uses", "1"))
        ),
    )
    assert entry.line.startswith('Agent "Count files" finished')


def test_the_report_of_a_task_in_json_begins_with_what_it_says() -> None:
    told = '{"agent_path":"01a1","status":{"completed":"2 files."}}'
    said = f"<subagent_notification>\n{told}\n</subagent_notification>"
    entry = entry_of({"type": "agent.thread_message_received", "content": said})
    assert entry.parts == (Prose("2 files."), Fields((("agent path", "01a1"),)))
    for broken in ("{", "[]", '{"status":1}', ""):
        said = f"<subagent_notification>{broken}</subagent_notification>"
        entry = entry_of({"type": "agent.thread_message_received", "content": said})
        assert entry.parts == ((Preformatted(broken, "task"),) if broken else ())
