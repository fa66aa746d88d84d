"""Query parameters of the sessions API."""

import re
from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import unquote_to_bytes

from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.common import AFTER, BEFORE, CREATED_AT
from durable_sessions.http.openapi.parts import Parameter
from durable_sessions.sessions.selection import Selection
from durable_sessions.times import parse_time

T = TypeVar("T")

_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)
_NAME_MAX = 200


class Parameters:
    """The parameters of one request by name; unknown ones are ignored here."""

    def __init__(self, request: Request) -> None:
        self._is_tolerant = is_strict(request)  # Anthropic's dialect takes what it cannot use for nothing
        self._found: dict[str, list[str]] = {}
        for pair in request.query.split(b"&") if request.query else ():
            name, _, value = pair.partition(b"=")
            self._found.setdefault(_text(name), []).append(_text(value))

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def text(self, name: str) -> str | None:
        """Return a parameter that is given once or not at all."""
        values = self._found.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise InvalidRequestError(problem=f"The parameter {name} is given twice; send it once.")
        return values[0]

    def texts(self, name: str) -> list[str]:
        """Return a parameter that may be repeated, as ``name``, as ``name[]`` or as a list with commas."""
        values = [*self._found.get(name, ()), *self._found.get(name + "[]", ())]
        parts = [part for value in values for part in value.split(",") if part]
        if values and not parts and not self._is_tolerant:
            # Everything would be returned where a variable that is empty by mistake meant to choose.
            raise InvalidRequestError(
                problem=f"The parameter {name} is empty; give it a value or leave it out."
            )
        return parts

    def values(self, name: str) -> list[str]:
        """Return a parameter that may be repeated, as ``name`` or ``name[]``, each value as it is."""
        return [*self._found.get(name, ()), *self._found.get(name + "[]", ())]

    def choices(self, name: str, choices: tuple[str, ...], *, tolerant: bool) -> list[str]:
        """Return a parameter that may be repeated, each time one of some words; or any, if ``tolerant``."""
        values = self.texts(name)
        for value in values:
            if value not in choices and not tolerant:
                known = f"{', '.join(choices[:-1])} or {choices[-1]}"
                raise InvalidRequestError(problem=f"{name}={value[:40]} is not known; send {known}.")
        return values

    def names(self) -> Iterable[str]:
        """Return the names of all parameters that are given."""
        return self._found.keys()

    def nested(self, name: str) -> dict[str, str]:
        """Return the parameters ``name[key]=value`` by key."""
        found = {}
        for full, values in self._found.items():
            if full.startswith(name + "[") and full.endswith("]") and len(full) > len(name) + 2:
                found[full[len(name) + 1 : -1]] = values[-1]
        return found

    def number(self, name: str, default: T, maximum: int, minimum: int = 0) -> int | T:
        """Return a whole number, or the default if it is not given."""
        value = self.text(name)
        if value is None:
            return default
        # The pattern bounds the length, because int() takes quadratic time and accepts signs and underscores.
        if not _NUMBER.fullmatch(value) or not minimum <= int(value) <= maximum:
            raise InvalidRequestError(
                problem=f"{name}={value[:40]} is not a whole number from {minimum} to {maximum}."
            )
        return int(value)

    def whole(self, declared: Parameter) -> int:
        """Return a whole number within the bounds that it is described with, or its default."""
        if declared.name not in self._found:
            return int(declared.default)
        return self.number(declared.name, 0, *_bounds(declared))

    def whole_if_given(self, declared: Parameter) -> int | None:
        """Return a whole number within the bounds that it is described with, None if it is not given."""
        return self.number(declared.name, None, *_bounds(declared))

    def word(self, declared: Parameter) -> str:
        """Return one of the words that a parameter is described with, or its default."""
        if declared.name not in self._found:
            return str(declared.default)
        return self.choice(declared.name, str(declared.default), tuple(declared.schema["enum"]))

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        """Return one of some words, or the default if it is not given."""
        value = self.text(name)
        if value is None:
            return default
        if value not in choices:
            raise InvalidRequestError(
                problem=f"{name}={value[:40]} is not known; send {' or '.join(choices)}."
            )
        return value

    def flag(self, declared: Parameter) -> bool:
        """Say whether a parameter is true."""
        return self.choice(declared.name, "false", ("true", "false", "1", "0")) in ("true", "1")

    def time_ms(self, declared: Parameter) -> int | None:
        """Return a time in milliseconds, None if it is not given."""
        value = self.text(declared.name)
        if value is None:
            return None
        at_ms = parse_time(value)
        if at_ms is None:
            raise InvalidRequestError(
                problem=f"{declared.name}={value[:40]} is not an RFC 3339 time such as 2030-01-31T12:00:00Z "
                "or a day such as 2030-01-31; write a + in the query as %2B."
            )
        return at_ms

    def happened(self) -> tuple[int | None, int | None]:
        """Return the bounds of when things happened; a range in which there is no time is refused."""
        after, before = self.time_ms(AFTER), self.time_ms(BEFORE)
        if after is not None and before is not None and after >= before:
            raise InvalidRequestError(
                problem=f"No time is after {self.text('after')} and before {self.text('before')}; "
                "send an after that is earlier than before."
            )
        return after, before

    def selection(self) -> Selection:
        """Return the selection of events: by type, by time of storage, and by time of occurrence."""
        happened_after_ms, happened_before_ms = self.happened()
        return Selection(
            types=(*self.texts("type"), *self.texts("types")),
            after_ms=self.time_ms(CREATED_AT["gt"]),
            from_ms=self.time_ms(CREATED_AT["gte"]),
            before_ms=self.time_ms(CREATED_AT["lt"]),
            through_ms=self.time_ms(CREATED_AT["lte"]),
            happened_after_ms=happened_after_ms,
            happened_before_ms=happened_before_ms,
        )


def _text(value: bytes) -> str:
    if b"%" in value or b"+" in value:
        value = unquote_to_bytes(value.replace(b"+", b" "))
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidRequestError(problem="The query is not UTF-8 when its escapes are decoded.") from None


def _bounds(declared: Parameter) -> tuple[int, int]:
    """Return the most and the least that a number may be."""
    return declared.schema["maximum"], declared.schema["minimum"]
