"""Types of options of client commands."""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import cast

import click

from durable_sessions.cli.spelling import nearest
from durable_sessions.client import offsets
from durable_sessions.times import parse_time, rfc3339

_AGO = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_OFFSET = re.compile(r"[0-9]{16}_[0-9]{16}", re.ASCII)
_POSITION = re.compile(r"[0-9]{1,15}", re.ASCII)


class OneOf(click.Choice[str]):
    """One of a few words; if another one is given, the nearest of them is suggested."""

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Return what to give instead."""
        known = f"Give one of {', '.join(self.choices)}."
        return " ".join(filter(None, (f"{value!r} is not known.", nearest(str(value), self.choices), known)))

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        """Return what to give."""
        return f"Give one of {', '.join(self.choices)}."


class WholeNumber(click.IntRange):
    """A whole number from some lowest one on, perhaps up to some highest."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        try:
            return super().convert(cast("int", value), None, None)
        except click.BadParameter:
            most = "" if self.max is None else f" to {self.max}"
            lowest = f"from {self.min or 0}{most}"
            self.fail(f"{value!r} is not accepted; give a whole number {lowest}.", param, ctx)


class Number(click.FloatRange):
    """A number above or from some lowest one on, perhaps up to some highest."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        try:
            number = super().convert(cast("float", value), None, None)
        except click.BadParameter:
            number = math.nan
        if not math.isfinite(number):
            lowest = f"{'above' if self.min_open else 'from'} {self.min or 0:g}"
            bounds = f"{lowest}, such as 2.5" if self.max is None else f"{lowest} to {self.max:g}"
            self.fail(f"{value!r} is not accepted; give a number {bounds}.", param, ctx)
        return number


class Offset(click.ParamType[str]):
    """A place in a session: an offset as it was printed, or how many events are before it."""

    name = "OFFSET|POSITION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the offset."""
        text = str(value)
        if _POSITION.fullmatch(text):
            return offsets.of(int(text))
        if not _OFFSET.fullmatch(text):
            self.fail(
                f"{text!r} is not a place in a session; give an offset as it was printed, such as "
                f"{offsets.of(5)}, or a position, such as 5.",
                param,
                ctx,
            )
        return text


class Pair(click.ParamType[tuple[str, str]]):
    """A name and a value, ``name=value``."""

    name = "NAME=VALUE"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return both."""
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is not of the form name=value.", param, ctx)
        return name, text


class Future(click.ParamType[str]):
    """A time in the future: RFC 3339, a day, or a distance such as ``30d``."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the time in the format of the API."""
        far = _AGO.fullmatch(str(value))
        if far is None and parse_time(str(value)) is None:
            _require_zone(self, value, param, ctx)
            day = (datetime.now(UTC) + timedelta(days=365)).date()
            self.fail(f"{value!r} is not a time; give one such as 30d, {day} or {day}T12:00:00Z.", param, ctx)
        if far is None:
            return Time().convert(value, param, ctx)
        return _shifted(far, 1) or self.fail(f"{value!r} is too far away; give a shorter time.", param, ctx)


class Time(click.ParamType[str]):
    """A time in the past: RFC 3339, a day, or an age such as ``2h``."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the time in the format of the API."""
        text = str(value)
        passed = _AGO.fullmatch(text)
        if passed:
            return _shifted(passed, -1) or self.fail(f"{value!r} is too long ago.", param, ctx)
        at_ms = parse_time(text)
        if at_ms is None:
            _require_zone(self, value, param, ctx)
            self.fail(
                f"{value!r} is not a time; give one such as 2026-11-15, 2026-11-15T12:00:00Z or 2h.",
                param,
                ctx,
            )
        # A full time is sent as it was typed, in its own zone; only a day needs a time of day.
        return rfc3339(at_ms) if len(text) == len("2026-11-15") else text


def _require_zone(
    kind: click.ParamType[str], value: object, param: click.Parameter | None, ctx: click.Context | None
) -> None:
    """Refuse a time that lacks nothing but its zone, and say so."""
    if parse_time(f"{value}Z") is not None:
        kind.fail(f"{value!r} has no time zone; add Z or an offset, such as {value}Z.", param, ctx)


def _shifted(distance: re.Match[str], sign: int) -> str | None:
    """Return a time so far from now, None if no calendar has it."""
    try:
        at = datetime.now(UTC) + sign * timedelta(seconds=int(distance[1]) * _SECONDS[distance[2]])
    except OverflowError:
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
