"""Errors of usage with the command line that was probably meant."""

from collections.abc import Sequence
from pathlib import Path

import click

from durable_sessions.cli.advice import command_line, options_behind, replaced, words_behind_dashes
from durable_sessions.cli.groups import UnknownCommandError
from durable_sessions.cli.spelling import near

OPTIONS_NEAR_MAX = 3
_EXTRA = "Got unexpected extra argument"
_DATA = "--data"
_OTHER_NAMES = {"--workers": "--partitions"}
"""Options that are easily taken for another of the same meaning."""


def advised(error: click.ClickException, given: Sequence[str]) -> click.ClickException:
    """Return an error that also says what to type instead, if that can be told."""
    if isinstance(error, UnknownCommandError):
        return _with_advice(error, error.message, _other_command(error, given))
    if isinstance(error, click.NoSuchOption):
        return _with_advice(error, error.message, _other_option(error, given))
    if isinstance(error, click.UsageError) and error.message.startswith(_EXTRA):
        advice = _data_directory(error, given)
        return _with_advice(error, f"{error.message}.", advice) if advice else error
    return error


def _with_advice(error: click.UsageError, said: str, advice: str) -> click.UsageError:
    return click.UsageError(f"{said} {advice}".rstrip(), error.ctx)


def _other_command(error: UnknownCommandError, given: Sequence[str]) -> str:
    if len(error.near) == 1:
        return f"Did you mean {error.near[0]}? Try: {replaced(given, error.command_name, error.near[0])}"
    if error.near:
        return f"Did you mean {' or '.join(error.near)}?"
    assert error.ctx is not None
    return f"See all of them with: {error.ctx.command_path} --help"


def _data_directory(error: click.UsageError, given: Sequence[str]) -> str:
    """Return the command line with ``--data`` before a directory that was given without it."""
    takes = error.ctx is not None and any(_DATA in each.opts for each in error.ctx.command.params)
    word = next((each for each in reversed(given) if Path(each).is_dir()), None)
    if not takes or word is None or _DATA in given:
        return ""
    at = given.index(word)
    return f"Did you mean {_DATA}? Try: {command_line([*given[:at], _DATA, *given[at:]])}"


def _commands_with(context: click.Context, option: str) -> list[str]:
    """Return the commands of a group that take an option."""
    group = context.command
    assert isinstance(group, click.Group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    takes = [name for name, one in found.items() if one and any(option in each.opts for each in one.params)]
    return [f"{context.command_path} {name}" for name in takes][:OPTIONS_NEAR_MAX]


def _other_option(error: click.NoSuchOption, given: Sequence[str]) -> str:
    """Return the nearest option; or where the option belongs; or how a word that looks like one is given."""
    context = error.ctx
    if context is None:
        return ""
    if isinstance(context.command, click.Group):
        behind = options_behind(context.find_root(), given)
        if behind:
            return f"Options stand behind the command: {behind}"
        takes = _commands_with(context, error.option_name)
        if takes:
            return f"It is an option of {' and '.join(takes)}: name one of them before it."
    same = _OTHER_NAMES.get(error.option_name)
    if same is not None and any(same in each.opts for each in context.command.params):
        return f"Did you mean {same}? Try: {replaced(given, error.option_name, same)}"
    meant = near(error.option_name, error.possibilities or [], OPTIONS_NEAR_MAX)
    if len(meant) == 1:
        return f"Did you mean {meant[0]}? Try: {replaced(given, error.option_name, meant[0])}"
    if meant:
        return f"Did you mean {' or '.join(meant)}?"
    if not any(isinstance(each, click.Argument) for each in context.command.params):
        return ""
    word = next((each for each in given if each.startswith(error.option_name)), error.option_name)
    behind = words_behind_dashes(context, given)
    return f"If {word} is not meant as an option, put -- before it: {behind}"
