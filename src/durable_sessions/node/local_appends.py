"""The fast path of a process: the most common appends, given to the partition that is the home of their name.

An append for another process is not taken while its connection can move there. If it has just moved, the
append is passed on as it is. One to a stream that was placed away from the home of its name is always
handled: home does not have it, and takes nothing that is not in its memory.
"""

from collections.abc import Callable

from durable_sessions.access.caller import Caller
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.error_responses import refusal_at
from durable_sessions.http.api.fast_appends import CommonHead, FastAppends
from durable_sessions.http.carrier.message import Request, Response, Waiting
from durable_sessions.node.link_frames import PlainFrame
from durable_sessions.node.targets import append_home
from durable_sessions.storage.door import Told

LocalApplication = Callable[[int], Application | None]
"""Returns the application of a partition, None if this process does not answer for it."""
PassOn = Callable[[PlainFrame, Waiting], bool]
"""Passes an append on to the process that has its partition, if that is possible at once."""


class LocalAppends:
    """Gives appends to the partitions of this process, of ``of``; ``front`` knows the keys of callers.

    Both are asked every time, since engines are opened again. ``pass_on`` is None if there is nobody else.
    """

    def __init__(
        self,
        of: int,
        front: Callable[[], Application | None],
        local: LocalApplication,
        pass_on: PassOn | None = None,
    ) -> None:
        self._of = of
        self._front = front
        self._local = local
        self._pass_on = pass_on

    def common(self, request: Request) -> object | None:
        """Return what all requests with these headers have in common, None if each must be handled."""
        front = self._front()
        return None if front is None else front.fast_appends.common(request)

    def take(self, common: object, target: bytes, body: bytes, waiting: Waiting) -> bool:
        """Take an append if nothing can refuse it, and tell ``waiting`` when it is durable."""
        assert type(common) is CommonHead
        front = self._front()
        if front is None:
            return False
        caller = front.fast_appends.caller(common)
        if caller is None:
            return False
        if self._of == 1:
            return front.fast_appends.take(caller, common.content_type, target, body, waiting)
        home = append_home(caller.workspace, target, self._of)
        local = self._local(home)
        if local is not None:
            return local.fast_appends.take(caller, common.content_type, target, body, waiting)
        if self._pass_on is None or home < 0 or not waiting.is_settled:
            return False
        return self._pass_on(
            PlainFrame(home, waiting.request_id, caller, common.content_type, target, body), waiting
        )

    def refusal(
        self, common: object, target: bytes, error: DurableSessionsError, request_id: bytes
    ) -> Response:
        """Return the answer to an append that was taken, and has failed."""
        assert type(common) is CommonHead
        front = self._front()
        if front is None:
            return refusal_at(target, error, request_id)
        caller = front.fast_appends.caller(common)
        return (self._at_home(caller, target) or front.fast_appends).refusal(
            caller, target, error, request_id
        )

    def whole(self, common: object, target: bytes, body: bytes) -> Request:
        """Return a request that was taken as the handler gets it."""
        assert type(common) is CommonHead
        return Request(b"POST", target, b"", dict(common.headers), body)

    # Appends that other processes pass on -----------------------------------------------

    def take_sent(self, sent: PlainFrame, told: Told[bytes]) -> bool:
        """Take an append, and tell later what became of it; or say that nothing was done."""
        local = self._local(sent.partition)
        if local is None:
            return False
        return local.fast_appends.take(sent.caller, sent.content_type, sent.path, sent.body, told)

    def refuse_sent(self, sent: PlainFrame, error: DurableSessionsError) -> Response:
        """Return the answer to an append that was taken, and has failed."""
        local = self._local(sent.partition)
        if local is None:
            return refusal_at(sent.path, error, sent.id)
        return local.fast_appends.refusal(sent.caller, sent.path, error, sent.id)

    def _at_home(self, caller: Caller | None, target: bytes) -> FastAppends | None:
        if caller is None or self._of == 1:
            return None
        home = self._local(append_home(caller.workspace, target, self._of))
        return None if home is None else home.fast_appends
