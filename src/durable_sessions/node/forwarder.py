"""A node of a cluster while another one owns the log: it passes requests on to the owner."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from durable_sessions.cluster.heartbeat import NodeHeartbeat
from durable_sessions.errors import (
    DurableSessionsError,
    LinkDownError,
    LinkLostError,
    OutcomeUnknownError,
    OverloadedError,
    PartitionMovedError,
)
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Answer, Later, Request, Response, StreamingResponse
from durable_sessions.limits import Limits
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_address import TcpAddress
from durable_sessions.node.peers import RepeatRule
from durable_sessions.node.serving import Serving

_LOOK_SECONDS = 0.05
_REPEATED = tuple(f'"{code}"'.encode() for code in (PartitionMovedError.code, LinkDownError.code))
"""Refusals that say that a request has certainly changed nothing, and that another node may answer it."""
OWNER_PARTITION = 0


class Forwarder:
    """Asks the owner of the log; ``owner`` tells which other node that is now, None while none is.

    ``own`` returns what answers if this node has become the owner meanwhile.

    While there is none, requests wait for a short time and up to a limit. What the owner refuses because the
    log has moved, and what may be repeated after a lost connection, is asked again of the next owner.
    """

    def __init__(
        self,
        owner: Callable[[], NodeHeartbeat | None],
        own: Callable[[], Serving | None],
        secret: bytes,
        limits: Limits,
    ) -> None:
        self._owner = owner
        self._own = own
        self._secret = secret
        self._limits = limits
        self._repeat = RepeatRule(limits)
        self._links: dict[str, NodeLink] = {}
        self._held = self._held_bytes = 0
        self.forwarded = 0

    async def forward(self, request: Request) -> Answer:
        """Return the owner's answer, or say why there is none."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.link_hold_seconds_max
        may_have_changed: LinkLostError | None = None
        while True:
            try:
                answer = await self._asked(request)
                if not _is_moved(answer):
                    return answer
                error: DurableSessionsError = LinkDownError(reason="no node owns the log now")
            except LinkLostError as lost:
                error = lost
                if not await self._repeat.allows(request):
                    return self._refused(request, OutcomeUnknownError(reason=str(lost.fields["reason"])))
                may_have_changed = lost
            except LinkDownError as down:
                error = down
            except OverloadedError as overloaded:
                return self._refused(request, overloaded)
            if loop.time() >= deadline:
                if may_have_changed is not None and not self._repeat.is_reading(request):
                    error = OutcomeUnknownError(reason=str(may_have_changed.fields["reason"]))
                elif isinstance(error, LinkLostError):
                    error = LinkDownError(reason=str(error.fields["reason"]))
                return self._refused(request, error)
            if not await self._held_for_a_moment(request):
                what = "requests that wait for an owner of the log"
                return self._refused(request, OverloadedError(what=what))

    def unless_moved(
        self, request: Request, answer: Answer | Awaitable[Answer]
    ) -> Answer | Awaitable[Answer]:
        """Return an answer of this node itself, or the next owner's if the log has moved there meanwhile."""
        if isinstance(answer, Response | StreamingResponse):
            return self.forward(request) if _is_moved(answer) else answer
        if isinstance(answer, Later):
            return Later(answer.future, partial(self._responded, request, answer.respond))
        return self._awaited(request, answer)

    def _responded(
        self,
        request: Request,
        respond: "Callable[[asyncio.Future[object]], Answer | Awaitable[Answer]]",
        future: "asyncio.Future[object]",
    ) -> Answer | Awaitable[Answer]:
        return self.unless_moved(request, respond(future))

    async def _awaited(self, request: Request, answer: Awaitable[Answer]) -> Answer:
        checked = self.unless_moved(request, await answer)
        return checked if isinstance(checked, Response | StreamingResponse) else await checked

    async def _asked(self, request: Request) -> Answer:
        own = self._own()
        if own is not None:
            answer = own.answer(request)
            return answer if isinstance(answer, Response | StreamingResponse) else await answer
        owner = self._owner()
        if owner is None:
            raise LinkDownError(reason="no node owns the log now")
        self.forwarded += 1
        return await self._link(owner).ask(OWNER_PARTITION, request)

    async def _held_for_a_moment(self, request: Request) -> bool:
        """Wait for a moment; return False if too many wait already."""
        size = request.size()
        if (
            self._held >= self._limits.link_held_requests_max
            or self._held_bytes + size > self._limits.link_held_bytes_max
        ):
            return False
        self._held += 1
        self._held_bytes += size
        try:
            await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._held -= 1
            self._held_bytes -= size
        return True

    def _link(self, owner: NodeHeartbeat) -> NodeLink:
        link = self._links.get(owner.link)
        if link is None:
            link = self._links[owner.link] = NodeLink(
                TcpAddress.parse(owner.link), self._secret, self._limits
            )
        return link

    def _refused(self, request: Request, error: DurableSessionsError) -> Response:
        return ANSWER_FORMAT.refuse(request.path, error, request.id)

    async def close(self) -> None:
        """Close the links; requests under way fail."""
        await asyncio.gather(*(link.close() for link in self._links.values()))


def _is_moved(answer: Answer) -> bool:
    return (
        isinstance(answer, Response)
        and answer.status == 503
        and any(code in answer.body for code in _REPEATED)
    )
