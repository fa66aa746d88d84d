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
    """One of a few words; what is none of them is told the nearest."""

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Return what to give instead."""
        known = f"Give one of {', '.join(self.choices)}."
        return " ".join(filter(None, (f"{value!r} is not known.", nearest(str(value), self.choices), known)))

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        """Return what to give."""
        return f"Give one of {', '.join(self.choices)}."


class WholeNumber(click.IntRange):
    """A whole number from some lowest one on."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        try:
            return super().convert(cast("int", value), None, None)
        except click.BadParameter:
            self.fail(f"{value!r} does not do; give a whole number from {self.min or 0}.", param, ctx)


class Number(click.FloatRange):
    """A number above or from some lowest one on."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        try:
            number = super().convert(cast("float", value), None, None)
        except click.BadParameter:
            number = math.nan
        if not math.isfinite(number):
            lowest = f"{'above' if self.min_open else 'from'} {self.min or 0:g}"
            self.fail(f"{value!r} does not do; give a number {lowest}, such as 2.5.", param, ctx)
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
                f"{text!r} is no place in a session; give an offset as it was printed, such as "
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
        if far is None:
            return Time().convert(value, param, ctx)
        at = datetime.now(UTC) + timedelta(seconds=int(far[1]) * _SECONDS[far[2]])
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Time(click.ParamType[str]):
    """A time in the past: RFC 3339, a day, or an age such as ``2h``."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the time in the format of the API."""
        text = str(value)
        passed = _AGO.fullmatch(text)
        if passed:
            at = datetime.now(UTC) - timedelta(seconds=int(passed[1]) * _SECONDS[passed[2]])
            return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        at_ms = parse_time(text)
        if at_ms is None:
            self.fail(
                f"{value!r} is no time; give one such as 2026-11-15, 2026-11-15T12:00:00Z or 2h.", param, ctx
            )
        return rfc3339(at_ms) if len(text) == len("2026-11-15") else text
