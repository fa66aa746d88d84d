"""Our own export format: one stored event per line. Importing it gives the same events, byte for byte."""

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec

from durable_sessions import export_header, lenient
from durable_sessions.importers import line_format
from durable_sessions.importers.documents import files, relative
from durable_sessions.importers.events import (
    SESSION_ID_MAX,
    Event,
    EventMaker,
    SessionMetadata,
    Verbatim,
    text,
)
from durable_sessions.importers.lines import SourceRecord
from durable_sessions.importers.sources import LinesPart, Parser, Transcript
from durable_sessions.importers.tally import Tally
from durable_sessions.times import parse_rfc3339

TOOL = "jsonl"
_SESSION_ID = re.compile(rf"[A-Za-z0-9_:@-][A-Za-z0-9._:@-]{{0,{SESSION_ID_MAX - 1}}}")
_SET_BY_SERVER = ("offset", "processed_at")
_HAVE_ORIGINALS = ("created_at", "actor")
"""Members that an imported event also has as ``original_created_at`` and ``original_actor``; those count."""
_AT_MOST_ONCE = ("type", "created_at", "actor")
"""The server refuses an event that has one of these twice; the last one counts, as for JSON decoders."""
_UPDATED = "session.updated"
_LINE_BYTES_MAX = 4 * 1024 * 1024
_TITLE_CHARACTERS_MAX = 1_000
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
        part = LinesPart(path, name, _parser(stem, name, path), _check)
        found.append(Transcript(TOOL, session, [part], renames=False, source=TOOL))
    return found


def _check(path: Path) -> None:
    line_format.check(path, "events: each line is an object with a type", line_format.is_typed)


def _parser(session: str, name: str, path: Path) -> Callable[[], Parser]:
    return lambda: ExportedParser(session, name, path)


class _Update(msgspec.Struct):
    """The title and metadata in an event about a change of the session."""

    type: str
    title: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, object] | None = None


def about_of(path: Path) -> SessionMetadata:
    """Return the title and metadata that a session had when it was exported, from the export's first line.

    A file without that line, such as an answer of the server, has them in its ``session.updated`` events.
    They are read before the first event is sent, so that the session is created with them.
    """
    about = SessionMetadata()
    with path.open("rb") as file:
        if header := export_header.decode(file.readline(export_header.HEADER_BYTES_MAX)):
            return SessionMetadata(header.title, header.metadata)
        file.seek(0)
        while line := file.readline(_LINE_BYTES_MAX):
            # Looking for the bytes is much cheaper than decoding, and nearly all lines are of other types.
            if _UPDATED.encode() not in line:
                continue
            try:
                said = msgspec.json.decode(line, type=_Update)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
            if said.type != _UPDATED:
                continue
            if said.title is not msgspec.UNSET:
                about.title = said.title[:_TITLE_CHARACTERS_MAX] if said.title else None
            if said.metadata is not None:
                about.metadata = {key: one for key, one in said.metadata.items() if isinstance(one, str)}
    return about


def members_of(line: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the members of an object with their bytes, names included, as they are written."""
    # A decoder alone would lose how numbers are written, and equal names. So it is only asked where each
    # member ends, and the bytes between are taken.
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


def _accepted(member: str, raw: bytes, value: Event) -> bytes:
    """Return a member as the server accepts it: a ``created_at`` that is no time is kept as the original."""
    at = value[member]
    if member != "created_at" or at is None or (isinstance(at, str) and parse_rfc3339(at) is not None):
        return raw
    return b'"original_created_at":' + raw.partition(b":")[2]


class ExportedParser:
    """Keeps events unchanged, except for members that the server sets; time and author are preserved."""

    def __init__(self, session: str, file: str, path: Path) -> None:
        self.about = SessionMetadata()
        self.tally = Tally()
        self._path: Path | None = path
        self._is_of_import = False
        self._make = EventMaker(TOOL, session, file)

    def feed(self, record: SourceRecord) -> list[Event]:
        """Return the event of the next line."""
        if self._path is not None:
            self.about, self._path = about_of(self._path), None
        if record.line == 1 and export_header.decode(record.raw) is not None:
            return []
        self.tally.records += 1
        value = record.value
        if not isinstance(value, dict) or not text(value.get("type")):
            reason = record.damage or "not an event"
            self.tally.kept[reason] += 1
            detail = record.remains()
            return [self._make.make("import.record", record.place, line=record.line, damage=reason, **detail)]
        name = text(value.get("id")) or self._make.id(record.place)
        dropped = self._dropped(value)
        kept = [b'"id":' + msgspec.json.encode(name)]
        written = list(members_of(record.raw))
        # JSON does not say which of two equal names counts; most readers take the last, so that one is kept.
        last = {member: at for at, (member, _) in enumerate(written)}
        for at, (member, raw) in enumerate(written):
            is_counted = member not in _AT_MOST_ONCE or at == last[member]
            if member != "id" and member not in dropped and is_counted:
                kept.append(_accepted(member, raw, value))
        return [Verbatim(value | {"id": name}, b"{" + b",".join(kept) + b"}")]

    def _dropped(self, value: Event) -> set[str]:
        """Return the members that describe only the exported copy.

        The time at which a server stored an imported event is not the time at which it happened.
        """
        dropped = {*_SET_BY_SERVER, *(name for name in _HAVE_ORIGINALS if f"original_{name}" in value)}
        source = value.get("source")
        imported = isinstance(source, dict) and "record_id" in source
        self._is_of_import |= imported or "original_created_at" in value
        # In the export of a session that was imported, an update without a source was written by the server
        # during that import: its time says nothing of when anything happened.
        described_by_server = self._is_of_import and source is None and value["type"] == _UPDATED
        if (imported or described_by_server) and "offset" in value:
            dropped.add("created_at")
        return dropped

    is_waiting = False

    def finish(self, *, settled: bool) -> list[Event]:
        """Return nothing: no event waits for another."""
        return []
