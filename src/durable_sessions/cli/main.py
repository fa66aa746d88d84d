"""The command line: ``durable-sessions``, for short ``ds``."""

import sys
from importlib import import_module
from keyword import iskeyword

import click

from durable_sessions import __version__
from durable_sessions.errors import DurableSessionsError

SECTIONS = {
    "Sessions": ("sessions", "show", "events", "tail", "search", "append", "fork", "export"),
    "Histories": ("import", "capture"),
    "Server": ("serve", "keys", "flush", "reindex"),
    "Data": ("verify", "dump", "repair", "gc"),
    "Shell": ("completion",),
}
"""All commands; each is a module of this package with a command of the same name."""


class Commands(click.Group):
    """Commands that are loaded when they are called: clients have no use for the server's libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command = getattr(import_module(f"durable_sessions.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands by section."""
        most = formatter.width - 6 - max(map(len, self.list_commands(ctx)))
        for section, names in SECTIONS.items():
            commands = ((name, self.get_command(ctx, name)) for name in names)
            with formatter.section(section):
                formatter.write_dl(
                    [(name, command.get_short_help_str(most)) for name, command in commands if command]
                )


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="durable-sessions")
def cli() -> None:
    """Durable Sessions: the append-only event log for AI agents."""


def main() -> None:
    """Run the command line; an expected failure is one line on stderr and exit status 1."""
    try:
        cli()
    except DurableSessionsError as error:
        click.echo(f"durable-sessions: {error}", err=True)
        sys.exit(1)
