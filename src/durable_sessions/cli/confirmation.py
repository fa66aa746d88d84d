"""Confirmation of actions that cannot be undone."""

import sys
from collections.abc import Callable, Sequence

import click

from durable_sessions.cli.advice import replaced, typed_words, with_option
from durable_sessions.cli.command_errors import CommandError, WrongInputError
from durable_sessions.cli.connection import ServerConnection
from durable_sessions.cli.session_title import fork_note
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Session, SessionInfo
from durable_sessions.rendering.text import clean, one_line, plural, size

with_yes: Callable[[Callable[..., None]], Callable[..., None]] = click.option(
    "--yes", "-y", "is_sure", is_flag=True, help="Do not ask."
)


def sessions_to_end(
    connection: ServerConnection, given: Sequence[str], *, is_sure: bool
) -> list[SessionInfo]:
    """Return the sessions that a command ends; without a confirmation, only full ids are accepted.

    A prefix means another session once the first one is gone, so a script that runs twice would end both.
    """
    found = [connection.find(one) for one in given]
    if is_sure or not sys.stdin.isatty():
        for text, info in zip(given, found, strict=True):
            if text != info.id:
                again = replaced(typed_words(click.get_current_context()), text, info.id)
                raise WrongInputError(
                    f"There is no session {text}; nothing was done. The only one whose id begins like that "
                    f"is {described(info)}. Without a question this needs the whole id: {again}"
                )
    return found


def end_each(
    connection: ServerConnection,
    output: Output,
    given: Sequence[str],
    end: Callable[[Session], SessionInfo],
    *,
    question: str,
    done: str,
    is_sure: bool,
) -> None:
    """End sessions one by one, each after a ``question``, in which ``{}`` stands for the session."""
    for info in sessions_to_end(connection, given, is_sure=is_sure):
        confirm(question.format(described(info)), is_sure=is_sure)
        with connection.writing(info.id):
            ended = end(connection.client.session(info.id))
        if output.json:
            output.tell(ended.raw)
        else:
            output.note(f"{info.id}: {done}")


def confirm(question: str, *, is_sure: bool) -> None:
    """Continue if ``--yes`` was given or a person confirms; otherwise refuse, also without a terminal."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        again = with_option(typed_words(click.get_current_context()), "--yes")
        raise WrongInputError(f"{question} Nothing was done: nobody can be asked here, so add --yes: {again}")
    if not click.confirm(clean(question), err=True):
        raise CommandError("Nothing was done.")


def described(info: SessionInfo) -> str:
    """Return a session for a question: id, title, of which session it is a fork, and size."""
    title = f" “{one_line(info.title, 60)}”" if info.title else ""
    source = f" {note}" if (note := fork_note(info)) else ""
    events = f"{info.event_count:,} {plural(info.event_count, 'event')}"
    return f"{info.id}{title}{source} ({events}, {size(info.bytes)})"
