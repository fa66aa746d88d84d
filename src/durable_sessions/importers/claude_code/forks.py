"""Forks: sessions that begin with a copy of another one, with the same uuids, then continue on their own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from durable_sessions.importers.claude_code.tree import digest_of
from durable_sessions.importers.events import members, text
from durable_sessions.importers.lines import LineReader
from durable_sessions.importers.sources import Parser


@dataclass(frozen=True, slots=True)
class _Chain:
    """The records of a file with their times, in order; identified by uuid and content."""

    times: dict[tuple[str, bytes], str]

    def first_apart(self, other: "_Chain") -> str:
        """Return the time of the first record that the other does not have; empty if there is none."""
        return next((at for record, at in self.times.items() if record not in other.times), "")

    def shared(self, other: "_Chain") -> list[str]:
        """Return the uuids of the leading records that the other has, too."""
        found = []
        for record in self.times:
            if record not in other.times:
                break
            found.append(record[0])
        return found


def find(files: Mapping[str, Path], heads: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return for each fork its source session, and the last record that they share.

    ``heads`` has the first uuid of each file; only files with the same one are read.
    """
    groups: dict[str, list[str]] = {}
    for name in files:
        if heads.get(name):
            groups.setdefault(heads[name], []).append(name)
    found: dict[str, tuple[str, str]] = {}
    for names in groups.values():
        if len(names) > 1:
            found |= _in_group({name: _read(files[name]) for name in names})
    return found


def _in_group(chains: dict[str, _Chain]) -> dict[str, tuple[str, str]]:
    # Of two files with a common beginning, the source is the one that went its own way first; equal times are
    # decided by name, so that two files are never each other's source. "~" is later than every time: a file
    # that has nothing of its own is a copy.
    found = {}
    for name, chain in chains.items():
        sources = [
            (chain.shared(other), source)
            for source, other in chains.items()
            if source != name and (other.first_apart(chain), source) < (chain.first_apart(other) or "~", name)
        ]
        if sources:
            shared, source = max(sources, key=lambda pair: len(pair[0]))
            if shared:
                found[name] = (source, shared[-1])
    return found


def _read(path: Path) -> _Chain:
    times: dict[tuple[str, bytes], str] = {}
    with path.open("rb") as file:
        for record in LineReader().read(file, ending=True):
            value = members(record.value)
            if uuid := text(value.get("uuid")):
                times.setdefault((uuid, digest_of(value)), text(value.get("timestamp")))
    return _Chain(times)


def last_event(path: Path, parser: Callable[[], Parser], uuid: str) -> str | None:
    """Return the id of the last event made up to and including a record."""
    made, last = parser(), None
    with path.open("rb") as file:
        for record in LineReader().read(file, ending=True):
            for event in made.feed(record):
                last = event["id"]
            if members(record.value).get("uuid") == uuid:
                return last
    return None
