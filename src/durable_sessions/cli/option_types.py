"""Kinds of options that client commands take."""

import re
from datetime import UTC, datetime, timedelta

import click

from durable_sessions.times import parse_rfc3339

_AGO = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


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
    """A time to come: RFC 3339, a day, or how far away, such as ``30d``."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the time as the server wants it."""
        far = _AGO.fullmatch(str(value))
        if far is None:
            return Time().convert(value, param, ctx)
        at = datetime.now(UTC) + timedelta(seconds=int(far[1]) * _SECONDS[far[2]])
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Time(click.ParamType[str]):
    """A time: RFC 3339, a day, or how long ago, such as ``2h``."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the time as the server wants it."""
        text = str(value)
        passed = _AGO.fullmatch(text)
        if passed:
            at = datetime.now(UTC) - timedelta(seconds=int(passed[1]) * _SECONDS[passed[2]])
            return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
            text = f"{text}T00:00:00Z"
        if parse_rfc3339(text) is None:
            self.fail(
                f"{value!r} is no time; give one such as 2026-11-15, 2026-11-15T12:00:00Z or 2h.", param, ctx
            )
        return text
