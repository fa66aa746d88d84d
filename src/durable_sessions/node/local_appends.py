"""The fast path of a process: the most common appends, of streams and sessions whose partition is here.

An append that is for another process is not taken, so that its connection can move there. Nor is one to a
stream that was placed away from the home of its name: home does not have it, and takes nothing that is not in
its memory.
"""

from collections.abc import Callable

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.error_responses import refusal_at
from durable_sessions.http.api.fast_appends import FastAppends
from durable_sessions.http.carrier.message import Request, Response, Waiting
from durable_sessions.node.targets import append_home

LocalApplication = Callable[[int], Application | None]
"""Returns the application of a partition, None if this process does not answer for it."""


class LocalAppends:
    """Gives appends to the partitions of this process, of ``of``; ``front`` knows the keys of callers.

    Both are asked every time, since engines are opened again.
    """

    def __init__(self, of: int, front: Callable[[], Application | None], local: LocalApplication) -> None:
        self._of = of
        self._front = front
        self._local = local

    def common(self, request: Request) -> object | None:
        """Return what all requests with these headers have in common, None if each must be handled."""
        front = self._front()
        return None if front is None else front.fast_appends.common(request)

    def take(self, common: object, target: bytes, body: bytes, waiting: Waiting) -> bool:
        """Take an append if nothing can refuse it, and tell ``waiting`` when it is durable."""
        front = self._front()
        if front is None:
            return False
        caller = front.fast_appends.caller(common)
        if caller is None:
            return False
        appends = front.fast_appends if self._of == 1 else self._home(caller.workspace, target)
        return appends is not None and appends.take(common, caller, target, body, waiting)

    def refusal(
        self, common: object, target: bytes, error: DurableSessionsError, request_id: bytes
    ) -> Response:
        """Return the answer to an append that was taken, and has failed."""
        front = self._front()
        if front is None:
            return refusal_at(target, error, request_id)
        caller = front.fast_appends.caller(common)
        appends = None
        if caller is not None and self._of > 1:
            appends = self._home(caller.workspace, target)
        return (appends or front.fast_appends).refusal(caller, target, error, request_id)

    def _home(self, workspace: str, target: bytes) -> FastAppends | None:
        home = self._local(append_home(workspace, target, self._of))
        return None if home is None else home.fast_appends
