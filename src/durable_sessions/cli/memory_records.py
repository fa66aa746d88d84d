"""The commands of ``durable-sessions memory`` that a session records: recall, remember, roll-back."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import MissingError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.member import member
from durable_sessions.cli.memory_output import entries_table, nothing
from durable_sessions.cli.missing_evidence import without_evidence
from durable_sessions.cli.option_types import Number, OneOf, Pair, WholeNumber
from durable_sessions.cli.terminal import Output
from durable_sessions.cli.work_output import appended
from durable_sessions.client import memory_calls
from durable_sessions.client.errors import BadRequestError

_RECALLED_MAX = 100
_INFLUENCES = ("planning", "validation", "none", "unknown")
_REASONS = ("tool_result", "human_correction", "failed_attempt", "validation", "reflection", "state")
_KINDS = ("note", "failure_pattern", "procedure", "preference")


@click.command()
@click.argument("session", type=SESSION)
@click.argument("scope")
@click.option("--key", help="Only the entry of this key.")
@click.option("-q", "--query", "q", metavar="WORDS", help="Only entries with these words, the best first.")
@click.option(
    "--influence", type=OneOf(_INFLUENCES), default="unknown", show_default=True, help="What it is for."
)
@click.option("--workflow", help="The workflow that asks.")
@click.option(
    "--limit", type=WholeNumber(1, _RECALLED_MAX), default=10, show_default=True, help="How many entries."
)
@with_connection
def recall(
    connection: ServerConnection,
    output: Output,
    session: str,
    scope: str,
    key: str | None,
    q: str | None,
    influence: str,
    workflow: str | None,
    limit: int,
) -> None:
    """Show what SCOPE remembers, and let SESSION record what it was told, and for what.

    \b
    ds memory recall issue-7 project:calc -q "off by one" --influence planning

    Nothing found is recorded as well.
    """
    target = connection.as_worker(connection.find(session).id)
    with connection.writing(target.id):
        told = target.recall(q, scope=scope, key=key, limit=limit, influence=influence, workflow=workflow)
    if output.json:
        output.tell({"event": dict(told.event), "data": told.entries})
        return
    entries_table(output, told.entries, nothing(connection, scope))
    output.note(f"{target.id}: recorded as {told.event.id}")


@click.command()
@click.argument("session", type=SESSION)
@click.argument("scope")
@click.argument("entry", type=Pair(), metavar="KEY=VALUE")
@click.option("--why", type=OneOf(_REASONS), required=True, help="What it was learned from.")
@click.option(
    "--because",
    multiple=True,
    required=True,
    metavar="EVENT",
    help="Evidence: an event, or sha256:DIGEST; repeatable.",
)
@click.option("--kind", type=OneOf(_KINDS), help="What it is; a note if not given.")
@click.option("--confidence", type=Number(min=0, max=1), help="How sure it is, from 0 to 1.")
@click.option("--id", "event_id", metavar="ID", help="The id of the event; writing it again changes nothing.")
@with_connection
def remember(
    connection: ServerConnection,
    output: Output,
    session: str,
    scope: str,
    entry: tuple[str, str],
    why: str,
    because: tuple[str, ...],
    kind: str | None,
    confidence: float | None,
    event_id: str | None,
) -> None:
    """Let SESSION leave KEY=VALUE (or KEY:=JSON) in SCOPE for later sessions.

    \b
    ds memory remember issue-7 project:calc sum="off by one" --why failed_attempt --because call-7
    """
    target = connection.as_worker(connection.find(session).id)
    given = {"kind": kind, "confidence": confidence, "id": event_id}
    event = memory_calls.written(*member(*entry), scope, why, because, {})
    event |= {name: value for name, value in given.items() if value is not None}
    try:
        with connection.writing(target.id):
            done = target.append(event)
    except BadRequestError as error:
        raise without_evidence(connection, target.id, event, error) from error
    appended(output, target, done, f"{event['key']} remembered in {scope}")


@click.command("roll-back")
@click.argument("session", type=SESSION)
@click.argument("write")
@click.option("--reason", required=True, help="Why; it is kept in the history of the scope.")
@click.option("--of", metavar="SESSION", help="The session of the write, if SESSION only records it.")
@with_connection
def roll_back(
    connection: ServerConnection, output: Output, session: str, write: str, reason: str, of: str | None
) -> None:
    """Take the write WRITE (the id of its event) back; SESSION records it.

    It stays in the history, and in what was so before.
    """
    handle = connection.client.session(connection.find(session).id)
    try:
        with connection.writing(handle.id):
            done = connection.client.memory.roll_back(write, session=handle, reason=reason, of=of)
    except BadRequestError as error:
        if error.code != "unresolved_reference":
            raise
        raise MissingError(
            f"{of or handle.id} wrote nothing to memory with the event {write}. "
            "The history of a scope has the ids: ds memory log SCOPE --json",
            error.code,
        ) from error
    if output.json:
        output.tell({"session": handle.id, "write": write, "next_offset": done.next_offset})
    else:
        output.note(f"{write}: rolled back{' already' if done.repeated else ''}")
