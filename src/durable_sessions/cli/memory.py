"""``durable-sessions memory``: what sessions left for later ones."""

import click

from durable_sessions.cli.command_errors import MissingError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.groups import CommandGroup
from durable_sessions.cli.memory_output import entries_table, nothing, table
from durable_sessions.cli.memory_records import recall, remember, roll_back
from durable_sessions.cli.option_types import WholeNumber
from durable_sessions.cli.terminal import Output

_COUNT = WholeNumber(1)
_POSITION = WholeNumber(0)


@click.group(cls=CommandGroup)
def memory() -> None:
    """Read what sessions left for later ones, add to it, and take back what proves wrong."""


memory.add_command(recall)
memory.add_command(remember)
memory.add_command(roll_back)


@memory.command()
@click.argument("scope")
@click.option("--key", help="Only the entry of this key.")
@click.option("-q", "--query", "q", metavar="WORDS", help="Only entries with these words, the best first.")
@click.option("--at", type=_POSITION, metavar="POSITION", help="As it was after this many records.")
@click.option("--limit", type=_COUNT, default=100, show_default=True, help="How many entries.")
@with_connection
def get(
    connection: ServerConnection,
    output: Output,
    scope: str,
    key: str | None,
    q: str | None,
    at: int | None,
    limit: int,
) -> None:
    """Show what SCOPE, such as project:calc, remembers: the newest first.

    Reading in this way leaves no trace. A session that acts upon it should recall it: ds memory recall.
    """
    entries = connection.client.memory.get(scope, key=key, q=q, at=at, limit=limit)
    if key is not None and q is None and not entries:
        raise MissingError(nothing(connection, scope, f" has no entry {key}."))
    if output.json:
        for entry in entries:
            output.tell(entry)
        return
    entries_table(output, entries, nothing(connection, scope))


@memory.command()
@click.argument("scope")
@click.option("--from", "start", type=_POSITION, default=0, show_default=True, help="The first position.")
@click.option("--limit", type=_COUNT, default=100, show_default=True, help="How many records.")
@with_connection
def log(connection: ServerConnection, output: Output, scope: str, start: int, limit: int) -> None:
    """Show the history of SCOPE: every write, read and roll-back, in order."""
    records = connection.client.memory.log(scope, start=start, limit=limit)
    if output.json:
        for record in records:
            output.tell(record)
        return
    rows = [
        (
            str(one["position"]),
            one["type"],
            one.get("key") or one.get("write") or "",
            one["session"],
            one["actor"],
        )
        for one in records
    ]
    table(output, ("POSITION", "WHAT", "KEY OR WRITE", "SESSION", "BY"), rows, nothing(connection, scope))


@memory.command()
@with_connection
def scopes(connection: ServerConnection, output: Output) -> None:
    """List the scopes, with the number of their entries and records."""
    found = list(connection.client.memory.scopes())
    if output.json:
        for one in found:
            output.tell(one)
        return
    rows = [(one["scope"], str(one["entries"]), str(one["position"])) for one in found]
    table(output, ("SCOPE", "ENTRIES", "RECORDS"), rows, "No memory yet.")
