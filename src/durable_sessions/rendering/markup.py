"""Markup that coding tools put into messages, read as what it is: commands, their output, reminders."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from durable_sessions.rendering.content import Part, Preformatted, Prose

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
    "environment_context": "environment",
    "user_instructions": "instructions",
    "ide_opened_file": "editor",
    "ide_selection": "editor",
}
_COMMAND = ("command-name", "command-message", "command-args")
_OPENING = re.compile(rf"<({'|'.join((*_TAGS, *_COMMAND))})>")


class _Element(NamedTuple):
    tag: str
    text: str
    start: int
    end: int


def _elements(text: str) -> Iterator[_Element]:
    """Yield the elements of a text that are known and closed; what is inside one is its text."""
    at, unclosed = 0, set[str]()
    while opening := _OPENING.search(text, at):
        at, tag = opening.end(), opening[1]
        # A tag that is not closed behind one place is not closed behind any later one: look once only.
        closing = -1 if tag in unclosed else text.find(f"</{tag}>", at)
        if closing < 0:
            unclosed.add(tag)
            continue
        yield _Element(tag, text[at:closing], opening.start(), closing + len(tag) + 3)
        at = closing + len(tag) + 3


class Typed(NamedTuple):
    """A command that a user typed."""

    title: str
    line: str


def command(text: str) -> Typed | None:
    """Return the slash command or shell command that a message is, None if it is something else."""
    if not text.lstrip().startswith("<"):
        return None
    found = {element.tag: element.text for element in _elements(text)}
    if name := found.get("command-name", "").strip():
        return Typed("Command", f"{name} {found.get('command-args', '').strip()}".strip())
    if typed := found.get("bash-input", "").strip():
        return Typed("Shell", f"$ {typed}")
    return None


def parts(prose: Prose) -> Iterator[Part]:
    """Yield what a text says, each piece of markup as a block that says what it is."""
    done = 0
    for element in _elements(prose.text):
        yield from _prose(prose.text[done : element.start])
        yield from _MAKERS.get(element.tag, _labelled)(element.tag, element.text.strip("\n"))
        done = element.end
    if done:
        yield from _prose(prose.text[done:])
    else:
        yield prose


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


def _arguments(tag: str, text: str) -> Iterator[Part]:
    yield from _prose(text)


def _input(tag: str, text: str) -> Iterator[Part]:
    yield Preformatted(f"$ {text.strip()}", language="sh")


_MAKERS: dict[str, Callable[[str, str], Iterator[Part]]] = {
    "command-name": _name,
    "command-message": _nothing,  # the name again, for people
    "command-args": _arguments,
    "bash-input": _input,
}
