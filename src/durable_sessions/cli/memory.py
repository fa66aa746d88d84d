"""``durable-sessions memory``: what sessions left for later ones."""

import json
from collections.abc import Sequence
from itertools import islice

import click
from rich.text import Text

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import MissingError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.groups import CommandGroup
from durable_sessions.cli.option_types import WholeNumber
from durable_sessions.cli.spelling import nearest
from durable_sessions.cli.terminal import Output
from durable_sessions.client.errors import BadRequestError
from durable_sessions.rendering.text import clean

_SCOPES_MAX = 1_000
"""Among at most this many scopes the nearest to a misspelt one is looked for."""
_COUNT = WholeNumber(1)
_POSITION = WholeNumber(0)
_NUMBERS = frozenset(("POSITION", "ENTRIES", "RECORDS"))


@click.group(cls=CommandGroup)
def memory() -> None:
    """Read what sessions left for later ones, and take back what proves wrong."""


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

    Reading in this way leaves no trace. A program that acts upon it should recall it in its session.
    """
    entries = connection.client.memory.get(scope, key=key, q=q, at=at, limit=limit)
    if key is not None and q is None and not entries:
        raise MissingError(_nothing(connection, scope, f" has no entry {key}."))
    if output.json:
        for entry in entries:
            output.tell(entry)
        return
    rows = [
        (
            entry["key"],
            json.dumps(entry["value"], ensure_ascii=False),
            entry["kind"],
            entry["id"],
            entry["session"],
        )
        for entry in entries
    ]
    _table(output, ("KEY", "VALUE", "KIND", "WRITTEN BY", "SESSION"), rows, _nothing(connection, scope))


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
    _table(output, ("POSITION", "WHAT", "KEY OR WRITE", "SESSION", "BY"), rows, _nothing(connection, scope))


@memory.command("roll-back")
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
    _table(output, ("SCOPE", "ENTRIES", "RECORDS"), rows, "No memory yet.")


def _nothing(connection: ServerConnection, scope: str, said: str = ": nothing") -> str:
    """Return what to say of a scope in which nothing was found: perhaps another one was meant."""
    known = [one["scope"] for one in islice(connection.client.memory.scopes(), _SCOPES_MAX)]
    if scope in known:
        return f"{scope}{said}"
    return " ".join(filter(None, (f"There is no scope {scope}.", nearest(scope, known))))


def _table(output: Output, heads: Sequence[str], rows: Sequence[Sequence[str]], otherwise: str) -> None:
    """Print rows as a table, or a note if there are none."""
    if not rows:
        output.note(otherwise)
        return
    cells = [[Text(clean(cell)) for cell in row] for row in rows]
    numbers = frozenset(at for at, head in enumerate(heads) if head in _NUMBERS)
    output.table(heads, cells, numbers, 1)
