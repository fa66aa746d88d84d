"""Waiting for a server that is away for a moment, such as while it restarts."""

import time
from collections.abc import Callable
from typing import TypeVar

from durable_sessions.cli.terminal import Output
from durable_sessions.client.errors import (
    ApiError,
    ClientError,
    ConnectionFailedError,
    RateLimitedError,
    ServerError,
)
from durable_sessions.client.retry import pause_seconds

WAIT_SECONDS = 30.0
_AWAY = (502, 503, 504)

T = TypeVar("T")


class ReconnectWait:
    """Repeats what can be repeated safely, for a while."""

    def __init__(self, url: str, seconds: float, output: Output) -> None:
        self._url = url
        self._seconds = seconds
        self._output = output

    def until_answered(self, act: Callable[[], T]) -> T:
        """Return what ``act`` returns; while the server is away it is called again, with growing pauses."""
        deadline = time.monotonic() + self._seconds
        failures = 0
        while True:
            try:
                result = act()
            except ClientError as error:
                left = deadline - time.monotonic()
                if left <= 0 or not _may_pass(error):
                    raise
                failures += 1
                if failures == 1:
                    self._say(f"{_problem(self._url, error)}; trying again for up to {left:.0f} s.")
                # At least as long as the server asks for, but not past the deadline: one last try is due
                # then.
                time.sleep(min(max(_asked(error), pause_seconds(failures)), left))
            else:
                if failures:
                    self._say(f"{self._url} answers again.")
                return result

    def _say(self, text: str) -> None:
        if not self._output.json:
            self._output.note(text)


def _may_pass(error: ClientError) -> bool:
    """Say whether the same may succeed later."""
    if isinstance(error, ServerError):
        return error.status in _AWAY
    return isinstance(error, ConnectionFailedError | RateLimitedError)


def _problem(url: str, error: ClientError) -> str:
    if isinstance(error, ConnectionFailedError):
        return f"{url} does not answer ({error.reason})"
    return error.message.rstrip(".") if isinstance(error, ApiError) else str(error)


def _asked(error: ClientError) -> float:
    return (error.retry_after or 0.0) if isinstance(error, RateLimitedError) else 0.0
