"""Server-sent events of the stream protocol: data events, each followed by a control event."""

from base64 import b64encode

from durable_sessions.http.api.cursor import Cursors
from durable_sessions.http.api.followers import Chunk, SharedChunks
from durable_sessions.http.carrier.message import Header
from durable_sessions.limits import Limits
from durable_sessions.sessions import envelopes
from durable_sessions.storage.door import Slice, StreamView
from durable_sessions.streams import content, offsets
from durable_sessions.streams.messages import json_array


def is_base64(durable: StreamView) -> bool:
    """Say whether a stream's data events carry base64 instead of text."""
    return not durable.stream.is_json and not content.is_text(durable.stream.content_type)


def data_event(payload: bytes) -> bytes:
    """Return text as one data event; the reader joins its lines by line feeds."""
    lines = b"\n" + payload
    if b"\r" in lines:
        lines = lines.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # Readers drop one space after the colon, so a line that begins with a space gets another one.
    lines = lines.replace(b"\n", b"\ndata:").replace(b"\ndata: ", b"\ndata:  ")
    return b"".join((b"event: data", lines, b"\n\n"))


def control_event(
    position: int, cursor: int, *, up_to_date: bool, closed: bool, has_position: bool = False
) -> bytes:
    """Return a control event, which follows data or is sent alone."""
    fields = f'"streamNextOffset":"{offsets.encode(position)}"'
    if has_position:
        fields += f',"nextPosition":{position}'
    if not closed:
        fields += f',"streamCursor":"{cursor}"'
    if up_to_date:
        fields += ',"upToDate":true'
    if closed:
        fields += ',"streamClosed":true'
    return f"event: control\ndata:{{{fields}}}\n\n".encode()


def complete_utf8(data: bytes) -> int:
    """Return the length of ``data`` up to its last complete character; a partial one waits for its rest."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if length > back else len(data)
    return len(data)


FIELDS: list[Header] = [
    (b"Content-Type", b"text/event-stream"),
    (b"Cache-Control", b"no-cache"),
    (b"X-Accel-Buffering", b"no"),  # otherwise nginx buffers events
]


class StreamFraming:
    """The protocol's event stream: each piece of data is followed by a control event.

    With ``has_position`` that one also has the position as a number: offsets are opaque.
    """

    is_shared = True
    __slots__ = ("_cursors", "_floor", "_has_position", "chunk_bytes_max", "seconds_max")

    def __init__(
        self, cursors: Cursors, sent_cursor: str | None, limits: Limits, *, has_position: bool = False
    ) -> None:
        self._cursors = cursors
        self._has_position = has_position
        self._floor = cursors.after(sent_cursor)
        self.chunk_bytes_max = limits.read_chunk_bytes_max
        self.seconds_max = limits.sse_seconds_max

    def opening(self) -> bytes:
        """Return nothing: data or a control event comes first."""
        return b""

    def encode(self, durable: StreamView, found: Slice) -> Chunk | None:
        """Return records as a data event; None if they are only the beginning of a character."""
        data, following = found.data, found.next
        if durable.stream.is_json:
            event = data_event(json_array([memoryview(data)]))
        elif is_base64(durable):
            event = data_event(b64encode(data))
        else:
            if not (durable.closed and following == durable.tail):
                data = data[: complete_utf8(data)]
                following = found.first + len(data)
            if not data:
                return None
            event = data_event(data)
        return following, event

    def complete(self, shared: SharedChunks, start: int, chunk: Chunk, durable: StreamView) -> bytes:
        """Return a data event and its control event as one piece, shared while nothing has changed."""
        following, event = chunk
        up_to_date = following == durable.tail
        closed = durable.closed and up_to_date
        cursor = max(self._floor, self._cursors.now())
        key = (start, following, cursor, up_to_date, closed, self._has_position)
        whole = shared.whole(key)
        if whole is None:
            whole = event + self._control(following, cursor, up_to_date=up_to_date, closed=closed)
            shared.keep_whole(key, whole)
        return whole

    def idle(self, durable: StreamView, position: int) -> bytes:
        """Return a control event alone."""
        cursor = max(self._floor, self._cursors.now())
        up_to_date = position == durable.tail
        return self._control(position, cursor, up_to_date=up_to_date, closed=durable.closed and up_to_date)

    def removed(self, durable: StreamView) -> bytes:
        """Return nothing: the connection ends, and a client that reconnects is told why."""
        return b""

    def _control(self, position: int, cursor: int, *, up_to_date: bool, closed: bool) -> bytes:
        return control_event(
            position, cursor, up_to_date=up_to_date, closed=closed, has_position=self._has_position
        )


class EnvelopeFraming(StreamFraming):
    """The same of a session's wrapped messages: events of one type, each as its ``raw``.

    A piece without any is a control event alone, so that a reader moves on behind what is not meant for it.
    """

    is_shared = False
    __slots__ = ("_kind",)

    def __init__(self, cursors: Cursors, sent_cursor: str | None, limits: Limits, kind: str) -> None:
        super().__init__(cursors, sent_cursor, limits)
        self._kind = kind

    def encode(self, durable: StreamView, found: Slice) -> Chunk | None:
        """Return the messages of some records as a data event, empty if there are none."""
        data = envelopes.unwrapped([memoryview(found.data)], self._kind)
        return found.next, b"" if data == b"[]" else data_event(data)

    def complete(self, shared: SharedChunks, start: int, chunk: Chunk, durable: StreamView) -> bytes:
        """Return a data event and its control event; nobody else is sent the same."""
        following, event = chunk
        return event + self.idle(durable, following)
