"""Output to a terminal, to a file, or to a program."""

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

import click
from rich.console import Console, JustifyMethod, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from durable_sessions.rendering.events import encode
from durable_sessions.rendering.text import clean, width

T = TypeVar("T")

GIVEN_WAY_COLUMNS_MIN = 8
# Control characters and marks of direction: text of an agent must not move the cursor, nor make a line
# read otherwise than it is. Those below 0x20 need no mention, for JSON never has them as they are.
_NOT_FOR_TERMINALS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


_THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "default"})
"""No background colours, which would suit either light or dark terminals, not both."""


class _OutputConsole(Console):
    def on_broken_pipe(self) -> None:
        """End as every other command does whose reader has gone."""
        # Rich would end the process itself, with a status of its own.
        self.quiet = True
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class Output:
    """The output of a command; ``json`` says that a program reads it."""

    def __init__(self, *, json: bool) -> None:
        self.json = json

    @cached_property
    def console(self) -> Console:
        """The terminal or file behind standard output; colours only on a terminal that supports them."""
        return _OutputConsole(file=sys.stdout, highlight=False, markup=False, emoji=False, theme=_THEME)

    @property
    def is_terminal(self) -> bool:
        """Whether a person sees this."""
        return self.console.is_terminal

    def show(self, what: RenderableType = "") -> None:
        """Print for people; lines are wrapped only on terminals."""
        # In a file or a pipe a line is one record, whatever its length.
        self.console.print(what, soft_wrap=not self.is_terminal)

    def tell(self, value: object) -> None:
        """Print a line of JSON."""
        self.line(encode(value))

    def line(self, line: bytes) -> None:
        """Print a line unchanged; on a terminal, control characters are escaped."""
        if self.is_terminal:
            line = _NOT_FOR_TERMINALS.sub(_escape, line.decode(errors="replace")).encode()
        sys.stdout.buffer.write(line + b"\n")

    def bytes(self, piece: bytes) -> None:
        """Write bytes as they are."""
        sys.stdout.buffer.write(piece)

    def note(self, text: str) -> None:
        """Print a note to standard error."""
        click.echo(clean(text), err=True)

    def table(
        self, heads: Sequence[str], rows: Sequence[Sequence[Text]], right: frozenset[int], gives_way: int
    ) -> None:
        """Print a table: complete to a file; on a terminal one column is shortened if it does not fit."""
        lines = [[*heads], *([cell.plain for cell in row] for row in rows)]
        widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
        if self.is_terminal:
            self._fitted_table(heads, rows, right, widths, gives_way)
            return
        for line in lines:
            cells = (
                _padded(cell, most, right=at in right)
                for at, (cell, most) in enumerate(zip(line, widths, strict=True))
            )
            click.echo("  ".join(cells).rstrip())

    def _fitted_table(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[Text]],
        right: frozenset[int],
        widths: Sequence[int],
        gives_way: int,
    ) -> None:
        shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        taken = sum(widths) - widths[gives_way] + 2 * (len(widths) - 1)
        for at, head in enumerate(heads):
            side: JustifyMethod = "right" if at in right else "left"
            most = max(GIVEN_WAY_COLUMNS_MIN, self.console.width - taken) if at == gives_way else None
            shown.add_column(
                head, justify=side, no_wrap=at > 0, overflow="ellipsis" if at else "fold", max_width=most
            )
        for row in rows:
            shown.add_row(*row)
        self.console.print(shown)

    @contextmanager
    def progress(self, about: str, total: int | None, *, shown: bool = True) -> Iterator["Ticks"]:
        """Show a progress bar on standard error, if that is a terminal."""
        errors = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bar = Progress(
            *columns,
            console=errors,
            transient=True,
            # What a command prints meanwhile goes to standard output as it is, also if that is a pipe.
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not (shown and errors.is_terminal),
        )
        with bar:
            yield Ticks(bar, about, total)


class Ticks:
    """Counts what is done."""

    def __init__(self, bar: Progress, about: str, total: int | None) -> None:
        self._bar = bar
        self._task = bar.add_task(clean(about), total=total)
        self.count = 0

    def of(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items, counting each one."""
        for item in items:
            self.add()
            yield item

    def add(self, count: int = 1) -> None:
        """Count."""
        self.count += count
        self._bar.update(self._task, advance=count)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _padded(cell: str, most: int, *, right: bool) -> str:
    space = " " * (most - width(cell))
    return space + cell if right else cell + space
