"""Checks that a file of lines has the expected format, before anything is sent."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from durable_sessions.importers.lines import LineReader
from durable_sessions.importers.sources import SourceError, open_maybe_compressed

RECORDS_EXAMINED_MAX = 200
EXPECTED_RECORDS_IN_TEN_MIN = 1
"""Formats evolve and lines get damaged: a file is refused only if almost no line is as expected."""

_HEAD_BYTES = 4096

IsExpected = Callable[[dict[str, Any]], bool]


def is_typed(record: dict[str, Any]) -> bool:
    """Say whether a record names its type, as those of most formats do."""
    return isinstance(record.get("type"), str)


def check(path: Path, what: str, is_expected: IsExpected) -> None:
    """Raise SourceError if almost no record at the beginning of a file is as expected.

    A file without a complete line is accepted if its first line may become an object.
    """
    examined: list[object] = []
    with open_maybe_compressed(path) as file:
        for record in LineReader().read(file, ending=True):
            examined.append(record.value)
            if len(examined) >= RECORDS_EXAMINED_MAX:
                break
    if not examined:
        if _head(path)[:1] not in (b"", b"{"):
            raise SourceError(f"{path} is not JSON lines.")
        return
    objects = [one for one in examined if isinstance(one, dict)]
    if _are_few(len(objects), len(examined)):
        raise SourceError(f"{path} is not JSON lines.")
    if _are_few(sum(map(is_expected, objects)), len(examined)):
        raise SourceError(f"{path} holds no {what}.")


def _are_few(number: int, of: int) -> bool:
    return number * 10 < EXPECTED_RECORDS_IN_TEN_MIN * of


def _head(path: Path) -> bytes:
    with open_maybe_compressed(path) as file:
        return file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").strip(b"\0 \t\r\n")
