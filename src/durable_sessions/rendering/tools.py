"""Tool calls: what is said of them in one line, and what is shown of their input.

Tools are told apart by what they are given, not by their names, which every harness chooses for itself.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from durable_sessions.rendering import diffs
from durable_sessions.rendering.content import Diff, Fields, Part, Preformatted
from durable_sessions.rendering.text import clean, compact, lines_of, one_line, plural, pretty

_PATHS = ("file_path", "path", "filePath", "notebook_path", "filename")
_COMMANDS = ("command", "cmd", "script")
_TELLING = (
    "subject", "pattern", "query", "q", "url", "description", "prompt", "question", "task", "name", "code",
    "text",
)  # fmt: skip
_OLD, _NEW = (
    ("old_string", "old_str", "oldString", "oldText"),
    ("new_string", "new_str", "newString", "newText"),
)
_CONTENTS = ("content", "file_text", "contents", "new_source")
_FIELD_CHARACTERS_MAX = 160
_LANGUAGES = {
    "py": "python", "js": "javascript", "mjs": "javascript", "ts": "typescript", "tsx": "tsx", "jsx": "jsx",
    "rs": "rust", "go": "go", "rb": "ruby", "java": "java", "c": "c", "h": "c", "cc": "cpp", "cpp": "cpp",
    "md": "markdown", "json": "json", "toml": "toml", "yml": "yaml", "yaml": "yaml", "html": "html",
    "css": "css", "sh": "sh", "sql": "sql",
}  # fmt: skip

Input = Mapping[str, Any]


def headline(tool_input: object, most: int = 120) -> str:
    """Return one line that says what a tool was asked to do."""
    tool_input = _unwrapped(tool_input)
    if not isinstance(tool_input, Mapping):
        return one_line(compact(tool_input), most) if tool_input is not None else ""
    command = _command(tool_input)
    if command:
        return one_line(_first_line(command), most)
    path, change = _first(tool_input, _PATHS), _change(tool_input)
    if change is not None:
        return one_line(f"{path} ({diffs.counts(change)})" if path else _patched(change), most)
    written = _first(tool_input, _CONTENTS)
    if path and written:
        count = len(lines_of(written))
        return one_line(f"{path} ({count:,} {plural(count, 'line')})", most)
    if isinstance(tool_input.get("todos"), list):
        return _progress(tool_input["todos"])
    telling = _first(tool_input, _TELLING)
    if telling or path:
        return one_line(" in ".join(filter(None, (telling, path))), most)
    return one_line(compact(dict(tool_input)), most) if tool_input else ""


def input_parts(tool_input: object) -> Iterator[Part]:
    """Return the input of a tool call as parts that can be shown, nothing left out."""
    tool_input = _unwrapped(tool_input)
    if not isinstance(tool_input, Mapping):
        if tool_input is not None:
            yield Preformatted(compact(tool_input))
        return
    shown: set[str] = set()
    command = _command(tool_input)
    if command:
        shown.update(_COMMANDS)
        yield Preformatted(clean(command), language="sh")
    change = _change(tool_input)
    path = _first(tool_input, _PATHS)
    if change is not None:
        shown.update(_OLD, _NEW, ("edits", "patch", "diff"))
        if isinstance(tool_input.get("input"), str):
            shown.add("input")
        yield change
    written = _first(tool_input, _CONTENTS)
    if path and written:
        shown.update(_CONTENTS)
        yield Preformatted(clean(written), language=_language(path))
    yield from _remaining({name: value for name, value in tool_input.items() if name not in shown})


def _unwrapped(tool_input: object) -> object:
    """Return what a model wrote as JSON in a text, as some harnesses record it."""
    text = tool_input
    # Some harnesses wrap the text in an object of one member.
    if isinstance(text, Mapping) and len(text) == 1:
        text = next((text[name] for name in ("input", "arguments") if name in text), None)
    if not isinstance(text, str) or not text.startswith("{"):
        return tool_input
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return tool_input
    return value if isinstance(value, dict) else tool_input


def _remaining(values: Input) -> Iterator[Part]:
    rows: list[tuple[str, str]] = []
    blocks: list[Part] = []
    for name, value in values.items():
        label, short = one_line(name, 60), compact(value)
        if len(short) <= _FIELD_CHARACTERS_MAX and "\n" not in short:
            rows.append((label, short))
        else:
            blocks.append(
                Preformatted(clean(value), label=label)
                if isinstance(value, str)
                else Preformatted(pretty(value), label=label, language="json")
            )
    if rows:
        yield Fields(tuple(rows))
    yield from blocks


def _command(tool_input: Input) -> str:
    for name in _COMMANDS:
        value = tool_input.get(name)
        if isinstance(value, str) and value.strip():
            # an editor's "command" names what it does, and the path says to what
            return "" if _first(tool_input, _PATHS) and " " not in value.strip() else value
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            # ["bash", "-lc", "…"]: what the shell was given is the command, not how the shell was started.
            is_shell = len(value) == 3 and value[1] in ("-c", "-lc")
            return str(value[2]) if is_shell else " ".join(value)
    return ""


def _change(tool_input: Input) -> Diff | None:
    edits = tool_input.get("edits")
    if isinstance(edits, list) and edits and all(isinstance(one, dict) for one in edits):
        changes = [_replaced(one) for one in edits]
        if all(change is not None for change in changes):
            # Several edits of one call are one change, told apart by lines that no edit begins with.
            return Diff(tuple(line for change in changes if change for line in ("@@", *change.lines)))
    for name in ("patch", "diff", "input"):
        value = tool_input.get(name)
        if isinstance(value, str) and diffs.is_patch(value):
            return diffs.patch(value)
    return _replaced(tool_input)


def _replaced(values: Input) -> Diff | None:
    old = next((values[name] for name in _OLD if isinstance(values.get(name), str)), None)
    new = next((values[name] for name in _NEW if isinstance(values.get(name), str)), None)
    return None if old is None or new is None else diffs.edit(old, new)


def _patched(change: Diff) -> str:
    names = [
        line.split(" ", 3)[3]
        for line in change.lines
        if line.startswith(("*** Update File: ", "*** Add File: ", "*** Delete File: "))
        and line.count(" ") > 2
    ] or [line[6:] for line in change.lines if line.startswith("+++ b/")]
    return f"{', '.join(names) or 'patch'} ({diffs.counts(change)})"


def _progress(todos: list[Any]) -> str:
    done = sum(isinstance(todo, dict) and todo.get("status") == "completed" for todo in todos)
    now = next(
        (
            todo.get("content")
            for todo in todos
            if isinstance(todo, dict) and todo.get("status") == "in_progress"
        ),
        None,
    )
    return one_line(f"{done} of {len(todos)} done" + (f", now: {now}" if isinstance(now, str) else ""))


def _first(values: Input, names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := values.get(name), str) and value.strip()), "")


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return f"{lines[0]} …" if len(lines) > 1 else lines[0]


def _language(path: str) -> str:
    return _LANGUAGES.get(PurePosixPath(path).suffix.removeprefix(".").lower(), "")
