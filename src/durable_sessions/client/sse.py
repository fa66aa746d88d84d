"""Parses server-sent events from the pieces of a body."""

from dataclasses import dataclass, field

FRAME_BYTES_MAX = 256 * 1024 * 1024
"""More than any frame of the server; bounds the memory that an endless line could take."""


@dataclass(slots=True)
class Frames:
    """The frames of one connection; comments, ids and event names are skipped."""

    _rest: bytes = b""
    _lines: list[bytes] = field(default_factory=list)

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the frames that a piece completes."""
        if b"\n" not in piece:
            self._rest += piece
            if len(self._rest) > FRAME_BYTES_MAX:
                raise ValueError("a frame without an end")
            return []
        *lines, self._rest = (self._rest + piece).split(b"\n")
        frames = []
        for ended in lines:
            line = ended.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._lines.append(line[5:].removeprefix(b" "))
            elif not line and self._lines:
                frames.append(b"\n".join(self._lines))
                self._lines = []
        return frames
