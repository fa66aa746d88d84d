"""The interfaces that subscriptions need from the rest of the server."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from durable_sessions.storage.door import StreamListener
from durable_sessions.streams.deliveries import Delivery
from durable_sessions.streams.effects import Effect
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
