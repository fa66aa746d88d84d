"""``durable-sessions approve``: decide what a session waits for."""

from typing import Any

import click
import msgspec

from durable_sessions import json_syntax
from durable_sessions.cli.advice import typed_words, with_option
from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import MissingError, SessionConflictError, WrongInputError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.option_names import in_options
from durable_sessions.cli.option_types import OneOf
from durable_sessions.cli.terminal import Output
from durable_sessions.cli.work_output import appended
from durable_sessions.client import work_calls
from durable_sessions.rendering.text import one_line

_DONE = {"approve": "approved", "reject": "rejected", "edit": "edited", "respond": "answered"}


@click.command()
@click.argument("session", type=SESSION)
@click.argument("request", required=False)
@click.option("--reject", is_flag=True, help="Decide against it.")
@click.option("--decision", type=OneOf(list(_DONE)), help="Another answer that the request offers.")
@click.option("--reason", help="Why; needed to decide.")
@click.option("--payload", metavar="JSON", help="What is edited or answered.")
@with_connection
def approve(
    connection: ServerConnection,
    output: Output,
    session: str,
    request: str | None,
    reject: bool,
    decision: str | None,
    reason: str | None,
    payload: str | None,
) -> None:
    """Approve what SESSION waits for: the only REQUEST, or the one with this id. Without --reason, list them.

    Needs a principal that did not work on the session, and the role evaluator.
    """
    if reject and decision not in (None, "reject"):
        raise click.UsageError("Give --reject or another --decision, not both.")
    if reason is None and (reject or decision is not None or payload is not None):
        again = with_option(typed_words(click.get_current_context()), "--reason", "…")
        raise click.UsageError(f"Nothing was decided: a decision needs a reason, so add --reason: {again}")
    target = connection.client.session(connection.find(session).id)
    pending = target.state()["approvals"]["pending"]
    if reason is None:
        named = pending if request is None else [_chosen(target.id, pending, request)]
        _list(connection, output, target.id, named)
        return
    chosen = _chosen(target.id, pending, request)
    taken = "reject" if reject else decision or "approve"
    event = work_calls.decide(chosen["id"], taken, reason)
    if payload is not None:
        try:
            event["payload"] = msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            wrong = in_options(json_syntax.fault(payload.encode(errors="surrogateescape"), error))
            raise WrongInputError(f"--payload is not JSON: {wrong}.") from error
    said = f"{_DONE[taken]}: {one_line(chosen['question'], 100)}"
    with connection.writing(target.id):
        done = target.append(event)
    appended(output, target, done, said)


def _list(connection: ServerConnection, output: Output, session: str, pending: list[dict[str, Any]]) -> None:
    if output.json:
        for one in pending:
            output.tell(one)
        return
    if not pending:
        output.note(f"{session} waits for no decision.")
    for one in pending:
        output.show(f"{one['id']}  {one_line(one['question'], 300)}  ({', '.join(one['options'])})")
        output.note(f"To decide: {connection.command('approve', session, one['id'], '--reason', '…')}")


def _chosen(session: str, pending: list[dict[str, Any]], request: str | None) -> dict[str, Any]:
    if request is not None:
        for one in pending:
            if one["id"] == request:
                return one
        raise MissingError(f"{session} waits for no decision on {request}.")
    if not pending:
        raise SessionConflictError(f"{session} waits for no decision.", "nothing_pending")
    if len(pending) > 1:
        ids = "".join(f"\n  {one['id']}  {one_line(one['question'], 80)}" for one in pending)
        raise WrongInputError(f"{session} waits for several decisions; name the request:{ids}")
    return pending[0]
