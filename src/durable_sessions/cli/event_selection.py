"""The options that select events of a session, and the API parameters for them."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import click

from durable_sessions.cli.empty_result import require_order
from durable_sessions.cli.option_types import Offset, OneOf, Time, WholeNumber
from durable_sessions.client import offsets
from durable_sessions.client.pages import given, time_parameters, type_parameters

Command = Callable[..., None]


@dataclass(frozen=True, slots=True)
class EventSelection:
    """The parameters that select events."""

    parameters: tuple[tuple[str, str], ...]
    limit: int | None
    types: tuple[str, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    """The options that name a position, each with it."""
    tail: int | None = None
    """How many events before the end to begin at."""
    is_reversed: bool = False
    """Whether the events come in the other order than they are wanted in."""


def with_selection(command: Command) -> Command:
    """Add the options of the API's reads to a command, and pass it the EventSelection."""

    @functools.wraps(command)
    def wrapped(
        *arguments: object,
        from_: int | None,
        offset: str | None,
        tail: int | None,
        around: str | None,
        window: int | None,
        types: tuple[str, ...],
        after: str | None,
        before: str | None,
        order: str,
        pairs: bool,
        limit: int | None,
        **options: object,
    ) -> None:
        places = {"--from": from_, "--offset": offset, "--tail": tail, "--around": around}
        given_places = [name for name, value in places.items() if value is not None]
        if len(given_places) > 1:
            raise click.UsageError(f"Give one of {' and '.join(given_places)}, not both.")
        if window is not None and around is None:
            raise click.UsageError("--window goes with --around.")
        require_order(after, before)
        is_filtered = bool(types) or after is not None or before is not None
        counts_back = tail is not None and is_filtered and not pairs  # only what matches is counted
        is_reversed = counts_back and order == "asc"
        if counts_back:
            order, limit, tail = "desc", tail if limit is None else min(limit, tail or 0), None
        parameters = given(
            ("from", from_),
            ("offset", offset),
            ("around", around),
            ("window", window),
            ("order", None if order == "asc" else order),
            ("pairs", "keep" if pairs else None),
        )
        parameters += type_parameters(types) + time_parameters(after, before)
        if tail is not None and not pairs:
            limit = tail if limit is None else min(limit, tail)
        at = {"--from": from_}
        if around is not None and around.isascii() and around.isdigit():
            at["--around"] = int(around)
        if offset is not None:
            at["--offset"] = offsets.position(offset)
        selection = EventSelection(
            tuple(parameters),
            limit,
            types,
            tuple((name, position) for name, position in at.items() if position is not None),
            tail,
            is_reversed,
        )
        command(*arguments, selection=selection, **options)

    answered: Command = wrapped
    for option in reversed(_OPTIONS):
        answered = option(answered)
    return answered


_OPTIONS = (
    click.option("--from", "from_", type=WholeNumber(min=0), help="Position of the first, counted from 0."),
    click.option("--offset", type=Offset(), help="A saved offset to begin at, instead of a position."),
    click.option("--tail", "--last", type=WholeNumber(min=0), help="Only this many of the last that match."),
    click.option(
        "--around",
        metavar="POSITION|EVENT_ID",
        help="Those on both sides of a position, or of an event.",
    ),
    click.option("--window", type=WholeNumber(min=0), help="How many on each side.  [10]"),
    click.option(
        "--type", "types", multiple=True, help="Only this type, or a family like agent.*; repeatable."
    ),
    click.option(
        "--after", type=Time(), help="Only what happened after this time, such as 2026-11-15 or 2h."
    ),
    click.option("--before", type=Time(), help="Only what happened before this time."),
    click.option(
        "--order", type=OneOf(["asc", "desc"]), default="asc", show_default=True, help="Which first."
    ),
    click.option("--pairs", is_flag=True, help="Keep tool calls and their results together."),
    click.option("--limit", type=WholeNumber(min=1), help="At most this many."),
)
