"""``durable-sessions outline``: a session in numbers, without reading it."""

import click
from rich.text import Text

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.terminal import Output
from durable_sessions.client.outline import Outline
from durable_sessions.rendering.text import one_line, size

_HEADS = ("FROM", "EVENTS", "USER", "AGENT", "TOOLS", "FAILED", "CONTEXT", "SIZE", "BEGAN")
_RIGHT = frozenset(range(8))
_USER, _AGENT, _TOOL = 0, 1, 3
_MOMENT = slice(0, 19)


@click.command()
@click.argument("session", type=SESSION)
@with_connection
def outline(connection: ServerConnection, output: Output, session: str) -> None:
    """Show SESSION in blocks of events: who said how much, what failed, how large it is.

    The server makes an outline when it is first asked for, and keeps it.
    """
    handle = connection.client.session(connection.find(session).id)
    found = handle.outline(points=0)
    while not found.complete:  # each request makes some more blocks
        found = handle.outline(points=0)
    if output.json:
        output.tell(found.raw)
        return
    if not found.events:
        output.note("No events yet.")
        return
    output.table(_HEADS, _rows(found), _RIGHT, gives_way=8)
    tools = ", ".join(one_line(name, 40) for name in found.names[:20])
    if tools:
        output.show(Text(f"tools: {tools}", style="dim"))


def _rows(found: Outline) -> list[tuple[Text, ...]]:
    rows = []
    for number, block in enumerate(found.blocks):
        if block is None:
            continue
        first = number * found.block
        counts = (
            first,
            min(found.block, found.events - first),
            block["roles"][_USER],
            block["roles"][_AGENT],
            block["roles"][_TOOL],
            block["failed"],
            block["context"],
        )
        rows.append(
            (
                *(Text(f"{count:,}") for count in counts),
                Text(size(block["bytes"])),
                Text(str(block["first_at"])[_MOMENT].replace("T", " "), style="dim"),
            )
        )
    return rows
