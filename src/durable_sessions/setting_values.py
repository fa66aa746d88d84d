"""Checks of the values of settings: each returns the value in its type, or says what to write instead.

Values come as text from the environment and the command line, and in types of their own from a TOML file.
"""

import math
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

Check = Callable[[object], Any]
"""Raises TypeError or ValueError with what to write instead."""

WORKSPACE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
"""Names that are safe in object paths of every store, also where case is ignored; none is empty."""
_BYTES = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?")
_UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def suggestion(name: str, known: list[str]) -> str:
    """Return the question whether the nearest known name was meant."""
    close = get_close_matches(name, known, n=1, cutoff=0.0)
    return f" Did you mean {close[0]!r}?"


def text(value: object) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise TypeError("write text")
    return value


def secret(value: object) -> str:
    """Return a secret, which must survive in a header."""
    found = text(value)
    if not all("!" <= character <= "~" for character in found):
        raise ValueError("write printable ASCII without spaces")
    return found


def nats_url(value: object) -> str:
    """Return the address of a NATS server."""
    found = text(value).strip()
    if not re.fullmatch(r"(nats|tls)://[^/\s]+", found):
        raise ValueError("write addresses such as nats://10.0.0.1:4222")
    return found


def host_and_port(value: object) -> str:
    """Return an address that others connect to."""
    found = text(value)
    if not re.fullmatch(r".+:\d{1,5}", found, re.ASCII):
        raise ValueError("write host:port, such as 10.0.0.1:4440")
    return found


def workspace(value: object) -> str:
    """Return the name of a workspace."""
    name = text(value)
    if not WORKSPACE_NAME.fullmatch(name):
        raise ValueError(
            "write 1 to 63 of a-z, 0-9, dot, hyphen and underscore, beginning with a letter or digit"
        )
    return name


def number_between(lowest: float, highest: float, unit: str) -> Check:
    """Return a check for numbers in a range."""

    def check(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise TypeError("write a number")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not lowest <= number <= highest:
            raise ValueError(f"write a number from {lowest:g} to {highest:g}{unit}")
        return number

    return check


def whole_number_between(lowest: int, highest: int) -> Check:
    """Return a check for whole numbers in a range."""

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise TypeError("write a whole number")
        try:
            number = int(value)
        except ValueError:
            number = lowest - 1
        if not lowest <= number <= highest:
            raise ValueError(f"write a whole number from {lowest} to {highest}")
        return number

    return check


def byte_count(value: object) -> int:
    """Return a number of bytes, written with or without a unit."""
    match = _BYTES.fullmatch(str(value).strip())
    if match is None or isinstance(value, bool):
        raise ValueError("write a size such as 256MiB")
    return int(match[1]) * _UNITS[match[2] or ""]


def one_of(*choices: str) -> Check:
    """Return a check for one of several words."""

    def check(value: object) -> str:
        if value not in choices:
            near = get_close_matches(str(value), choices, n=1, cutoff=0.5)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"write one of {', '.join(choices)}{meant}")
        return str(value)

    return check


def public_url(value: object) -> str:
    """Return a URL without a slash at its end."""
    url = text(value).rstrip("/")
    if url and not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", url):
        raise ValueError("write a URL such as https://sessions.example.com")
    return url


def flag(value: object) -> bool:
    """Return true or false."""
    found = value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
    if found is None:
        raise ValueError("write true or false")
    return found


def list_of(check: Callable[[str], str]) -> Check:
    """Return a check for a list, or for text with commas, each of whose items passes a check."""

    def check_all(value: object) -> tuple[str, ...]:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise TypeError("write a list of texts")
        return tuple(check(text(item).strip()) for item in items if item != "")

    return check_all


def host_name(value: str) -> str:
    """Return a host without a port, in lower case."""
    if not re.fullmatch(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+", value):
        raise ValueError("write names or addresses without a port, such as sessions.test")
    return value.lower()


def origin(value: str) -> str:
    """Return an origin as browsers send it: in lower case, without the port that its scheme implies."""
    found = re.fullmatch(r"([a-z][a-z0-9+.-]*)://([^\s/?#@*,]+?)(:[0-9]+)?/?", value.lower())
    if found is None:
        raise ValueError("write origins such as https://chat.example or http://localhost:3000")
    scheme, host, port = found[1], found[2], found[3] or ""
    return f"{scheme}://{host}" + ("" if (scheme, port) in (("http", ":80"), ("https", ":443")) else port)
