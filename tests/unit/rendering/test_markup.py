"""Markup of coding tools in messages is read as what it is."""

import pytest

from durable_sessions.rendering.content import Part, Preformatted, Prose
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
        ("plain", (Prose("plain"),)),
        ("a <system-reminder> b", (Prose("a <system-reminder> b"),)),
    ],
)
def test_markup_is_shown_as_what_it_is(text: str, parts: tuple[Part, ...]) -> None:
    assert user(text).parts == parts


def test_very_many_tags_that_are_never_closed_cost_little() -> None:
    text = "<system-reminder><bash-stdout>" * 100_000
    assert user(text).parts == (Prose(text),)
