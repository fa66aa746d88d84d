"""A request and how its answer is read, independent of how it is sent."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import httpx2
import msgspec

from durable_sessions.client.errors import UnexpectedAnswerError
from durable_sessions.client.foreign_answer import foreign_answer

T = TypeVar("T")

Parameters = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[T]):
    """One request. Each is idempotent, so that it can be retried.

    The body is ``content``, or the bytes of ``file``. ``read`` turns the answer into the result. With
    ``gone_is_done``, a retry after a lost answer succeeds if the object is gone or replaced: the first
    attempt removed it.
    """

    method: str
    path: str
    read: Callable[[httpx2.Response], T]
    parameters: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""
    file: Path | None = None
    gone_is_done: bool = False

    def result(self, answer: httpx2.Response) -> T:
        """Return the result of a successful answer."""
        try:
            return self.read(answer)
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            lacking = f", without {error.args[0]}" if isinstance(error, KeyError) else ""
            raise UnexpectedAnswerError(str(answer.request.url), foreign_answer(answer) + lacking) from error
