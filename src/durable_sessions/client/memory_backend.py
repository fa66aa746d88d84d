"""An index of your own for memory: it finds writes, and the server says which of them count."""

from collections.abc import Sequence
from typing import Protocol


class MemoryBackend(Protocol):
    """Finds writes by words, in whatever way. It is an index and never the truth: the scope's log is.

    Keep it current with ``client.memory.log(scope, start=position)``.
    """

    @property
    def name(self) -> str:
        """What reads are recorded with, such as the name of the embedding."""
        ...

    def search(self, scope: str, query: str, limit: int) -> Sequence[str]:
        """Return the ids of the events that wrote what fits, the best first."""
        ...

    def follow(self, scope: str, position: int) -> int:
        """Take in what a scope has behind a position; return the position that is reached."""
        ...


class AsyncMemoryBackend(Protocol):
    """The same for programs with an event loop."""

    @property
    def name(self) -> str:
        """What reads are recorded with."""
        ...

    async def search(self, scope: str, query: str, limit: int) -> Sequence[str]:
        """Return the ids of the events that wrote what fits, the best first."""
        ...

    async def follow(self, scope: str, position: int) -> int:
        """Take in what a scope has behind a position; return the position that is reached."""
        ...
