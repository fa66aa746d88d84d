"""The interfaces that subscriptions need from the rest of the server."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from durable_sessions.storage.door import StreamListener
from durable_sessions.streams.deliveries import Delivery
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.reported_streams import Tail
from durable_sessions.streams.state import State

T = TypeVar("T")


class SubscribedPartition(Protocol):
    """The partition that contains the streams, as subscriptions use it."""

    @property
    def tip(self) -> State:
        """The state when everything decided so far is durable."""
        ...

    def commit(self, decide: Callable[[State, int], tuple[Sequence[Effect], T]]) -> Awaitable[T]:
        """Decide and apply before returning; await the result until everything decided so far is durable."""
        ...

    def path_pages(self, workspace: str, prefix: str) -> Iterator[Sequence[tuple[int, str]]]:
        """Yield number and path of a workspace's durable streams with a path prefix, a page at a time."""
        ...

    def listen(self, listener: StreamListener) -> None:
        """Notify a listener of every durable change from now on."""
        ...


class OtherPartitions(Protocol):
    """The other partitions of the server, whose streams subscriptions of this one watch, too."""

    async def watch(
        self, workspace: str, watched: "Watched", pattern: str | None, paths: Sequence[str]
    ) -> list[Tail]:
        """Let all others tell what is watched; return what they have of a new pattern and of new paths."""
        ...

    async def untold(self, workspace: str) -> list[Tail]:
        """Return what others are about to tell."""
        ...


class Watched(NamedTuple):
    """What the subscriptions of a workspace watch, and a number that changes with it."""

    version: int
    patterns: list[str]
    paths: list[str]


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """How a webhook request ended; ``problem`` says why it was not accepted."""

    accepted: bool
    done: bool = False
    problem: str = ""


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""
        ...


Deliver = Callable[[Delivery], Awaitable[DeliveryResult]]
CallLater = Callable[[float, Callable[[], None]], Timer]
