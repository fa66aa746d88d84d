"""``durable-sessions slots``: which events hold the slots of a session."""

import click
from rich.text import Text

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.command_errors import MissingError
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_place
from durable_sessions.cli.option_types import Offset, WholeNumber
from durable_sessions.cli.terminal import Output


@click.command()
@click.argument("session", type=SESSION)
@click.argument("slot", nargs=-1)
@with_connection
@click.option("--prefix", help="Slots whose names begin so.")
@click.option("--at", type=Offset(), help="As of this place of the session, instead of now.")
@click.option("--desc", is_flag=True, help="The last names first.")
@click.option("--limit", type=WholeNumber(min=1), help="At most this many.")
def slots(
    connection: ServerConnection,
    output: Output,
    session: str,
    slot: tuple[str, ...],
    prefix: str | None,
    at: str | None,
    desc: bool,
    limit: int | None,
) -> None:
    """Show which events hold slots of SESSION: each SLOT, those with a prefix, or all."""
    info = connection.find(session)
    require_place(connection, info, "--at", at)
    held = connection.client.session(info.id).slots(
        slot, prefix=prefix, at=at, order="desc" if desc else "asc", limit=limit
    )
    if slot and limit is None:
        named = list(held)  # few, since they were named
        held = iter(named)
        found = {one.name for one in named}
        if missing := [name for name in slot if name not in found]:
            raise MissingError(f"No event of {info.id} holds the slot {missing[0]}.")
    if output.json:
        for one in held:
            output.tell({"slot": one.name, "event": one.event.data})
        return
    rows = [
        [Text(one.name), Text(str(one.event.position)), Text(one.event.type), Text(one.event.id)]
        for one in held
    ]
    if rows:
        output.table(("SLOT", "EVENT", "TYPE", "ID"), rows, frozenset({1}), 0)
    else:
        output.note(f"{info.id}: no event holds such a slot")
