"""Anthropic's event stream: one frame for each event, named by its type, without an end of its own."""

import math

import msgspec

from durable_sessions import lenient
from durable_sessions.clock import Clock
from durable_sessions.http.api.followers import Chunk, SharedChunks
from durable_sessions.sessions import event_ids
from durable_sessions.sessions.selection import Selection
from durable_sessions.storage.door import Slice, StreamView
from durable_sessions.streams import messages
from durable_sessions.times import rfc3339

_HEARTBEAT = b": heartbeat\n\n"
_CHUNK_BYTES = 256 * 1024
"""How many bytes are read and encoded at a time."""


class _Named(msgspec.Struct):
    id: str = ""
    type: str = "message"


_NAMED = msgspec.json.Decoder(_Named)


def frame(event: bytes) -> bytes:
    """Return a stored event as a frame; stored JSON has no line breaks outside of strings."""
    try:
        named = lenient.decode(_NAMED, event)
    except msgspec.MsgspecError:
        named = _Named()
    lines = b"\ndata: ".join(event.splitlines()) if b"\n" in event or b"\r" in event else event
    return b"".join(
        (b"id: ", named.id.encode(), b"\nevent: ", named.type.encode(), b"\ndata: ", lines, b"\n\n")
    )


class SessionFraming:
    """Anthropic's event stream: the selected events, and empty heartbeats."""

    chunk_bytes_max = _CHUNK_BYTES
    seconds_max = math.inf
    __slots__ = ("_clock", "_matches", "is_shared")

    def __init__(self, clock: Clock, selection: Selection) -> None:
        self._clock = clock
        self._matches = None if selection.everything else selection.matcher()
        self.is_shared = selection.everything

    def opening(self) -> bytes:
        """Return a heartbeat, so that proxies pass on the headers at once."""
        return _HEARTBEAT

    def encode(self, durable: StreamView, found: Slice) -> Chunk:
        """Return the frames of those events that are selected, which may be none."""
        matches = self._matches
        events = messages.cut(found.data)
        return found.next, b"".join([frame(event) for event in events if matches is None or matches(event)])

    def complete(self, shared: SharedChunks, start: int, chunk: Chunk, durable: StreamView) -> bytes:
        """Return the frames as they are."""
        return chunk[1]

    def idle(self, durable: StreamView, position: int) -> bytes:
        """Return a heartbeat; the end of a session needs none."""
        return b"" if durable.closed else _HEARTBEAT

    def removed(self, durable: StreamView) -> bytes:
        """Return the last frame for a deleted session; it is not stored in any log."""
        event = {
            "id": event_ids.event_id(event_ids.tag(durable.stream), durable.tail),
            "type": "session.deleted",
            "processed_at": rfc3339(self._clock.now_ms()),
        }
        return frame(msgspec.json.encode(event))
