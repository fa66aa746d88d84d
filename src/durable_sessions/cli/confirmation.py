"""The question before something that cannot be taken back."""

import sys
from collections.abc import Callable

import click

from durable_sessions.cli.failures import CommandError, WrongInputError
from durable_sessions.client import SessionInfo
from durable_sessions.rendering.text import clean, one_line, plural, size

with_yes: Callable[[Callable[..., None]], Callable[..., None]] = click.option(
    "--yes", "-y", "is_sure", is_flag=True, help="Do not ask."
)


def confirm(question: str, *, is_sure: bool) -> None:
    """Go on if ``--yes`` was given or a person says yes; refuse otherwise, also where nobody can be asked."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise WrongInputError(f"{question} Nothing was done: nobody can be asked here, so add --yes.")
    if not click.confirm(clean(question), err=True):
        raise CommandError("Nothing was done.")


def described(info: SessionInfo) -> str:
    """Return a session as a question names it: id, title, and how much it holds."""
    title = f" “{one_line(info.title, 60)}”" if info.title else ""
    events = f"{info.event_count:,} {plural(info.event_count, 'event')}"
    return f"{info.id}{title} ({events}, {size(info.bytes)})"
