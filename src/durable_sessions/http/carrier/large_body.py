"""Memory for a large body while it arrives: reserved once and never moved."""

import mmap

_PRIVATE = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)


class LargeBody:
    """Address space for a body of up to ``bytes_max``; a page takes memory when it is first written.

    A growing buffer would copy what has arrived again and again, and block the event loop meanwhile.
    """

    __slots__ = ("_memory", "_size")

    def __init__(self, bytes_max: int) -> None:
        self._memory = mmap.mmap(-1, bytes_max, flags=_PRIVATE)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, data: bytes) -> None:
        """Add what has arrived."""
        end = self._size + len(data)
        if end <= len(self._memory):  # otherwise IncompleteBody refuses it for its size
            self._memory[self._size : end] = data
        self._size = end

    def view(self) -> memoryview:
        """Return what has arrived; the memory is freed with the last reference to the view."""
        return memoryview(self._memory)[: self._size]
