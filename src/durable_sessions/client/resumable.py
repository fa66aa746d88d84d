"""Transfers that survive a lost connection: what to request next, and when to give up."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

import httpx2

from durable_sessions.client.call import ApiCall
from durable_sessions.client.retry import Attempts

T = TypeVar("T")


class ResumableTransfer(ABC, Generic[T]):
    """Items received over one connection after another; ``receive`` of a transport drives it.

    ``ended``, ``disconnected`` and ``refused`` return how many seconds to wait before the next connection.
    """

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    @abstractmethod
    def connect(self) -> ApiCall[None]:
        """Return the request for what has not been received yet."""

    def connected(self, answer: httpx2.Response) -> None:
        """Note the head of an answer whose body follows."""

    @abstractmethod
    def take(self, piece: bytes) -> Iterable[T]:
        """Return the items that this piece of the body completes."""

    @abstractmethod
    def ended(self) -> float:
        """Note that the server ended the body in good order."""

    def disconnected(self, error: Exception) -> float:
        """Note that the connection was cut or could not be opened; raise after too many in a row."""
        return self._attempts.failed(error)

    def refused(self, answer: httpx2.Response) -> float:
        """Note a refusal; raise if trying again is useless."""
        return self._attempts.refused(answer)
