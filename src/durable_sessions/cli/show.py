"""``durable-sessions show``: a session as a person reads it."""

import os
from collections.abc import Iterable, Iterator

import click
from rich.text import Text

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.entry_printer import EntryPrinter
from durable_sessions.cli.option_types import WholeNumber
from durable_sessions.cli.shown_events import start_of_last
from durable_sessions.cli.terminal import Output
from durable_sessions.client import SessionInfo
from durable_sessions.exporters.summary import ExportSummary, facts


@click.command()
@click.argument("session", type=SESSION)
@with_connection
@click.option(
    "--last", type=WholeNumber(min=1), help="Only this many of the last shown events, with whole calls."
)
@click.option("--full", is_flag=True, help="Leave nothing out: whole inputs and outputs, and bookkeeping.")
@click.option("--pager", is_flag=True, help="Show it in a pager.")
def show(
    connection: ServerConnection, output: Output, session: str, last: int | None, full: bool, pager: bool
) -> None:
    """Show SESSION as a transcript: who said what, tool calls with their results, errors, and the sums."""
    info = connection.find(session)
    parameters: tuple[tuple[str, str], ...] = ()
    if last is not None:
        start = start_of_last(connection, info, last, everything=full or output.json)
        parameters = (("from", str(start)), ("pairs", "keep"))
    lines: Iterable[bytes] = connection.lines(info.id, *parameters)
    if output.json:
        for line in lines:
            output.line(line)
        return
    if pager and output.is_terminal:
        os.environ.setdefault("LESS", "-R")  # pass on colour sequences only
        with output.console.pager(styles=True):
            _show(output, info, lines, full=full)
    else:
        _show(output, info, lines, full=full)


def _show(output: Output, info: SessionInfo, lines: Iterable[bytes], *, full: bool) -> None:
    title, rows = facts(info.raw)
    output.show(Text(title, style="bold"))
    output.show(Text("  ".join(f"{name.lower()}: {value}" for name, value in rows), style="dim"))
    printer, summary = EntryPrinter(output, full=full), ExportSummary()
    for entry in summary.entries(lines):
        printer.paint(entry)
    output.show()
    output.show(Text("  ".join(_sums(summary)), style="dim"))


def _sums(summary: ExportSummary) -> Iterator[str]:
    for name, value in summary.rows():
        yield f"{name.lower()}: {value}"
