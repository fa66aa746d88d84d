"""What of an event is searchable: text, type, tool, role, and whether it is an error."""

import unicodedata
from typing import Any, NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.rendering import lenses
from durable_sessions.rendering.excerpts import without_markup
from durable_sessions.server_members import SERVER_MEMBERS
from durable_sessions.times import parse_rfc3339

TEXT_CHARACTERS_MAX = 256 * 1024
"""How much text of one event is searchable; the rest is stored but not found."""

NAME_CHARACTERS_MAX = 256
CALL_CHARACTERS_MAX = 256


class Searchable(NamedTuple):
    """The searchable parts of one event."""

    text: str
    """All strings of the event that count as text, without the markup of tools, joined by newlines."""
    type: str = ""
    name: str | None = None
    """The name of the tool, in lower case."""
    role: str | None = None
    """``user``, ``agent``, ``tool`` or ``system``; None if the type does not tell."""
    is_error: bool = False
    happened_ms: int | None = None
    """When it happened, if that is not when it was appended; 0 if nobody knows."""
    call: str | None = None
    """The id of this tool call, or of the call that this is the result of."""

    @property
    def is_call(self) -> bool:
        """Whether it is a tool call itself."""
        return self.type.endswith("_use")

    @property
    def is_bookkeeping(self) -> bool:
        """Whether it records how a session went, and nothing that was said or done; a failure never is."""
        return not self.is_error and self.type.startswith(_BOOKKEEPING)


_EVENT = msgspec.json.Decoder(dict[str, Any])

_NO_TEXT = SERVER_MEMBERS | {"type"}
_NO_TEXT_OF_WORK = _NO_TEXT | {"refs"}

_FORMAL = _NO_TEXT | {
    "agent",
    "budget",
    "cache_control",
    "citations",
    "data",
    "encrypted_content",
    "encrypted_index",
    "evaluated_permission",
    "evaluation",
    "media_type",
    "model_usage",
    "refs",
    "role",
    "signature",
    "stats",
    "usage",
}
"""Members of known events and content blocks whose strings are not text that a person or model wrote."""

_MEANT = frozenset(("type", "content", "name", "input", "is_error"))
"""Members by which an event of an adapter is found, seen through its lens."""

_FREE = frozenset(("arguments", "error", "input", "metadata", "output", "result"))
"""Members whose value is the user's or the tool's own: all of it is text, numbers too."""

_IDS = ("_id", "_ids", "Id", "Ids", "uuid", "Uuid")
_KNOWN = ("user.", "agent.", "session.", "span.", "system.", "workflow_run.")
_TOOL_TYPES = (
    "agent.tool_",
    "agent.mcp_tool_",
    "agent.custom_tool_",
    "user.tool_result",
    "user.custom_tool_result",
)
_CALL_IDS = ("tool_use_id", "mcp_tool_use_id", "custom_tool_use_id")
_IMPORT_RECORD = "import.record"
_WORK = "ds."
_WRITTEN = "ds.memory.written"
_KEPT = ("source_record", "source_text")
"""Members with the record of another tool that became no event of its own."""
_ENVELOPE = frozenset(
    ("cwd", "entrypoint", "gitBranch", "isSidechain", "slug", "timestamp", "type", "userType", "version")
)
"""Members of such a record that stand in every record, and tell none apart."""
_BOOKKEEPING = (
    "import.",
    "session.deleted",
    "session.status_",
    "session.thread_",
    "session.updated",
    "session.usage",
    "span.",
    "workflow_run.",
)
_ROLES = {"user": "user", "agent": "agent", "system": "system", "session": "system", "span": "system"}
_SAID_ROLES = {"user": "user", "assistant": "agent", "agent": "agent", "tool": "tool", "system": "system"}
_WHOLE_NUMBERS = range(-(2**63), 2**64)


def searchable(event: bytes) -> Searchable:
    """Return the searchable parts of a stored event; what cannot be decoded has none."""
    try:
        members = lenient.decode(_EVENT, event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Searchable("")
    kind = members.get("type")
    kind = kind if isinstance(kind, str) else ""
    if kind == _WRITTEN:
        return _remembered(members)
    happened_ms, call = _happened_ms(members), _call(members, kind)
    stored_kind = kind
    meant = None if members.get("searchable") is False else lenses.seen(members)
    if meant is not None:  # found as what it means, by the type that it has
        kind = meant["type"]
        members = {name: value for name, value in meant.items() if name in _MEANT}
    name = members.get("name")
    return Searchable(
        _text(members, kind),
        stored_kind,
        name[:NAME_CHARACTERS_MAX].lower() if isinstance(name, str) and name else None,
        _role(members, kind),
        _is_error(members, kind),
        happened_ms,
        call,
    )


def _remembered(members: dict[str, Any]) -> Searchable:
    """Return what of a memory is found: key and value. Its kind is found as the name of a tool is."""
    said = {name: members[name] for name in ("key", "value") if members.get(name) is not None}
    kind = members.get("kind", "note")
    return Searchable(_text(said, ""), _WRITTEN, kind if isinstance(kind, str) else None)


def _call(members: dict[str, Any], kind: str) -> str | None:
    if not kind.startswith(_TOOL_TYPES):
        return None
    told = (members.get(name) for name in (("id",) if kind.endswith("_use") else _CALL_IDS))
    return next((one for one in told if isinstance(one, str) and 0 < len(one) <= CALL_CHARACTERS_MAX), None)


def _happened_ms(members: dict[str, Any]) -> int | None:
    for name in ("original_created_at", "original_processed_at"):
        at_ms = parse_rfc3339(said) if isinstance(said := members.get(name), str) else None
        if at_ms is not None and at_ms >= 0:
            return at_ms
    source = members.get("source")
    return 0 if type(source) is dict and "record_id" in source else None


def _text(members: dict[str, Any], kind: str) -> str:
    if members.get("searchable") is False and not kind.startswith(_WORK):
        return ""
    is_known = kind.startswith(_KNOWN)
    collected = _Collected(kind)
    if _is_provenance(members.get("source")):
        members = _without_bookkeeping(members, kind)
    if is_known:
        collected.formal(members)
    else:
        collected.members(members, _NO_TEXT_OF_WORK if kind.startswith(_WORK) else _NO_TEXT)
    text = "\n".join(collected.strings)[:TEXT_CHARACTERS_MAX]
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _without_bookkeeping(members: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return an imported event without what its importer kept of the source beside the event itself.

    Of a record that became no event, the record is all that there is to find.
    """
    said = {
        key: value
        for key, value in members.items()
        if key != "source" and not key.startswith("source_") and not key.endswith(("_record", *_IDS))
    }
    if kind == _IMPORT_RECORD:
        for key in _KEPT:
            value = members.get(key)
            if type(value) is dict:
                value = {
                    name: inner
                    for name, inner in value.items()
                    if name not in _ENVELOPE and not name.endswith(_IDS)
                }
            if value is not None:
                said[key] = value
    return said


def _is_provenance(source: Any) -> bool:
    """Say whether this is the origin of an imported event, which is the same in all of a session."""
    return type(source) is dict and "tool" in source


class _Collected:
    """Strings of one event, until there are enough, as a transcript shows them.

    What no excerpt shows is not found either: names and attributes of a tool's markup would be hits that
    nobody can see, before those that somebody means.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.strings: list[str] = []
        self.room = TEXT_CHARACTERS_MAX

    def formal(self, value: Any) -> None:
        """Collect the strings of a known event or content block, without its formal members."""
        kind = type(value)
        if kind is str:
            self._take(value)
        elif kind is dict:
            for key, inner in value.items():
                if key in _FORMAL:  # asked first: most members of most events are
                    if key == "data" and value.get("type") == "text":
                        self.free(inner)
                elif key in _FREE:
                    self.free(inner)
                elif not key.endswith(_IDS):
                    self.formal(inner)
        elif kind is list:
            for inner in value:
                if self.room <= 0:
                    break
                self.formal(inner)

    def free(self, value: Any) -> None:
        """Collect every string and number, except what is marked as base64, and that a text is one."""
        kind = type(value)
        if kind is str:
            self._take(value)
        elif kind is dict:
            self.members(value, _FORMAL_IN_BLOCKS.get(_block(value), _NONE))
        elif kind is list:
            for inner in value:
                if self.room <= 0:
                    break
                self.free(inner)
        elif kind is float or (kind is int and value in _WHOLE_NUMBERS):
            self._take(repr(value))

    def members(self, value: dict[str, Any], left_out: frozenset[str]) -> None:
        """Collect all of an object except some of its members."""
        for key, inner in value.items():
            if self.room <= 0:
                break
            if key not in left_out:
                self.free(inner)

    def _take(self, string: str) -> None:
        if string := without_markup(self._kind, string):
            self.strings.append(string)
            self.room -= len(string) + 1


_NONE: frozenset[str] = frozenset()
_FORMAL_IN_BLOCKS = {"base64": frozenset(("data",)), "text": frozenset(("type",))}
"""What is no text in blocks of content, which events of any type may have."""


def _block(value: dict[str, Any]) -> str:
    """Return which block of content this is, if it is one."""
    kind = value.get("type")
    return kind if kind == "base64" or (kind == "text" and type(value.get("text")) is str) else ""


def _role(members: dict[str, Any], kind: str) -> str | None:
    if kind.startswith(_TOOL_TYPES):
        return "tool"
    known = _ROLES.get(kind.partition(".")[0])
    if known is None:
        said = members.get("role")
        return _SAID_ROLES.get(said) if isinstance(said, str) else None
    return known


def _is_error(members: dict[str, Any], kind: str) -> bool:
    if members.get("is_error") is True or kind.endswith(".error") or members.get("error"):
        return True
    result = members.get("result")
    return isinstance(result, dict) and result.get("type") == "error"
