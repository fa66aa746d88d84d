"""The command line: ``durable-sessions``, for short ``ds``."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from keyword import iskeyword
from typing import Any

import click

from durable_sessions import __version__
from durable_sessions.cli.advice import PROGRAM
from durable_sessions.cli.broken_pipe import reader_may_leave
from durable_sessions.cli.command_errors import InterruptedCommandError, described
from durable_sessions.cli.error_output import print_error, wants_json
from durable_sessions.cli.examples import with_example
from durable_sessions.cli.groups import CommandGroup
from durable_sessions.cli.server_extra import ServerCommand, is_missing_server, server_missing
from durable_sessions.cli.usage_advice import advised
from durable_sessions.errors import DurableSessionsError

SECTIONS = {
    "Sessions": (
        "sessions",
        "show",
        "events",
        "tail",
        "outline",
        "search",
        "slots",
        "memory",
        "append",
        "fork",
        "export",
    ),
    "Work": (
        "wake",
        "release",
        "state",
        "facts",
        "context",
        "handoff",
        "route",
        "evaluate",
        "approve",
        "graph",
        "why",
        "impact",
        "diff",
        "adopt",
        "dossier",
        "pause",
        "resume",
        "cancel",
    ),
    "Changes": ("title", "close", "archive", "delete", "redact", "artifact"),
    "Histories": ("import", "capture"),
    "Agents": ("mcp",),
    "Server": ("serve", "cluster", "keys", "flush", "reindex"),
    "Data": ("verify", "dump", "repair", "gc", "repartition"),
    "Shell": ("completion", "help"),
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
        try:
            command = getattr(import_module(f"durable_sessions.cli.{name}"), name)
        except ModuleNotFoundError as missing:
            if not is_missing_server(missing):
                raise
            return ServerCommand(cmd_name)
        assert isinstance(command, click.Command)
        return with_example(command, cmd_name)

    def sections(self, ctx: click.Context) -> dict[str, tuple[str, ...]]:
        """Return the names of the commands as the help lists them."""
        return SECTIONS

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Read the arguments; the help is printed here."""
        with reader_may_leave():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            with reader_may_leave():
                return super().invoke(ctx)
        except ModuleNotFoundError as missing:
            if not is_missing_server(missing):
                raise
            raise server_missing(f"{ctx.command_path} {ctx.invoked_subcommand}") from missing
        except KeyboardInterrupt as error:
            raise InterruptedCommandError("Interrupted.") from error

    def main(  # type: ignore[override]  # only one of its two overloads is used
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **options: Any
    ) -> None:
        """Run a command and exit; with ``--json`` a failure is a line of JSON on standard error."""
        given = list(sys.argv[1:] if args is None else args)
        # Not standalone: click would print failures in its own way. The words are kept for advice on them.
        options |= {"standalone_mode": False, "obj": given}
        try:
            with reader_may_leave():
                status = super().main(given, prog_name, **options)
        except click.exceptions.Abort:
            error: click.ClickException = InterruptedCommandError("Interrupted.")
        except click.exceptions.NoArgsIsHelpError as asked:
            click.echo(asked.message)
            sys.exit(0)
        except click.ClickException as refused:
            error = advised(refused, given)
        except (DurableSessionsError, OSError) as failure:
            error = described(failure)
        else:
            sys.exit(status if isinstance(status, int) else 0)
        print_error(error, as_json=wants_json(given))
        sys.exit(error.exit_code)


@click.command(PROGRAM, cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", "-V", prog_name="durable-sessions")
def cli() -> None:
    """Durable Sessions: the append-only event log for AI agents.

    \b
    ds serve                                          run a server
    ds append hello --type user.message --text Hi     write, in another terminal
    ds show hello                                     read the session
    ds help append                                    see what a command takes
    """


def main() -> None:
    """Run the command line; an expected failure is one line on standard error and an exit status."""
    try:
        cli()
    except SystemExit as ended:
        _end_with_object_store(ended)
        raise


def _end_with_object_store(ended: SystemExit) -> None:
    """End the process at once if it has used an object store, whose threads may outlive the interpreter.

    One of them that still has something to tell Python while it is taken down aborts the process: a command
    that has done all it should would now and then end as if it had failed.
    """
    if "obstore" not in sys.modules:
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader may have left
            stream.flush()
    os._exit(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
