"""Markup that coding tools put into messages, read as what it is: commands, output, reminders, reports."""

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from durable_sessions.rendering.content import (
    ONE_LINE_CHARACTERS_MAX,
    Fields,
    Part,
    Preformatted,
    Prose,
    text_of,
)
from durable_sessions.rendering.elements import elements, opening
from durable_sessions.rendering.text import compact

_TAGS = {
    "bash-input": "",
    "bash-stdout": "output",
    "bash-stderr": "errors",
    "local-command-stdout": "output",
    "local-command-stderr": "errors",
    "local-command-caveat": "note of the tool",
    "system-reminder": "reminder of the tool",
    "user-prompt-submit-hook": "hook",
    "session-start-hook": "hook",
    "task-notification": "task",
    "subagent_notification": "task",
    "teammate-message": "",
    "tool_use_error": "error of the tool",
    "turn_aborted": "note of the tool",
    "environment_context": "environment",
    "environment_details": "environment",
    "permissions instructions": "instructions",
    "skills_instructions": "instructions",
    "user_instructions": "instructions",
    "ide_opened_file": "editor",
    "ide_selection": "editor",
}
_COMMAND = ("command-name", "command-message", "command-args")
_OPENING = opening((*_TAGS, *_COMMAND))
_MEMBER = re.compile(r"<([a-z][a-z_-]{0,40})>")
_TOLD_FIRST = ("summary", "result")
_DEPTH_MAX = 3


class Typed(NamedTuple):
    """A command that a user typed."""

    title: str
    line: str


def command(text: str) -> Typed | None:
    """Return the slash command or shell command that a message is, None if it is something else."""
    if not text.lstrip().startswith("<"):
        return None
    found = {element.tag: element.text for element in elements(text, _OPENING)}
    if name := found.get("command-name", "").strip():
        return Typed("Command", f"{name} {found.get('command-args', '').strip()}".strip())
    if typed := found.get("bash-input", "").strip():
        return Typed("Shell", f"$ {typed}")
    return None


def parts(prose: Prose) -> Iterator[Part]:
    """Yield what a text says, each piece of markup as a block that says what it is."""
    done = 0
    for element in elements(prose.text, _OPENING):
        yield from _prose(prose.text[done : element.start])
        yield from element_parts(element.tag, element.text)
        done = element.end
    if done:
        yield from _prose(prose.text[done:])
    else:
        yield prose


def plain(text: str) -> str:
    """Return the words of a text, without the markup."""
    return text_of(list(parts(Prose(text)))) if "<" in text else text


def element_parts(tag: str, text: str) -> Iterator[Part]:
    """Yield what an element of a known kind says."""
    return _MAKERS.get(tag, _labelled)(tag, text.strip("\n"))


def _prose(text: str) -> Iterator[Part]:
    if text.strip():
        yield Prose(text.strip("\n"))


def _labelled(tag: str, text: str) -> Iterator[Part]:
    if text.strip():
        yield Preformatted(text, _TAGS[tag])


def _nothing(tag: str, text: str) -> Iterator[Part]:
    return iter(())


def _name(tag: str, text: str) -> Iterator[Part]:
    yield Preformatted(text.strip())


def _plain(tag: str, text: str) -> Iterator[Part]:
    yield from _prose(text)


def _input(tag: str, text: str) -> Iterator[Part]:
    yield Preformatted(f"$ {text.strip()}", language="sh")


def _report(tag: str, text: str) -> Iterator[Part]:
    """Yield a report that has members: its summary and its result, then the short ones by name."""
    # What the report says in sentences comes first, then what can be looked up.
    told = dict(_members(text))
    if not told:
        yield from _labelled(tag, text)
        return
    for name in _TOLD_FIRST:
        yield from _prose(told.pop(name, ""))
    long = {
        name: value for name, value in told.items() if len(value) > ONE_LINE_CHARACTERS_MAX or "\n" in value
    }
    rows = [(name, value) for name, value in told.items() if value and name not in long]
    if rows:
        yield Fields(tuple(rows))
    for name, value in long.items():
        yield Preformatted(value, name)


def _members(text: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the elements in one, those of inner elements in place of theirs."""
    for element in elements(text, _MEMBER):
        inner = list(_members(element.text, depth + 1)) if depth < _DEPTH_MAX else []
        name = element.tag.replace("_", " ").replace("-", " ")
        # An element with elements inside is a folder of them, whose own name says nothing new.
        yield from inner or [(name, element.text.strip())]


def _status(tag: str, text: str) -> Iterator[Part]:
    """Yield a report in JSON: which agent, and how it ended."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):  # anybody may write such a text, nested as deep as they like
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("status"), dict):
        yield from _labelled(tag, text)
        return
    for name, said in told["status"].items():
        yield from _prose(compact(said) if name == "completed" else f"{name}: {compact(said)}")
    rows = [(name.replace("_", " "), compact(value)) for name, value in told.items() if name != "status"]
    if rows:
        yield Fields(tuple(rows))


_MAKERS: dict[str, Callable[[str, str], Iterator[Part]]] = {
    "command-name": _name,
    "command-message": _nothing,  # the name again, for people
    "command-args": _plain,
    "bash-input": _input,
    "teammate-message": _plain,
    "task-notification": _report,
    "environment_context": _report,
    "subagent_notification": _status,
}
