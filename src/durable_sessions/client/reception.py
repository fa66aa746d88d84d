"""What arrives over as many connections as it takes: what to ask for next, and when to give up."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

import httpx2

from durable_sessions.client.call import ApiCall
from durable_sessions.client.retry import Attempts

T = TypeVar("T")


class Reception(ABC, Generic[T]):
    """Items that arrive in pieces. ``ended``, ``disconnected`` and ``refused`` return how long to wait.

    A transport opens one connection after the other for it (``receive``) and knows nothing of what it means.
    """

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    @abstractmethod
    def connect(self) -> ApiCall[None]:
        """Return the request for what is missing."""

    def connected(self, answer: httpx2.Response) -> None:
        """Take note that a connection stands."""

    @abstractmethod
    def take(self, piece: bytes) -> Iterable[T]:
        """Return the items that a piece completes."""

    @abstractmethod
    def ended(self) -> float:
        """Take note that the server has ended the connection in good order."""

    def disconnected(self, error: Exception) -> float:
        """Take note that the connection was cut, or never stood; raise if too many were."""
        return self._attempts.failed(error)

    def refused(self, answer: httpx2.Response) -> float:
        """Take note of a refusal; raise if there is no use in asking again."""
        return self._attempts.refused(answer)
