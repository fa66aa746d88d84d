"""``durable-sessions help``: what there is, and what a command takes."""

from collections.abc import Sequence

import click

from durable_sessions.cli.groups import COMMANDS_NEAR_MAX, UnknownCommandError
from durable_sessions.cli.spelling import near


@click.command(name="help")
@click.argument("command", nargs=-1)
@click.pass_context
def help(context: click.Context, command: tuple[str, ...]) -> None:  # noqa: A001 - the name of the command
    """Show what COMMAND does and takes, such as: ds help keys create. Without one, list all commands."""
    root = context.find_root()
    click.echo(_found(root, command).get_help())


def _found(root: click.Context, names: Sequence[str]) -> click.Context:
    """Return the context of the command with these names, one for each group that it is in."""
    context = root
    for name in names:
        group = context.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{context.command_path} has no commands.", context)
        command = group.get_command(context, name)
        if command is None:
            known = group.list_commands(context)
            raise UnknownCommandError(name, near(name, known, COMMANDS_NEAR_MAX), context)
        context = click.Context(command, info_name=name, parent=context)
    return context
