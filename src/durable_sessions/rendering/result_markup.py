"""Markup that coding tools put around and behind the results of tools.

A result is often a file or the output of a program, whose own angle brackets must stay. So only elements
that fill whole lines are read, and those with names that others use as well only in a result that begins as
the tool writes it.
"""

import re
from collections.abc import Iterator

from durable_sessions.rendering.content import (
    ONE_LINE_CHARACTERS_MAX,
    Fields,
    Part,
    Preformatted,
    text_of,
)
from durable_sessions.rendering.elements import elements, opening
from durable_sessions.rendering.text import clean

_TAGS = {
    "system-reminder": "reminder of the tool",
    "tool_use_error": "error of the tool",
    "usage": "usage",
    "task_result": "",
    "task_metadata": "note of the tool",
    "shell_metadata": "note of the tool",
    "bash_metadata": "note of the tool",
}
_TASK = re.compile(r'<task((?: [a-z_]{1,40}="[^"<>]{0,200}"){1,10})>\n')
_ATTRIBUTE = re.compile(r'([a-z_]+)="([^"]*)"')
_TASK_ENDS = "\n</task>"
"""How the task of another agent is put around the whole of its result."""
_OPENING = opening(_TAGS, begins_line=True)
_FORMS = {
    "<path>": ("path", "type", "content", "entries"),
    "<file>": ("file",),
    "<retrieval_status>": (
        "retrieval_status",
        "task_id",
        "task_type",
        "status",
        "exit_code",
        "output",
        "error",
    ),
}
"""How tools write a file, a folder and the output of a task: the beginning, and the members."""


def parts(text: str) -> Iterator[Part]:
    """Yield what a result says, without the markup."""
    # Only the beginning is looked at: a file that merely contains such an element is shown as it is.
    begins = text[:40].lstrip().partition(">")[0] + ">"
    if begins in _FORMS:
        yield from _form(text, _FORMS[begins])
    elif (task := _TASK.match(text)) and (whole := text.rstrip()).endswith(_TASK_ENDS):
        names = ((name.replace("_", " "), clean(value)) for name, value in _ATTRIBUTE.findall(task[1]))
        yield Fields(tuple((f"task {name}" if name == "id" else name, value) for name, value in names))
        yield from _pieces(whole[task.end() : -len(_TASK_ENDS)])
    else:
        yield from _pieces(text)


def plain(text: str) -> str:
    """Return the words of a result, without the markup."""
    return text_of(list(parts(text))) if "<" in text else text


def _pieces(text: str) -> Iterator[Part]:
    done = 0
    for element in elements(text, _OPENING, fill_lines=True):
        yield from _plain(text[done : element.start])
        yield from _plain(element.text.strip("\n"), _TAGS[element.tag])
        done = element.end
    yield from _plain(text[done:]) if done else [Preformatted(text)]


def _plain(text: str, label: str = "") -> Iterator[Part]:
    if text.strip():
        yield Preformatted(text.strip("\n"), label)


def _form(text: str, names: tuple[str, ...]) -> Iterator[Part]:
    """Yield the short members by name, then the long ones, then what the tool wrote behind them."""
    rows: list[tuple[str, str]] = []
    long: list[Part] = []
    done = 0
    for element in elements(text, opening(names), fill_lines=True):
        # Between two members may stand what they say of themselves, such as how much was cut.
        long += _pieces(between) if (between := text[done : element.start].strip("\n")) else ()
        value = element.text.strip("\n")
        if (
            "\n" in value
            or len(value) > ONE_LINE_CHARACTERS_MAX
            or element.tag in ("file", "content", "output")
        ):
            long += _plain(value)
        elif value:
            rows.append((element.tag.replace("_", " "), clean(value)))
        done = element.end
    if not done:
        yield from _pieces(text)
        return
    if rows:
        yield Fields(tuple(rows))
    yield from long
    if rest := text[done:].strip("\n"):
        yield from _pieces(rest)
