"""The command line: ``durable-sessions``, for short ``ds``."""

import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click
import msgspec

from durable_sessions import __version__
from durable_sessions.cli.groups import CommandGroup
from durable_sessions.errors import DurableSessionsError

SECTIONS = {
    "Sessions": ("sessions", "show", "events", "tail", "search", "append", "fork", "export"),
    "Changes": ("title", "close", "archive", "delete", "artifact"),
    "Histories": ("import", "capture"),
    "Server": ("serve", "keys", "flush", "reindex"),
    "Data": ("verify", "dump", "repair", "gc"),
    "Shell": ("completion",),
}
"""All commands; each is a module of this package with a command of the same name."""


class Commands(CommandGroup):
    """Loads a command when it is called, so that client commands do not import the server's libraries."""

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

    def sections(self, ctx: click.Context) -> dict[str, tuple[str, ...]]:
        """Return the names of the commands as the help lists them."""
        return SECTIONS

    def main(  # type: ignore[override]  # only one of its two overloads is used
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **options: Any
    ) -> None:
        """Run a command and exit; with ``--json`` a failure is a line of JSON on standard error."""
        given = list(sys.argv[1:] if args is None else args)
        options["standalone_mode"] = False
        try:
            status = super().main(given, prog_name, **options)
        except click.exceptions.Abort:
            _tell("aborted", "Aborted.", 1, as_json=_wants_json(given))
            sys.exit(1)
        except click.ClickException as error:
            if isinstance(error, click.NoSuchOption):
                error = click.UsageError(no_option(error, given), error.ctx)
            if _wants_json(given):
                _tell(_kind(error), error.format_message(), error.exit_code, as_json=True)
            else:
                error.show()
            sys.exit(error.exit_code)
        except DurableSessionsError as error:
            _tell(error.code, f"durable-sessions: {error}", 1, as_json=_wants_json(given))
            sys.exit(1)
        sys.exit(status if isinstance(status, int) else 0)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="durable-sessions")
def cli() -> None:
    """Durable Sessions: the append-only event log for AI agents."""


def main() -> None:
    """Run the command line; an expected failure is one line on standard error and an exit status."""
    cli()


def no_option(error: click.NoSuchOption, given: Sequence[str]) -> str:
    """Return what is said of an option that there is not; it may have been meant for a word."""
    said = error.format_message()
    context = error.ctx
    if context is None or not any(isinstance(each, click.Argument) for each in context.command.params):
        return said
    word = next((each for each in given if each.startswith(error.option_name)), error.option_name)
    return f"{said} If {word} is not meant as an option, put -- before it: {context.command_path} -- {word}"


def _wants_json(given: Sequence[str]) -> bool:
    """Say whether ``--json`` was given; after a bare ``--`` there are no options."""
    options = given[: given.index("--")] if "--" in given else given
    return "--json" in options


def _kind(error: click.ClickException) -> str:
    return "usage" if isinstance(error, click.UsageError) else getattr(error, "kind", "failed")


def _tell(kind: str, message: str, status: int, *, as_json: bool) -> None:
    if as_json:
        error = {"error": {"type": kind, "message": message, "exit_status": status}}
        click.echo(msgspec.json.encode(error), err=True)
    else:
        click.echo(message, err=True)
