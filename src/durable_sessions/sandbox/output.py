"""A bounded part of what a command prints."""


class BoundedOutput:
    """Keeps the beginning and the end of an output: errors are often first, summaries last."""

    def __init__(self, bytes_max: int) -> None:
        self._head_max = bytes_max // 2
        self._tail_max = bytes_max - self._head_max
        self._head = bytearray()
        self._tail = bytearray()
        self._taken = 0

    @property
    def truncated(self) -> bool:
        """Whether something was left out."""
        return self._taken > self._head_max + self._tail_max

    def take(self, data: bytes) -> None:
        """Take the next bytes of the output."""
        self._taken += len(data)
        room = self._head_max - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_max:  # cut now and then, not with every piece
            del self._tail[: -self._tail_max]

    def content(self) -> bytes:
        """Return what was kept, as bytes, without a word on what is missing."""
        return bytes(self._head + self._tail[max(0, len(self._tail) - self._tail_max) :])

    def text(self) -> str:
        """Return what was kept; a line in the middle says how much is missing."""
        if not self.truncated:
            return self.content().decode(errors="replace")
        tail = self._tail[len(self._tail) - self._tail_max :]
        missing = self._taken - len(self._head) - len(tail)
        head = self._head.decode(errors="replace")
        return f"{head}\n[... {missing} bytes left out ...]\n{tail.decode(errors='replace')}"
