"""How the commands about memory show entries, and what they say of a scope without any."""

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from rich.text import Text

from durable_sessions.cli.connection import ServerConnection
from durable_sessions.cli.spelling import nearest
from durable_sessions.cli.terminal import Output
from durable_sessions.rendering.text import clean

_SCOPES_MAX = 1_000
"""Among at most this many scopes the nearest to a misspelt one is looked for."""
_NUMBERS = frozenset(("POSITION", "ENTRIES", "RECORDS"))


def entries_table(output: Output, entries: Iterable[dict[str, Any]], otherwise: str) -> None:
    """Print live entries as a table, or a note if there are none."""
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
    table(output, ("KEY", "VALUE", "KIND", "WRITTEN BY", "SESSION"), rows, otherwise)


def nothing(connection: ServerConnection, scope: str, said: str = ": nothing") -> str:
    """Return what to say of a scope in which nothing was found: perhaps another one was meant."""
    known = [one["scope"] for one in islice(connection.client.memory.scopes(), _SCOPES_MAX)]
    if scope in known:
        return f"{scope}{said}"
    return " ".join(filter(None, (f"There is no scope {scope}.", nearest(scope, known))))


def table(output: Output, heads: Sequence[str], rows: Sequence[Sequence[str]], otherwise: str) -> None:
    """Print rows as a table, or a note if there are none."""
    if not rows:
        output.note(otherwise)
        return
    cells = [[Text(clean(cell)) for cell in row] for row in rows]
    numbers = frozenset(at for at, head in enumerate(heads) if head in _NUMBERS)
    output.table(heads, cells, numbers, 1)
