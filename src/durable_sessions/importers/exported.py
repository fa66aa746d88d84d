"""Our own export: one event per line as stored. Importing it gives the same events, byte for byte."""

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec

from durable_sessions import lenient
from durable_sessions.importers.documents import files, relative
from durable_sessions.importers.events import SESSION_ID_MAX, About, Event, Maker, Verbatim, text
from durable_sessions.importers.lines import Record
from durable_sessions.importers.sources import LinesPart, Parser, Transcript
from durable_sessions.importers.tally import Tally

TOOL = "jsonl"
_SESSION_ID = re.compile(rf"[A-Za-z0-9_:@-][A-Za-z0-9._:@-]{{0,{SESSION_ID_MAX - 1}}}")
_SET_ANEW = ("offset", "processed_at")
_SET_ONCE = ("created_at", "actor")
_DECODER = lenient.scanner()
_SPACE = re.compile(r"[ \t\r\n]*")


def discover(paths: Iterable[Path]) -> list[Transcript]:
    """Return a session for each file, named like the file."""
    found = []
    for path, root in files(paths, ".jsonl", ".ndjson"):
        stem, name = path.name.removesuffix(path.suffix), relative(path, root)
        session = (
            stem
            if _SESSION_ID.fullmatch(stem)
            else f"import-{blake2b(stem.encode(), digest_size=8).hexdigest()}"
        )
        found.append(Transcript(TOOL, session, [LinesPart(path, name, _parser(stem, name))]))
    return found


def _parser(session: str, name: str) -> Callable[[], Parser]:
    return lambda: ExportedParser(session, name)


def members_of(line: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the members of an object with their bytes, names included, as they are written."""
    written = line.decode()
    at = _skip(written, written.index("{") + 1)
    while written[at] != "}":
        start = at
        name, at = _DECODER.raw_decode(written, at)
        _, at = _DECODER.raw_decode(written, _skip(written, _skip(written, at) + 1))
        yield name, written[start:at].encode()
        at = _skip(written, at)
        at = _skip(written, at + 1) if written[at] == "," else at


def _skip(written: str, at: int) -> int:
    found = _SPACE.match(written, at)
    return found.end() if found else at


class ExportedParser:
    """Takes events as they are, but for what the server sets; when and by whom is kept from the start."""

    def __init__(self, session: str, file: str) -> None:
        self.about = About()
        self.tally = Tally()
        self._make = Maker(TOOL, session, file)

    def feed(self, record: Record) -> list[Event]:
        """Return the event of the next line."""
        self.tally.records += 1
        value = record.value
        if not isinstance(value, dict) or not text(value.get("type")):
            reason = record.damage or "not an event"
            self.tally.kept[reason] += 1
            detail = record.remains()
            return [self._make.make("import.record", record.place, line=record.line, damage=reason, **detail)]
        name = text(value.get("id")) or self._make.id(record.place)
        kept = [b'"id":' + msgspec.json.encode(name)]
        for member, raw in members_of(record.raw):
            if member == "id" or member in _SET_ANEW:
                continue
            if member in _SET_ONCE and f"original_{member}" in value:
                continue
            kept.append(raw)
        return [Verbatim(value | {"id": name}, b"{" + b",".join(kept) + b"}")]

    is_waiting = False

    def finish(self, *, settled: bool) -> list[Event]:
        """Return nothing: no event waits for another."""
        return []
