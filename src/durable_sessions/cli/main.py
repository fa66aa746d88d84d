"""The command line: ``durable-sessions``, for short ``ds``."""

import sys

import click

from durable_sessions import __version__
from durable_sessions.cli.dump import dump
from durable_sessions.cli.flush import flush
from durable_sessions.cli.gc import gc
from durable_sessions.cli.keys import keys
from durable_sessions.cli.reindex import reindex
from durable_sessions.cli.repair import repair
from durable_sessions.cli.serve import serve
from durable_sessions.cli.verify import verify
from durable_sessions.errors import DurableSessionsError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="durable-sessions")
def cli() -> None:
    """Durable Sessions: the append-only event log for AI agents."""


for command in (serve, keys, verify, dump, repair, gc, flush, reindex):
    cli.add_command(command)


def main() -> None:
    """Run the command line; an expected failure is one line on stderr and exit status 1."""
    try:
        cli()
    except DurableSessionsError as error:
        click.echo(f"durable-sessions: {error}", err=True)
        sys.exit(1)
