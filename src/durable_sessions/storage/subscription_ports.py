"""What subscriptions need of the rest of the server."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from durable_sessions.storage.door import StreamListener
from durable_sessions.streams.deliveries import Delivery
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State

T = TypeVar("T")


class SubscribedPartition(Protocol):
    """What subscriptions need of the partition that holds their streams."""

    @property
    def tip(self) -> State:
        """What will be true when all that was decided is durable."""
        ...

    def commit(self, decide: Callable[[State, int], tuple[Sequence[Effect], T]]) -> Awaitable[T]:
        """Decide and apply before returning; the result comes when all decided so far is durable."""
        ...

    def path_pages(self, workspace: str, prefix: str) -> Iterator[Sequence[tuple[int, str]]]:
        """Yield number and path of a workspace's durable streams whose paths begin so, a page at a time."""
        ...

    def listen(self, listener: StreamListener) -> None:
        """Tell a listener of every durable change from now on."""
        ...


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """How a webhook request ended; ``problem`` says why it was not accepted."""

    accepted: bool
    done: bool = False
    problem: str = ""


class Timer(Protocol):
    """Something that was set to happen later."""

    def cancel(self) -> None:
        """Keep it from happening."""
        ...


Deliver = Callable[[Delivery], Awaitable[DeliveryResult]]
CallLater = Callable[[float, Callable[[], None]], Timer]
