"""Extracts images and large blocks from events: they become artifacts that the event refers to."""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

import msgspec

from durable_sessions.importers.events import Event, Verbatim
from durable_sessions.importers.lines import mended

# Below the server's limit for one event, because the server adds members of its own.
EVENT_BYTES_MAX = 900 * 1024
TEXT_BYTES_MAX = 256 * 1024
PREVIEW_CHARACTERS = 2_000
WALK_DEPTH_MAX = 120
"""Deeper than any record that is read (``lines.NESTING_MAX``), with room for the event around it."""
_LEAST_TEXT_BYTES = 1_024
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,60}/[A-Za-z0-9!#$&^_.+-]{1,60}")
_DATA_URL = re.compile(r"data:([A-Za-z0-9!#$&^_.+/-]{3,120});base64,")
# What is left of an event that is too large even without its texts: enough to find it and to link it.
_KEPT = (
    "id",
    "type",
    "created_at",
    "session_thread_id",
    "branch",
    "source",
    "tool_use_id",
    "is_error",
    "name",
)

_MARKS = (b";base64,", b'"base64"', b'"media_type"', b'"mimeType"')
"""One of these occurs in the JSON of every event with an image; without any of them, it is not searched."""

Put = Callable[[bytes, str], str]


class ArtifactExtractor:
    """Makes events fit the size limit; ``put`` stores bytes with their media type, returns their SHA-256."""

    def __init__(
        self, put: Put, event_bytes_max: int = EVENT_BYTES_MAX, text_bytes_max: int = TEXT_BYTES_MAX
    ) -> None:
        self._put = put
        self._event_max = event_bytes_max
        self._text_max = text_bytes_max
        self.count = 0
        self.bytes = 0

    def fit(self, event: Event) -> bytes:
        """Return an event as JSON within the size limit of events."""
        if isinstance(event, Verbatim) and len(event.body) <= self._event_max:
            return event.body
        data = encode(event)
        if len(data) <= self._text_max and not any(mark in data for mark in _MARKS):
            return data
        event = self._walk(event, 0)
        data = encode(event)
        # First only the largest texts become artifacts, then smaller ones: what stays in the event is found
        # by searches, so as much as possible stays.
        least = self._text_max
        while len(data) > self._event_max and least > _LEAST_TEXT_BYTES:
            least //= 4
            event = self._shrink(event, least, 0)
            data = encode(event)
        if len(data) <= self._event_max:
            return data
        whole = self._artifact(data, "application/json")
        return encode({name: event[name] for name in _KEPT if name in event} | {"artifact": whole})

    def _artifact(self, data: bytes, media_type: str) -> dict[str, Any]:
        kind = media_type if _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream"
        digest = self._put(data, kind)
        self.count += 1
        self.bytes += len(data)
        return {
            "sha256": digest,
            "size": len(data),
            "media_type": media_type,
            "url": f"/v1/artifacts/{digest}",
        }

    def _walk(self, value: Any, depth: int) -> Any:
        """Return the value with images and very long texts replaced."""
        if isinstance(value, str):
            if value.startswith("data:") and (head := _DATA_URL.match(value)):
                found = _decode(value[head.end() :])
                if found is not None:
                    return self._artifact(found, head.group(1))["url"]
            return self._extract_text(value, self._text_max)
        if depth > WALK_DEPTH_MAX:
            return value
        if isinstance(value, dict):
            image = self._image(value)
            if image is not None:
                return image
            return {name: self._walk(one, depth + 1) for name, one in value.items()}
        if isinstance(value, list):
            return [self._walk(one, depth + 1) for one in value]
        return value

    def _image(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """Return the artifact reference for a base64 source, None if the object is not one."""
        for data_name, type_name in (("data", "media_type"), ("base64", "type"), ("data", "mimeType")):
            data, media_type = value.get(data_name), value.get(type_name)
            if not isinstance(data, str) or not isinstance(media_type, str) or "/" not in media_type:
                continue
            found = _decode(data)
            if found is not None:
                rest = {
                    name: one for name, one in value.items() if name not in (data_name, type_name, "type")
                }
                artifact = self._artifact(found, media_type)
                return {
                    "type": "url",
                    "url": artifact["url"],
                    "media_type": media_type,
                    "artifact": artifact,
                    **rest,
                }
        return None

    def _extract_text(self, value: str, bytes_max: int) -> Any:
        if len(value) <= bytes_max // 4:  # a character has at most four bytes, so it need not be encoded
            return value
        data = value.encode(errors="replace")
        if len(data) <= bytes_max:
            return value
        artifact = self._artifact(data, "text/plain")
        return f"{value[:PREVIEW_CHARACTERS]}\n[… {len(data)} bytes in all: {artifact['url']}]"

    def _shrink(self, value: Any, bytes_max: int, depth: int) -> Any:
        if isinstance(value, str):
            return self._extract_text(value, bytes_max)
        if depth > WALK_DEPTH_MAX:
            return value
        if isinstance(value, dict):
            return {
                name: one if name == "artifact" else self._shrink(one, bytes_max, depth + 1)
                for name, one in value.items()
            }
        if isinstance(value, list):
            return [self._shrink(one, bytes_max, depth + 1) for one in value]
        return value


def _decode(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True) or None
    except (binascii.Error, ValueError):
        return None


def encode(event: Event) -> bytes:
    """Return an event as JSON; lone surrogates, which are not valid text, are replaced."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.json.encode(mended(event))
