"""Makes events from source records: with computed ids, origins and times."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import msgspec

from durable_sessions.times import parse_rfc3339, rfc3339

Event = dict[str, Any]
Plain = Mapping[str, Any]

SESSION_ID_MAX = 200
TITLE_CHARACTERS_MAX = 120
_ENCODINGS_MAX = 2
"""How often arguments may be encoded as JSON within JSON: some programs do it twice."""
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._:@-]+")
_YEAR_9999_MS = 253_402_300_799_000


class Verbatim(dict[str, Any]):
    """An event whose bytes are sent unchanged."""

    def __init__(self, event: Event, body: bytes) -> None:
        super().__init__(event)
        self.body = body


def event_id(tool: str, session: str, record: str, block: str) -> str:
    """Return the id of an event, which is a function of its source."""
    digest = blake2b(digest_size=16)
    for part in (tool, session, record, block):
        data = part.encode(errors="surrogatepass")
        # With its length, or "ab" + "c" and "a" + "bc" would be the same event.
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return "imp_" + digest.hexdigest()


def session_id(tool: str, source_id: str) -> str:
    """Return the session id for a source session; invalid characters are replaced."""
    wanted = f"{tool}:{source_id}"
    plain = _NOT_IN_IDS.sub("-", wanted)
    if plain == wanted and len(plain) <= SESSION_ID_MAX:
        return plain
    # Replaced or cut, two sources could have the same id; the digest of the whole name keeps them apart.
    digest = blake2b(wanted.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{plain[: SESSION_ID_MAX - 17]}-{digest}"


def instant(value: object) -> str | None:
    """Return a source's time (text, seconds or milliseconds) as RFC 3339, None if it is not a time."""
    if isinstance(value, str):
        at_ms = parse_rfc3339(value)
        return None if at_ms is None else rfc3339(at_ms)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    # Seconds reach this number in the year 5138, milliseconds did in 1973.
    at_ms = int(value if value >= 100_000_000_000 else value * 1000)
    return rfc3339(at_ms) if 0 < at_ms <= _YEAR_9999_MS else None


def local_instant(text: str, pattern: str = "%Y-%m-%d %H:%M:%S") -> str | None:
    """Return a time without a zone, taken as UTC."""
    try:
        return rfc3339(int(datetime.strptime(text, pattern).replace(tzinfo=UTC).timestamp() * 1000))
    except (ValueError, OverflowError):
        return None


def text_block(text: str) -> Event:
    """Return a block of text."""
    return {"type": "text", "text": text}


def blocks(content: object) -> list[Event]:
    """Return content as a list of blocks: a text becomes one, anything unknown is kept unchanged."""
    if isinstance(content, str):
        return [text_block(content)] if content else []
    if not isinstance(content, list):
        return [] if content is None else [{"type": "unknown", "value": content}]
    return [
        text_block(one)
        if isinstance(one, str)
        else one
        if isinstance(one, dict)
        else {"type": "unknown", "value": one}
        for one in content
    ]


def plain_text(content: object) -> str:
    """Return the text of content, blocks joined by lines."""
    return "\n".join(text for block in blocks(content) if isinstance(text := block.get("text"), str) and text)


def title_from(text: str) -> str | None:
    """Return a title from the first prompt: its first line, shortened."""
    for line in text.splitlines():
        if stripped := " ".join(line.split()):
            most = TITLE_CHARACTERS_MAX
            return stripped if len(stripped) <= most else stripped[: most - 1] + "…"
    return None


def without(record: Plain, *names: str) -> Event:
    """Return a copy of a record that lacks some members."""
    return {name: value for name, value in record.items() if name not in names}


def data_url(url: str) -> Event | None:
    """Return the source of a block from a data: URL with base64, None if it is another URL."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return {
        "type": "base64",
        "media_type": head[5:-7].split(";")[0] or "application/octet-stream",
        "data": data,
    }


def media_block(url: str, media_type: str = "") -> Event:
    """Return the block for an image or a document that is named by a URL."""
    source = data_url(url) or {"type": "url", "url": url}
    kind = media_type or str(source.get("media_type", "image/"))
    return {"type": "image" if kind.startswith("image/") else "document", "source": source}


@dataclass(slots=True)
class SessionMetadata:
    """The title and metadata of a session, collected while its source is read."""

    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    _is_of_command: bool = False

    def note(self, **facts: object) -> None:
        """Remember non-empty texts; the first value of a name stays."""
        for name, value in facts.items():
            if isinstance(value, str) and value and name not in self.metadata:
                self.metadata[name] = value[:500]

    def name(self, title: object) -> None:
        """Set a title that a person or the tool gave."""
        if isinstance(title, str) and (short := title_from(title)):
            self.title, self._is_of_command = short, False

    def suggest(self, text: str) -> None:
        """Use the first prompt as the title, until there is a better one."""
        if self.title is None or self._is_of_command:
            self.title, self._is_of_command = title_from(text), False

    def suggest_command(self, typed: str) -> None:
        """Use the first command as the title, until there is a prompt: some sessions have none."""
        if self.title is None:
            self.title, self._is_of_command = title_from(typed), True


class EventMaker:
    """Makes the events of one source: each with its id, time, thread and origin."""

    def __init__(self, tool: str, session: str, file: str) -> None:
        self.tool = tool
        self.session = session
        self.file = file
        self.version: str | None = None

    def id(self, record: str, block: str = "") -> str:
        """Return the id of the event for a block of a record."""
        return event_id(self.tool, self.session, record, block)

    def make(
        self,
        kind: str,
        record: str,
        block: str = "",
        /,
        *,
        at: str | None = None,
        line: int | None = None,
        thread: str | None = None,
        branch: int = 0,
        call_id: str | None = None,
        **members: object,
    ) -> Event:
        """Return an event; members that are None are left out."""
        event: Event = {"id": self.id(record, block), "type": kind}
        if at is not None:
            event["created_at"] = at
        if thread is not None:
            event["session_thread_id"] = thread
        if branch:
            event["branch"] = branch
        event.update((name, value) for name, value in members.items() if value is not None)
        source: Event = {"tool": self.tool, "version": self.version, "file": self.file, "line": line}
        source.update(record_id=record, block=block or None, call_id=call_id)
        event["source"] = {name: value for name, value in source.items() if value is not None}
        return event


def failure(message: str, kind: str = "", *, retrying: bool = False) -> Event:
    """Return the error of a failed request; final unless it is ``retrying``."""
    return {
        "type": kind or "unknown_error",
        "message": message or "The request failed.",
        "retry_status": {"type": "retrying" if retrying else "terminal"},
    }


def arguments(given: object) -> dict[str, Any]:
    """Return the arguments of a call, decoded if they are JSON in a text; other values are kept."""
    if isinstance(given, dict):
        return given
    parsed: object = given
    for _ in range(_ENCODINGS_MAX):
        if not isinstance(parsed, str):
            break
        try:
            parsed = msgspec.json.decode(parsed.encode(errors="replace"))
        except (msgspec.MsgspecError, RecursionError):
            break
    if isinstance(parsed, dict):
        return parsed
    return {} if given is None else {"_raw": given}


def usage(
    input_tokens: object, output_tokens: object, cache_read: object = 0, cache_write: object = 0
) -> Event:
    """Return the four token counts of a model request; invalid values become 0."""
    return {
        "input_tokens": count(input_tokens),
        "output_tokens": count(output_tokens),
        "cache_creation_input_tokens": count(cache_write),
        "cache_read_input_tokens": count(cache_read),
    }


def count(value: object) -> int:
    """Return a count of tokens; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def members(value: object) -> dict[str, Any]:
    """Return an object's members; none if it is not an object."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a list's items; none if it is not a list."""
    return value if isinstance(value, list) else []


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list, and nothing else of it."""
    return [one for one in items(value) if isinstance(one, dict)]


def text(value: object) -> str:
    """Return a text; empty for anything else."""
    return value if isinstance(value, str) else ""


def first_text(values: Iterable[object]) -> str:
    """Return the first text that is not empty."""
    return next((value for value in values if isinstance(value, str) and value), "")
