"""Tells which tool wrote a file, so that no tool's importer takes the file of another one.

Formats evolve and have no names of their own, so this is asked only to refuse: a file is refused as another
tool's if it looks like that and hardly any of its records look like those of the tool that was named.
"""

import re
import shlex
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from durable_sessions import export_header
from durable_sessions.importers.lines import LineReader, parse_document
from durable_sessions.importers.sources import SourceError, open_maybe_compressed

RECORDS_EXAMINED_MAX = 200
OWN_RECORDS_IN_TEN_MIN = 1
OTHERS_RECORDS_IN_TEN_MIN = 5
DOCUMENT_BYTES_MAX = 32 * 1024 * 1024
"""A larger JSON document is not examined: it would be decoded twice."""

_HEAD_BYTES = 4096
_PADDING = b"\xef\xbb\xbf\0 \t\r\n"
_OFFSET = re.compile(r"\d{16}_\d{16}")
_AIDER = re.compile(rb"^# aider chat started at \d{4}-", re.MULTILINE)
_CODEX_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_OF_TOOLS = frozenset(
    ("history", "id", "message", "messages", "parentId", "payload", "role", "sessionId", "timestamp", "uuid")
)
"""Members of which each tool's records have some; events written by hand usually have none."""
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")

Record = dict[str, Any]


class SourceFormat(NamedTuple):
    """A format: what a file of it is, and the tools that write it; the first one is suggested."""

    what: str
    tools: tuple[str, ...]


CLAUDE_CODE = SourceFormat("a session of Claude Code", ("claude-code",))
CODEX = SourceFormat("a rollout of Codex", ("codex",))
OPENCODE = SourceFormat("sessions of OpenCode", ("opencode",))
GEMINI = SourceFormat("a chat of Gemini CLI", ("gemini",))
OPENHANDS = SourceFormat("output of OpenHands", ("openhands",))
PI = SourceFormat("a session of Pi or OpenClaw", ("pi", "openclaw"))
SWE_AGENT = SourceFormat("a trajectory of SWE-agent", ("swe-agent",))
INSPECT = SourceFormat("a log of Inspect AI", ("inspect",))
LANGGRAPH = SourceFormat("checkpoints of LangGraph", ("langgraph",))
OPENAI_AGENTS = SourceFormat("sessions of the OpenAI Agents SDK", ("openai-agents",))
AIDER = SourceFormat("a history of Aider", ("aider",))
CHAT = SourceFormat("chat messages", ("openai-chat",))
OWN_EXPORT = SourceFormat("an export of Durable Sessions", ("jsonl",))
OWN_EVENTS = SourceFormat("events of your own", ("jsonl",))


class ForeignFileError(SourceError):
    """A file looks like one of another tool."""

    def __init__(self, path: Path, found: SourceFormat) -> None:
        super().__init__(f"{path} looks like {found.what}; use: {commands(found, [path])}")
        self.found = found


def refuse_others(path: Path, tool: str) -> None:
    """Raise ForeignFileError if a file looks like one of another tool, naming the command for it."""
    if (found := of_another_tool(path, tool)) is not None:
        raise ForeignFileError(path, found)


def commands(found: SourceFormat, paths: Iterable[Path]) -> str:
    """Return the command that imports files or folders of a format."""
    words = shlex.join(map(str, paths))
    return " or ".join(f"ds import {name} {words}" for name in found.tools)


def of_another_tool(path: Path, tool: str) -> SourceFormat | None:
    """Return the format of a file if it is certainly not one of this tool, else None."""
    if not path.is_file():
        return None
    try:
        found = _by_magic(path) or _by_content(path, tool)
    except (OSError, ValueError, sqlite3.Error, zipfile.BadZipFile):
        return None  # its importer says what is wrong with it
    if found is CHAT and tool == "swe-agent" and path.name.endswith((".traj", ".traj.json")):
        return None  # mini-SWE-agent writes nothing but chat messages
    return None if found is None or tool in found.tools else found


def _by_magic(path: Path) -> SourceFormat | None:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(b"SQLite format 3\0"):
        return _database(path)
    if head.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(path) as archive:
            return INSPECT if any(name.startswith("samples/") for name in archive.namelist()) else None
    return AIDER if _AIDER.search(head) and not head.strip(_PADDING).startswith((b"{", b"[")) else None


def _database(path: Path) -> SourceFormat | None:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        tables = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
    for needed, found in (
        ({"session", "message", "part"}, OPENCODE),
        ({"checkpoints", "writes"}, LANGGRAPH),
        ({"agent_sessions", "agent_messages"}, OPENAI_AGENTS),
    ):
        if needed <= tables:
            return found
    return None


def _by_content(path: Path, tool: str) -> SourceFormat | None:
    records = list(_records(path))
    objects = [one for one in records if isinstance(one, dict)]
    if _are_few(len(objects), len(records), OTHERS_RECORDS_IN_TEN_MIN):
        return _document(path)
    found = _of_head(objects[0])
    if found is None and len(records) == 1 and "type" not in objects[0]:
        return _of_document(objects[0])
    if found is not None:
        return found
    counts = {kind: _count(kind, objects) for kind in _RECORDS}
    own = max((number for kind, number in counts.items() if tool in kind.tools), default=0)
    if not _are_few(own, len(records), OWN_RECORDS_IN_TEN_MIN):
        return None
    best = max(counts, key=lambda kind: counts[kind])
    if not _are_few(counts[best], len(records), OTHERS_RECORDS_IN_TEN_MIN):
        return best
    return OWN_EVENTS if all(map(_is_nobodys, objects)) else None


def _count(kind: SourceFormat, records: list[Record]) -> int:
    if kind is CLAUDE_CODE and not any(map(_is_in_a_tree, records)):
        return 0  # other programs have records with a sessionId, too
    return sum(map(_RECORDS[kind], records))


def _are_few(number: int, of: int, in_ten_min: int) -> bool:
    return of == 0 or number * 10 < in_ten_min * of


def _records(path: Path) -> Iterator[object]:
    with open_maybe_compressed(path) as file:
        for number, record in enumerate(LineReader().read(file, ending=True), 1):
            yield record.value
            if number >= RECORDS_EXAMINED_MAX:
                return


def _document(path: Path) -> SourceFormat | None:
    if path.suffix == ".zst" or path.stat().st_size > DOCUMENT_BYTES_MAX:
        return None
    return _of_document(parse_document(path.read_bytes()))


def _of_document(document: object) -> SourceFormat | None:
    """Return the format of a JSON document."""
    if isinstance(document, list):
        return CHAT if document and all(map(_is_chat, document)) else None
    if not isinstance(document, dict):
        return None
    messages = document.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    first = first if isinstance(first, dict) else {}
    if isinstance(document.get("trajectory"), list) or "trajectory_format" in document:
        return SWE_AGENT
    if "projectHash" in document and "sessionId" in document:
        return GEMINI
    if isinstance(document.get("info"), dict) and "info" in first and "parts" in first:
        return OPENCODE
    if isinstance(document.get("eval"), dict) and ("samples" in document or "plan" in document):
        return INSPECT
    if isinstance(document.get("session"), dict) and isinstance(document.get("items"), list):
        return CODEX
    if isinstance(document.get("history"), list):
        return OPENHANDS
    return CHAT if _is_chat(first) and not isinstance(document.get("info"), dict) else None


def _of_head(record: Record) -> SourceFormat | None:
    """Return the format of a file of lines whose first one is of another kind than the rest."""
    kind = record.get("type")
    if kind == export_header.TYPE:
        return OWN_EXPORT
    if kind == "session" and "id" in record and ("cwd" in record or "version" in record):
        return PI
    if "projectHash" in record and "sessionId" in record:
        return GEMINI
    if kind == "session_meta" and isinstance(record.get("payload"), dict):
        return CODEX
    if kind is None and "instructions" in record and "id" in record and "timestamp" in record:
        return CODEX
    return None


def is_exported(record: Record) -> bool:
    """Say whether a record is an event as this product exports it, or what it says of the session."""
    if record.get("type") == export_header.TYPE:
        return True
    kind, offset = record.get("type"), record.get("offset")
    return isinstance(kind, str) and isinstance(offset, str) and _OFFSET.fullmatch(offset) is not None


def _is_own(record: Record) -> bool:
    """Say whether a record is an event of this product, exported or written by hand."""
    kind = record.get("type")
    return is_exported(record) or (isinstance(kind, str) and kind.startswith(("user.", "agent.")))


def _is_nobodys(record: Record) -> bool:
    """Say whether a record has a type, and nothing that any tool writes into its records."""
    return isinstance(record.get("type"), str) and not _OF_TOOLS & record.keys()


def _is_claude_code(record: Record) -> bool:
    kind = record.get("type")
    if not isinstance(kind, str) or _is_own(record):
        return False
    if kind in ("summary", "file-history-snapshot"):
        return "leafUuid" in record or "snapshot" in record
    return _is_in_a_tree(record) or isinstance(record.get("sessionId"), str)


def _is_in_a_tree(record: Record) -> bool:
    return isinstance(record.get("uuid"), str) and ("parentUuid" in record or "message" in record)


def _is_codex(record: Record) -> bool:
    if "record_type" in record:
        return True
    return record.get("type") in _CODEX_TYPES and isinstance(record.get("payload"), dict)


def _is_gemini(record: Record) -> bool:
    return "$set" in record or (record.get("type") == "gemini" and "id" in record)


def _is_pi(record: Record) -> bool:
    return "parentId" in record and "id" in record and isinstance(record.get("type"), str)


def _is_openhands(record: Record) -> bool:
    return isinstance(record.get("history"), list) and "type" not in record


def _is_chat(record: object) -> bool:
    if not isinstance(record, dict) or "type" in record:
        return False
    if isinstance(record.get("messages"), list) and "sessionId" not in record:
        return True
    return record.get("role") in _ROLES and ("content" in record or "tool_calls" in record)


_RECORDS: dict[SourceFormat, Callable[[Record], bool]] = {
    OWN_EXPORT: _is_own,
    CLAUDE_CODE: _is_claude_code,
    CODEX: _is_codex,
    GEMINI: _is_gemini,
    PI: _is_pi,
    OPENHANDS: _is_openhands,
    CHAT: _is_chat,
}
