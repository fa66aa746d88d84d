"""A cache that is bounded in bytes: what was used longest ago is forgotten first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key; ``size`` says about how many bytes of memory an entry takes."""

    def __init__(self, bytes_max: int, size: Callable[[K, V], int]) -> None:
        self._bytes_max = bytes_max
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()
        self.bytes_held = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return a value, None if it is not known."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        """Remember a value; one that is larger than the bound is not remembered."""
        self.drop(key)
        self._entries[key] = value
        self.bytes_held += self._size(key, value)
        while self.bytes_held > self._bytes_max:
            self.bytes_held -= self._size(*self._entries.popitem(last=False))

    def drop(self, key: K) -> None:
        """Forget a value."""
        value = self._entries.pop(key, None)
        if value is not None:
            self.bytes_held -= self._size(key, value)
