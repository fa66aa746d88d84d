"""A large body while it arrives: its memory is reserved once and never moved, however large it gets."""

import mmap

_PRIVATE = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)


class LargeBody:
    """Room for a body of up to ``bytes_max``; a page of it takes memory when something is written there.

    To move what has arrived, as a growing buffer does, would hold up everybody.
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
        if end <= len(self._memory):  # else it is refused for its size
            self._memory[self._size : end] = data
        self._size = end

    def view(self) -> memoryview:
        """Return what has arrived; the memory is given back when nobody has the view any more."""
        return memoryview(self._memory)[: self._size]
