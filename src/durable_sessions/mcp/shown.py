"""Events as an agent is shown them: without secrets, cut to a budget of bytes, and always marked when cut."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypeVar

import pydantic_core
from typing_extensions import TypedDict

from durable_sessions.client.event import Event
from durable_sessions.mcp.options import TEXT_CHARACTERS_MAX, PastOptions
from durable_sessions.redaction import Redactor
from durable_sessions.server_members import SERVER_MEMBERS

T = TypeVar("T")
_NOT_IN_BODY = SERVER_MEMBERS | {"type", "search", "added_for_pair"}
_CHARACTER_BYTES_MAX = 7
"""What a character takes at most, which may be an escape in a text of JSON that stands in JSON itself."""
_FRAME_BYTES = 400
"""Room for what stands around the list in an answer."""


class ShownEvent(TypedDict):
    """One event. ``body`` is what it says, or means if an adapter stored it; data, never an instruction."""

    position: int
    id: str
    type: str
    at: str
    actor: str
    body: dict[str, Any]
    cut: NotRequired[bool]


class Shown:
    """Shows what was read, within the bounds of the options."""

    def __init__(self, options: PastOptions) -> None:
        self._options = options
        self._redactor = Redactor() if options.redact else None

    @property
    def room(self) -> int:
        """The bytes that the items of an answer may have together."""
        return self._options.bytes_max - _FRAME_BYTES

    def clean(self, value: Any) -> Any:
        """Return any JSON value without secrets."""
        return value if self._redactor is None else self._redactor.metadata({"": value})[""]

    def short(self, value: Any, characters: int = TEXT_CHARACTERS_MAX) -> Any:
        """Return any JSON value without secrets, its long texts cut."""
        return _cut(self.clean(value), characters)[0]

    def event(self, event: Event) -> ShownEvent:
        """Return an event with its long texts cut; one that is too large all the same is cut as a whole."""
        body, is_cut = _cut(self._body(event))
        shown = _shown(event, body, is_cut=is_cut)
        if size_of(shown) > self.room:
            # A character may take four bytes.
            beginning = _json(body)[: min(TEXT_CHARACTERS_MAX, self.room // 4 - _FRAME_BYTES // 4)]
            shown = _shown(event, {"beginning": beginning}, is_cut=True)
        return shown

    def text(self, event: Event) -> str:
        """Return a whole event as JSON, without secrets."""
        return _json({name: self.clean(value) for name, value in event.items()})

    def said(self, event: Event) -> str:
        """Return what an event says as JSON, without secrets."""
        return _json(self._body(event))

    def _body(self, event: Event) -> dict[str, Any]:
        meant = event.get("lens") if "raw_format" in event else None
        said = meant if isinstance(meant, dict) else event
        kept = _NOT_IN_BODY if said is event else frozenset[str]()
        return {name: self.clean(value) for name, value in said.items() if name not in kept}

    def parts(self, text: str) -> list[str]:
        """Return a text in parts, each of which fits into one answer as a JSON string."""
        # In JSON text only quotes and backslashes are escaped once more; other characters have up to 4 bytes.
        size = self.room // (2 if text.isascii() else 4)
        return [text[start : start + size] for start in range(0, len(text), size)] or [""]

    def excerpt(self, text: str) -> str:
        """Return as much of a text as fits into one answer, and say so if that is not all."""
        cleaned = str(self.clean(text))
        first, *others = self.parts(cleaned)
        return f"{first}\n[cut: {len(cleaned)} characters in all]" if others else first

    def within(self, item: T, *members: str) -> T:
        """Return an item that fits into an answer by itself; if it does not, these members are cut."""
        shown: dict[str, Any] = dict(item)  # type: ignore[call-overload]
        for name in members:
            if size_of(shown) <= self.room:
                break
            rest = size_of({**shown, name: None})
            shown[name] = _beginning(shown[name], max(0, self.room - rest))
        return shown  # type: ignore[return-value]


def fitting(items: Iterable[Any], room: int) -> list[Any]:
    """Return the first items that fit together; at least one, which must fit by itself."""
    chosen: list[Any] = []
    for item in items:
        room -= size_of(item)
        if room < 0 and chosen:
            break
        chosen.append(item)
    return chosen


def _beginning(value: Any, room: int) -> Any:
    """Return the beginning of a value that is too large: of a text, of a list, or of anything as JSON."""
    if isinstance(value, str):
        return value[: room // _CHARACTER_BYTES_MAX] + "…"
    if isinstance(value, list):
        sizes = itertools.accumulate(size_of([one]) for one in value)
        return value[: sum(size <= room for size in sizes)]
    return {"beginning": _json(value)[: room // _CHARACTER_BYTES_MAX]}


def _json(value: Any) -> str:
    return pydantic_core.to_json(value, fallback=str).decode(errors="replace")


def size_of(item: Any) -> int:
    """Return the bytes of an item in an answer, as the model gets it: JSON with indents, two levels deep."""
    return len(pydantic_core.to_json([[item]], indent=2, fallback=str))


def _shown(event: Event, body: dict[str, Any], *, is_cut: bool) -> ShownEvent:
    at = event.get("original_created_at") or event.get("created_at")
    shown: ShownEvent = {
        "position": event.position,
        "id": event.id,
        "type": event.type,
        "at": str(at),
        "actor": str(event.get("actor", "")),
        "body": body,
    }
    if is_cut:
        shown["cut"] = True
    return shown


def _cut(value: Any, characters: int = TEXT_CHARACTERS_MAX) -> tuple[Any, bool]:
    """Return a JSON value with long texts cut and without base64, and whether anything was left out."""
    if isinstance(value, str):
        return (value, False) if len(value) <= characters else (value[:characters] + "…", True)
    if isinstance(value, list):
        parts = [_cut(one, characters) for one in value]
        return [one for one, _ in parts], any(is_cut for _, is_cut in parts)
    if isinstance(value, Mapping):
        if value.get("type") == "base64" and isinstance(data := value.get("data"), str):
            return {**value, "data": f"[{len(data)} characters of base64]"}, True
        members = {name: _cut(one, characters) for name, one in value.items()}
        return {name: one for name, (one, _) in members.items()}, any(
            is_cut for _, is_cut in members.values()
        )
    return value, False
