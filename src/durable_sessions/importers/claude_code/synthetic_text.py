"""Recognises text in user records that Claude Code inserted, not the user."""

import re
from collections.abc import Mapping
from typing import Any

from durable_sessions.importers.events import members, text

INTERRUPTED = "[Request interrupted by user"
REFUSED = "The user doesn't want to proceed with this tool use"
_INJECTED = ("<system-reminder>", "<ide_", "<user-prompt-submit-hook>", "<session-start-hook>")
_COMMANDS = ("<command-name>", "<command-message>", "<bash-input>")
_OUTPUTS = ("<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>")
_COMMAND_PART = re.compile(r"<(command-name|command-args|bash-input)>([^<]{1,2000})</\1>")
_TEAMMATE = re.compile(r"<teammate-message(?=[\s>])([^>]{0,2000})>")
_TEAMMATE_ID = re.compile(r"""\bteammate_id=["']([^"']{1,200})["']""")
_TEAMMATES_NAMED_MAX = 20
_TASK_ID = re.compile(r"<task-id>([^<]{1,200})</task-id>")


def is_injected(words: str) -> bool:
    """Say whether the program inserted this text beside the user's."""
    return words.lstrip().startswith(_INJECTED)


def is_command(words: str) -> bool:
    """Say whether a slash command or a shell command was typed."""
    return words.lstrip().startswith(_COMMANDS)


def typed_command(words: str) -> str:
    """Return a command as it was typed, without its markup: ``/review src/app.py``, or ``$ make``."""
    parts = {name: " ".join(said.split()) for name, said in _COMMAND_PART.findall(words)}
    if shell := parts.get("bash-input"):
        return f"$ {shell}"
    return " ".join(filter(None, (parts.get("command-name"), parts.get("command-args"))))


def is_command_output(words: str) -> bool:
    """Say whether this is the output of a command."""
    return words.lstrip().startswith(_OUTPUTS)


def is_notification(record: Mapping[str, Any], words: str) -> bool:
    """Say whether this is the report of a background task."""
    kind = text(members(record.get("origin")).get("kind"))
    return kind == "task-notification" or words.lstrip().startswith("<task-notification>")


def is_from_teammate(record: Mapping[str, Any], words: str) -> bool:
    """Say whether another agent of the team wrote this."""
    kind = text(members(record.get("origin")).get("kind"))
    return kind == "teammate" or _TEAMMATE.match(words.lstrip()) is not None


def teammates(words: str) -> str | None:
    """Return the names of the teammates who wrote this."""
    found: dict[str, None] = {}
    for opening in _TEAMMATE.finditer(words):
        if name := _TEAMMATE_ID.search(opening.group(1)):
            found[name.group(1)] = None
    return ", ".join(list(found)[:_TEAMMATES_NAMED_MAX]) or None


def task_id(words: str) -> str | None:
    """Return the task that a notification is about."""
    found = _TASK_ID.search(words)
    return found.group(1) if found else None
