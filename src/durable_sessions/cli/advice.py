"""Command lines to try instead: what was typed, corrected, so that it can be pasted and run."""

import shlex
from collections.abc import Iterator, Sequence

import click
from click.core import ParameterSource

PROGRAM = "ds"
_KEY_OPTION = "--api-key"
_KEY_VARIABLE = '"$DURABLE_SESSIONS_API_KEY"'


def command_line(words: Sequence[str]) -> str:
    """Return words as a shell takes them, behind the name of the program; a key is never repeated."""
    shown: list[str] = []
    is_key = False
    for word in words:
        if is_key:
            shown.append(_KEY_VARIABLE)
        elif word.startswith(f"{_KEY_OPTION}="):
            shown.append(f"{_KEY_OPTION}={_KEY_VARIABLE}")
        else:
            shown.append(shlex.quote(word))
        is_key = word == _KEY_OPTION and not is_key
    return " ".join((PROGRAM, *shown))


def typed_words(context: click.Context) -> list[str]:
    """Return the words that were typed behind the name of the program."""
    words = context.find_root().obj
    return list(words) if isinstance(words, list) else []


def command_for(name: str, session: str, *options: str, as_myself: bool = True) -> str:
    """Return the command line of a command for a session, with the options that name the server."""
    context = click.get_current_context(silent=True)
    words = [*options, *(server_words(context, as_myself=as_myself) if context is not None else ())]
    if session.startswith("-"):  # otherwise it would be taken for an option
        return command_line([name, *words, "--", session])
    return command_line([name, session, *words])


def server_words(context: click.Context, *, as_myself: bool = True) -> Iterator[str]:
    """Yield the options of the command line that name the server, and with ``as_myself`` who asks it."""
    named = (("url", "--url"), ("api_key", "--api-key"), ("principal", "--principal"))
    for name, option in named if as_myself else named[:1]:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            yield from (option, context.params[name])


def with_option(given: Sequence[str], *option: str) -> str:
    """Return the command line with an option added to it."""
    at = given.index("--") if "--" in given else len(given)  # behind -- it would be an argument
    return command_line([*given[:at], *option, *given[at:]])


def replaced(given: Sequence[str], wrong: str, right: str) -> str:
    """Return the command line with its first ``wrong`` word corrected, also on one side of a ``=``."""
    words = list(given)
    for at, word in enumerate(words):
        parts = [word] if word == wrong else word.split("=", 1)
        if wrong in parts:
            words[at] = "=".join(right if part == wrong else part for part in parts)
            break
    return command_line(words)


def options_behind(root: click.Context, given: Sequence[str]) -> str:
    """Return the command line with the options that stand before a command moved behind it.

    Empty if none of the words is a command that takes the first of them.
    """
    before: list[str] = []
    path: list[str] = []
    group: click.Command = root.command
    rest = list(given)
    while isinstance(group, click.Group) and rest:
        word = rest.pop(0)
        found = None if word.startswith("-") else group.get_command(root, word)
        if found is None:
            before.append(word)
        else:
            path.append(word)
            group = found
    options = (each for each in group.params if isinstance(each, click.Option))
    taken = {name for each in options for name in each.opts}
    if isinstance(group, click.Group) or not before or before[0].partition("=")[0] not in taken:
        return ""
    return command_line([*path, *before, *rest])


def words_behind_dashes(context: click.Context, given: Sequence[str]) -> str:
    """Return the command line with all its arguments behind ``--``, so that none is taken for an option."""
    path = context.command_path.split()[1:]
    rest = list(given[len(path) :])
    options: list[str] = []
    arguments: list[str] = []
    for words in _parts(context.command, rest):
        (options if _is_option(context.command, words[0]) else arguments).extend(words)
    return command_line([*path, *options, "--", *arguments])


def _parts(command: click.Command, words: Sequence[str]) -> Iterator[list[str]]:
    """Yield each argument, and each option with its value."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from ([each] for each in rest)
            return
        option = _option(command, word)
        takes_next = option is not None and not option.is_flag and "=" not in word and rest
        yield [word, rest.pop(0)] if takes_next else [word]


def _is_option(command: click.Command, word: str) -> bool:
    return _option(command, word) is not None


def _option(command: click.Command, word: str) -> click.Option | None:
    name = word.partition("=")[0]
    return next(
        (
            each
            for each in command.params
            if isinstance(each, click.Option) and name in (*each.opts, *each.secondary_opts)
        ),
        None,
    )
