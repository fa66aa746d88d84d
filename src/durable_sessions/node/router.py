"""The router: passes each request to the application of the partition that it is for."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.carrier.message import Answer, Request
from durable_sessions.http.paths import is_of_control
from durable_sessions.limits import Limits
from durable_sessions.managed_agents.claude_code_hooks import SESSION_PREFIX
from durable_sessions.node.targets import RequestTarget, session_partition, subscriptions_partition, target_of
from durable_sessions.partition_id import PartitionId

Every = Callable[[Request], Awaitable[Answer]]
"""Answers a request from the data of all partitions."""
Operation = tuple[bytes, bytes]
"""A method and a path."""


class Partitions(Protocol):
    """The applications of all partitions, those of other processes too."""

    def ask(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request with the application of a partition."""
        ...

    @property
    def app(self) -> Application:
        """The application of a partition of this process, for requests that any can answer."""
        ...


class _Created(msgspec.Struct):
    """The member of a body that says which session is created."""

    id: msgspec.Raw = lenient.NULL


class _Hook(msgspec.Struct):
    """The member of a hook's payload that says which session it belongs to."""

    session_id: msgspec.Raw = lenient.NULL


_CREATED, _HOOK = msgspec.json.Decoder(_Created), msgspec.json.Decoder(_Hook)


class Router:
    """A ``Handler`` in front of several partitions; ``own`` is the one that new sessions go to.

    ``every`` answers, by method and path, what concerns all partitions.
    """

    def __init__(
        self, own: PartitionId, partitions: Partitions, every: Mapping[Operation, Every], limits: Limits
    ) -> None:
        self._own = own.number
        self._of = own.of
        self._partitions = partitions
        self._every = every
        self._parser = BodyParser(limits)

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request, synchronously where possible."""
        front = self._partitions.app
        answer = front.enter(request)
        if answer is not None:
            return answer
        workspace = front.workspace_of(request)
        if is_of_control(request.path):
            if workspace is None:
                return front(request)
            return self._partitions.ask(subscriptions_partition(workspace, self._of), request)
        target = target_of(workspace or "", request, self._of)
        if target >= 0:
            return self._partitions.ask(target, request)
        if target == RequestTarget.EVERY:
            return self._ask_every(request)
        if target == RequestTarget.BODY and workspace is not None:
            return self._by_body(request, workspace)
        return front(request)

    def _ask_every(self, request: Request) -> Answer | Awaitable[Answer]:
        method = b"GET" if request.method == b"HEAD" else request.method
        answer = self._every.get((method, request.path))
        if answer is None:  # nothing serves it, which every application refuses alike
            return self._partitions.app(request)
        return self._partitions.app.refuse_parameters(request) or answer(request)

    async def _by_body(self, request: Request, workspace: str) -> Answer:
        """Answer a request whose body names the session; a new one without an id is created here."""
        try:
            name = await self._parser.parsed(request.body, _session_in, request)
        except DurableSessionsError as error:
            return self._partitions.app.refuse(request, error)
        number = RequestTarget.ANY if name is None else session_partition(workspace, name.encode(), self._of)
        # Without an id, or with one that cannot be, this process's own partition creates or refuses it.
        return await answered(self._partitions.ask(self._own if number < 0 else number, request))


async def answered(answer: Answer | Awaitable[Answer]) -> Answer:
    """Return an answer, when it is there."""
    return answer if isinstance(answer, Answer) else await answer


async def gathered(partitions: Partitions, numbers: list[int], request: Request) -> list[Answer]:
    """Return the answers of several partitions to the same request."""
    return await asyncio.gather(*(answered(partitions.ask(number, request)) for number in numbers))


def _session_in(request: Request) -> str | None:
    """Return the id that a body gives to a session, None if it has none or cannot be one."""
    hook = request.path != b"/v1/sessions"
    try:
        if hook:
            found = lenient.text(lenient.decode(_HOOK, request.body).session_id)
        else:
            found = lenient.text(lenient.decode(_CREATED, request.body).id)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None  # whoever is asked refuses the body
    if found is None:
        return None
    return SESSION_PREFIX + found if hook else found
