"""A body that arrives over a link in pieces."""

from durable_sessions.http.carrier.large_body import LargeBody
from durable_sessions.node.link_frames import LinkProtocolError

_COPIED_BYTES_MAX = 8 * 1024 * 1024
"""Bodies up to this size become bytes; copying a larger one would hold the event loop."""


class ArrivingBody:
    """Collects a body of a known length without ever copying all of it at once, if it is large."""

    __slots__ = ("_length", "_received")

    def __init__(self, length: int, beginning: bytes) -> None:
        self._length = length
        large = length > _COPIED_BYTES_MAX
        self._received: bytearray | LargeBody = LargeBody(length) if large else bytearray()
        self.add(beginning)

    @property
    def length(self) -> int:
        """The whole size."""
        return self._length

    def add(self, piece: bytes) -> bool:
        """Add the next piece; say whether the body is complete."""
        if len(self._received) + len(piece) > self._length or not piece:
            raise LinkProtocolError("a body does not have the size that was announced")
        self._received.extend(piece)
        return len(self._received) == self._length

    def whole(self) -> bytes:
        """Return the whole body; a large one is a memoryview, as it is when it comes from a client."""
        received = self._received
        if isinstance(received, LargeBody):
            return received.view()  # type: ignore[return-value]  # as good as bytes
        return bytes(received)
