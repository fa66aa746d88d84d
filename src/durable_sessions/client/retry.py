"""Deciding whether a request is sent again, and when."""

import random
from dataclasses import dataclass
from typing import TypeVar

import httpx2

from durable_sessions.client import connection_problems
from durable_sessions.client.call import ApiCall
from durable_sessions.client.error_answers import error_of, retry_after
from durable_sessions.client.errors import ConnectionFailedError

RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
FIRST_PAUSE_SECONDS = 0.25
PAUSE_SECONDS_MAX = 15.0
RETRY_AFTER_SECONDS_MAX = 30.0
"""When a server asks for a longer pause, its error is raised at once, and waiting is up to the caller."""

T = TypeVar("T")

FAILURES = (httpx2.TransportError, httpx2.DecodingError)
"""The errors of the HTTP client for an answer that did not arrive, or not whole."""

# No byte of the request has left, so it cannot have had an effect.
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
# Sending again would fail in the same way.
_WRONG_URL = (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)


def pause_seconds(failures: int) -> float:
    """Return how long to wait after this many failures in a row: doubling, with jitter, bounded."""
    full = FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 16)
    return min(full, PAUSE_SECONDS_MAX) * random.uniform(0.5, 1.0)


_GONE = (404, 410, 412)
"""The object does not exist, or another one has its id now."""


@dataclass(slots=True)
class Attempts:
    """Counts the attempts of one request, and remembers whether one may have had an effect.

    ``failed`` and ``refused`` return how many seconds to wait before the next attempt, or raise.
    """

    url: str
    retries: int
    failures: int = 0
    outcome_unknown: bool = False

    def is_done(self, call: ApiCall[T], answer: httpx2.Response) -> bool:
        """Say whether an answer proves that the call was carried out, by this attempt or an earlier one."""
        # A repeated deletion that finds nothing has succeeded if the first one may have had its effect.
        gone = call.gone_is_done and self.outcome_unknown and answer.status_code in _GONE
        return answer.is_success or gone

    def failed(self, error: Exception) -> float:
        """Count an attempt without an answer."""
        self.failures += 1
        if not isinstance(error, _NEVER_SENT):
            self.outcome_unknown = True
        final = isinstance(error, _WRONG_URL) or connection_problems.is_final(error)
        if final or self.failures > self.retries:
            raise ConnectionFailedError(
                self.url,
                connection_problems.reason_of(error, self.url),
                attempts=self.failures,
                outcome_unknown=self.outcome_unknown,
                is_final=final,
            ) from error
        return pause_seconds(self.failures)

    def refused(self, answer: httpx2.Response) -> float:
        """Count an attempt that was refused."""
        self.failures += 1
        status = answer.status_code
        if status >= 500:  # it may come from a proxy, after the server has carried the request out
            self.outcome_unknown = True
        asked = retry_after(answer) or 0.0
        final = (
            status not in RETRIED_STATUSES
            or answer.headers.get("x-should-retry") == "false"
            or asked > RETRY_AFTER_SECONDS_MAX
        )
        if final or self.failures > self.retries:
            raise error_of(answer, outcome_unknown=self.outcome_unknown)
        # A server says when it is ready, not how many clients wait for that: the own pause spreads them.
        return max(asked, pause_seconds(self.failures))

    def succeeded(self) -> None:
        """Start counting again: only failures in a row count."""
        self.failures = 0
