"""Failures as they are printed: a line that begins with ``ds:``, or with ``--json`` an object."""

from collections.abc import Sequence

import click
import msgspec

from durable_sessions.cli.advice import PROGRAM
from durable_sessions.cli.command_errors import CommandError


def wants_json(given: Sequence[str]) -> bool:
    """Say whether ``--json`` was given; after a bare ``--`` there are no options."""
    options = given[: given.index("--")] if "--" in given else given
    return "--json" in options


def print_error(error: click.ClickException, *, as_json: bool) -> None:
    """Print a failure to standard error."""
    if as_json:
        click.echo(msgspec.json.encode({"error": _plain(error)}), err=True)
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(error.ctx.get_usage(), err=True)
        click.echo(f"See {error.ctx.command_path} --help\n", err=True)
    warn(error.format_message())


def warn(message: str) -> None:
    """Print a message to standard error that says which program it is from."""
    click.echo(f"{PROGRAM}: {message}", err=True)


def _plain(error: click.ClickException) -> dict[str, object]:
    kind = "usage" if isinstance(error, click.UsageError) else getattr(error, "kind", CommandError.kind)
    plain: dict[str, object] = {
        "type": kind,
        "message": error.format_message(),
        "exit_status": error.exit_code,
    }
    code = getattr(error, "code", "")
    return {**plain, "code": code} if code else plain
