"""The router: passes each request to the application of the partition that it is for."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.carrier.message import Answer, NamedStream, Request
from durable_sessions.http.paths import STREAM_ROOT, is_of_control
from durable_sessions.limits import Limits
from durable_sessions.managed_agents.claude_code_hooks import SESSION_PREFIX
from durable_sessions.node.named_requests import NamedRequests
from durable_sessions.node.partitions import Partitions, answered
from durable_sessions.node.targets import (
    RequestTarget,
    named_of,
    session_partition,
    stream_target,
    subscriptions_partition,
    target_of,
)
from durable_sessions.sessions.record import path_of
from durable_sessions.streams.stream import Key

Every = Callable[[Request], Awaitable[Answer]]
"""Answers a request from the data of all partitions."""
Operation = tuple[bytes, bytes]
"""A method and a path."""


class _Created(msgspec.Struct):
    """The member of a body that says which session is created."""

    id: msgspec.Raw = lenient.NULL


class _Hook(msgspec.Struct):
    """The member of a hook's payload that says which session it belongs to."""

    session_id: msgspec.Raw = lenient.NULL


_CREATED, _HOOK = msgspec.json.Decoder(_Created), msgspec.json.Decoder(_Hook)


class Router:
    """A ``Handler`` in front of ``of`` partitions; ``birthplace`` says where new sessions go.

    ``every`` answers, by method and path, what concerns all partitions.
    """

    def __init__(
        self,
        of: int,
        birthplace: Callable[[], int],
        partitions: Partitions,
        every: Mapping[Operation, Every],
        limits: Limits,
    ) -> None:
        self._birthplace = birthplace
        self._of = of
        self._partitions = partitions
        self._every = every
        self._parser = BodyParser(limits)
        self._named = NamedRequests(partitions, of, limits)

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request, synchronously where possible."""
        front = self._partitions.app
        return self._once_proven(request) if front.awaits_proof(request) else self._route(request, front)

    async def _once_proven(self, request: Request) -> Answer:
        """Answer a request that came after the keys had last been confirmed for too long."""
        await self._partitions.app.renew_proof()
        return await answered(self._route(request, self._partitions.app))

    def _route(self, request: Request, front: Application) -> Answer | Awaitable[Answer]:
        answer = front.enter(request)
        if answer is not None:
            return answer
        workspace = front.workspace_of(request)
        path = request.path
        if path.startswith(STREAM_ROOT) and workspace is not None and request.method != b"OPTIONS":
            # Most requests are of this kind, so that all that they need is found in one look-up.
            stream = stream_target(workspace, path, self._of)
            if stream is not None:
                request.named = stream.named
                return self._named.ask(stream.key, stream.partition, request)
        if is_of_control(request.path):
            if workspace is None:
                return front(request)
            return self._partitions.route(subscriptions_partition(workspace, self._of), request)
        target = target_of(workspace or "", request, self._of)
        if target >= 0:
            named = named_of(request)
            if named is None or workspace is None:
                return self._partitions.route(target, request)
            request.named = named  # so that the partition need not find it out again
            return self._named.ask(Key(workspace, named.path), target, request)
        if target == RequestTarget.EVERY:
            return self._ask_every(request)
        if target == RequestTarget.BODY and workspace is not None:
            return self._by_body(request, workspace)
        if target == RequestTarget.PARTS and workspace is not None:
            return front.refuse_parameters(request) or front.answer_in_parts(request, self._ask)
        return front(request)

    async def _ask(self, request: Request) -> Answer:
        """Answer a request that this server makes, in the name of a caller."""
        return await answered(self._route(request, self._partitions.app))

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
        if name is None or number < 0:
            # Without an id, or with one that cannot be, this process's own partition creates or refuses it.
            return await answered(self._partitions.ask(self._birthplace(), request))
        request.named = NamedStream(path_of(name))
        return await answered(self._named.ask(Key(workspace, request.named.path), number, request))


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
