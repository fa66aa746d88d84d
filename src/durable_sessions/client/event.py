"""An event as it was read: a read-only mapping with properties for what every event has."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from durable_sessions.client import offsets


class Event(Mapping[str, Any]):
    """One stored event. ``event["content"]`` is a member as it was sent; ``data`` is the whole event."""

    __slots__ = ("_data",)

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    @property
    def data(self) -> dict[str, Any]:
        """The whole event, as the server sent it."""
        return self._data

    @property
    def id(self) -> str:
        """The event's id, unique in its session."""
        return str(self._data["id"])

    @property
    def type(self) -> str:
        """The event's type, such as ``user.message``."""
        return str(self._data["type"])

    @property
    def offset(self) -> str:
        """Where the event is; a read from here begins with it."""
        return str(self._data["offset"])

    @property
    def next_offset(self) -> str:
        """The offset behind this event: what a reader saves once it has processed it."""
        return offsets.of(self.position + 1)

    @property
    def position(self) -> int:
        """The event's number in its session, counted from 0."""
        return offsets.position(self.offset)

    @property
    def created_at(self) -> datetime:
        """When the event was appended, in UTC."""
        return datetime.fromisoformat(self._data["created_at"])

    @property
    def actor(self) -> str:
        """Who appended it: the principal of the key."""
        return str(self._data["actor"])

    @property
    def text(self) -> str:
        """The readable text of the content; empty if there is none."""
        return _text(self._data)

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"Event({self._data!r})"


def _text(value: object) -> str:
    """Return the texts of a content block, of a list of them, or of an event."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text, value)))
    if isinstance(value, dict):
        for name in ("content", "text", "thinking", "message"):
            if found := _text(value.get(name)):
                return found
    return ""
