"""A request and how its answer is read, apart from how it travels."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import httpx2
import msgspec

from durable_sessions.client.errors import UnexpectedAnswerError

T = TypeVar("T")

Parameters = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[T]):
    """One request; every one may be sent again without doing twice what it asks for.

    The body is ``content``, or the bytes of ``file``. ``read`` makes the result of the answer. With
    ``gone_is_done`` it is success to find nothing, or another one, after a lost answer: the first attempt
    did it.
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
        """Return what a successful answer says."""
        try:
            return self.read(answer)
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise UnexpectedAnswerError(str(answer.request.url), repr(error)) from error
