"""A bounded cache of verified blocks; concurrent requests for the same block share one fetch."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Protocol, TypeVar, cast

CACHE_BYTES_MAX = 64 * 1024 * 1024

BlockKey = tuple[str, int]
"""The digest of an object and the number of a block in it."""


class Cached(Protocol):
    """Something that knows how much memory it takes."""

    @property
    def cost(self) -> int:
        """The memory it takes, in bytes."""
        ...


_Value = TypeVar("_Value", bound=Cached)


class BlockCache:
    """Keeps what was used last, within a bound of bytes."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held: OrderedDict[BlockKey, Cached] = OrderedDict()
        self._loading: dict[BlockKey, asyncio.Task[Cached]] = {}
        self.bytes_used = 0
        self.hits = 0
        self.misses = 0

    async def get(self, key: BlockKey, load: Callable[[], Coroutine[None, None, _Value]]) -> _Value:
        """Return what is kept under ``key``, or load it; all who wait for it get its error."""
        held = self._held.get(key)
        if held is not None:
            self.hits += 1
            self._held.move_to_end(key)
            return cast(_Value, held)
        # A reader that is cancelled must not cancel the load that others wait for.
        return cast(_Value, await asyncio.shield(self._load(key, load)))

    def prefetch(self, key: BlockKey, load: Callable[[], Coroutine[None, None, _Value]]) -> None:
        """Start to load what will be needed next; whoever asks for it meanwhile gets its error."""
        if key not in self._held:
            self._load(key, load)

    def forget(self, sha256: str) -> None:
        """Evict every block of the object with this digest."""
        for key in [key for key in self._held if key[0] == sha256]:
            self.bytes_used -= self._held.pop(key).cost

    async def close(self) -> None:
        """Cancel what is being loaded and evict everything."""
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._held.clear()
        self.bytes_used = 0

    def _load(
        self, key: BlockKey, load: Callable[[], Coroutine[None, None, _Value]]
    ) -> "asyncio.Task[Cached]":
        task = self._loading.get(key)
        if task is None:
            self.misses += 1
            task = cast("asyncio.Task[Cached]", asyncio.create_task(load()))
            self._loading[key] = task
            task.add_done_callback(lambda done: self._loaded(key, done))
        return task

    def _loaded(self, key: BlockKey, task: "asyncio.Task[Cached]") -> None:
        del self._loading[key]
        if task.cancelled() or task.exception() is not None:
            return
        value = task.result()
        if value.cost > self._bytes_max:
            return  # whoever waits for it gets it; keeping it would evict everything else
        self._held[key] = value
        self.bytes_used += value.cost
        while self.bytes_used > self._bytes_max:
            _, oldest = self._held.popitem(last=False)
            self.bytes_used -= oldest.cost
