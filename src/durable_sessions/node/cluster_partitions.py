"""The partitions of a cluster as its router asks them: those of this node at hand, all others over links."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

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
from durable_sessions.http.api.app import Application
from durable_sessions.http.carrier.message import Answer, Later, Request, Response, StreamingResponse
from durable_sessions.limits import Limits
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_address import TcpAddress
from durable_sessions.node.link_tls import LinkTls
from durable_sessions.node.peers import RepeatRule
from durable_sessions.node.serving import Serving

ENTRANCE = 255
"""Where a node that owns nothing sends a request as it came: the node that gets it acts as its entrance."""
_LOOK_SECONDS = 0.05
_LINK_HOLD_SECONDS = 0.25
"""How long one link is waited for before it is asked anew who owns the partition: that may have changed."""
_REPEATED = tuple(f'"{code}"'.encode() for code in (PartitionMovedError.code, LinkDownError.code))
"""Refusals that say that a request has certainly changed nothing, and that another node may answer it."""


class ClusterView(Protocol):
    """Who owns what, as this node knows it."""

    def serving(self, partition: int) -> Serving | None:
        """Return what answers for a partition that this node owns."""
        ...

    def owner(self, partition: int) -> NodeHeartbeat | None:
        """Return which other node owns a partition, or for ``ENTRANCE``, any that owns one."""
        ...

    def enter(self, request: Request) -> Answer | Awaitable[Answer] | None:
        """Answer a request as its entrance; None if this node owns nothing and so cannot."""
        ...

    @property
    def app(self) -> Application:
        """The application of a partition of this node."""
        ...

    @property
    def url(self) -> str:
        """Where clients reach this node."""
        ...


class ClusterPartitions:
    """Asks the owner of a partition, wherever it is now.

    While a partition has no owner, requests for it wait for a short time and up to a limit. What an owner
    refuses because the partition has moved, and what may be repeated after a lost connection, is asked again
    of the next owner.
    """

    def __init__(
        self, view: ClusterView, secrets: Sequence[bytes], limits: Limits, tls: LinkTls | None = None
    ) -> None:
        self._view = view
        self._secrets = secrets
        self._limits = limits
        self._tls = tls
        self._link_limits = replace(limits, link_hold_seconds_max=_LINK_HOLD_SECONDS)
        self._repeat = RepeatRule(limits)
        self._links: dict[str, NodeLink] = {}
        self._held: Counter[int] = Counter()
        self._held_bytes: Counter[int] = Counter()
        self._news = asyncio.Event()
        self.forwarded = 0

    @property
    def app(self) -> Application:
        """The application of a partition of this node, for requests that any can answer."""
        return self._view.app

    @property
    def held(self) -> int:
        """How many requests wait for an owner now."""
        return self._held.total()

    def ask(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request with the application of a partition."""
        serving = self._view.serving(partition)
        if serving is None:
            return self.forward(partition, request)
        return self._unless_moved(partition, request, serving.answer(request))

    def route(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request of a client, or send it to the owner of the partition if it may go there."""
        if request.may_redirect and self._view.serving(partition) is None:
            owner = self._view.owner(partition)
            # Behind one address for all nodes, a client that was sent there could come back here for ever.
            if owner is not None and owner.url != self._view.url:
                return _redirected(owner.url, request)
        return self.ask(partition, request)

    def notify(self) -> None:
        """Let waiting requests look again who owns their partition."""
        self._news.set()
        self._news = asyncio.Event()

    async def forward(self, partition: int, request: Request) -> Answer:
        """Return the answer of whoever owns the partition, or say why there is none."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.link_hold_seconds_max
        may_have_changed: LinkLostError | None = None
        while True:
            try:
                answer = await self._asked(partition, request)
                if not _is_moved(answer):
                    return answer
                error: DurableSessionsError = LinkDownError(reason="no node owns it now")
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
            if not await self._held_for_a_moment(partition, request):
                what = "requests that wait for an owner of their partition"
                return self._refused(request, OverloadedError(what=what))

    def _unless_moved(
        self, partition: int, request: Request, answer: Answer | Awaitable[Answer]
    ) -> Answer | Awaitable[Answer]:
        """Return an answer of this node itself, or the next owner's if the partition has moved meanwhile."""
        if isinstance(answer, Response | StreamingResponse):
            return self.forward(partition, request) if _is_moved(answer) else answer
        if isinstance(answer, Later):
            return Later(answer.future, partial(self._responded, partition, request, answer.respond))
        return self._awaited(partition, request, answer)

    def _responded(
        self,
        partition: int,
        request: Request,
        respond: "Callable[[asyncio.Future[object]], Answer | Awaitable[Answer]]",
        future: "asyncio.Future[object]",
    ) -> Answer | Awaitable[Answer]:
        return self._unless_moved(partition, request, respond(future))

    async def _awaited(self, partition: int, request: Request, answer: Awaitable[Answer]) -> Answer:
        checked = self._unless_moved(partition, request, await answer)
        return checked if isinstance(checked, Response | StreamingResponse) else await checked

    async def _asked(self, partition: int, request: Request) -> Answer:
        own = self._own_answer(partition, request)
        if own is not None:
            return own if isinstance(own, Response | StreamingResponse) else await own
        owner = self._view.owner(partition)
        if owner is None:
            raise LinkDownError(reason="no node owns it now")
        self.forwarded += 1
        return await self.link(owner.link).ask(partition, request)

    def _own_answer(self, partition: int, request: Request) -> Answer | Awaitable[Answer] | None:
        """Answer with what this node has; it may have become the owner while the request waited."""
        if partition == ENTRANCE:
            return self._view.enter(request)
        serving = self._view.serving(partition)
        return None if serving is None else serving.answer(request)

    async def _held_for_a_moment(self, partition: int, request: Request) -> bool:
        """Wait for news, or a moment; return False if too many wait already."""
        size = request.size()
        if (
            self._held[partition] >= self._limits.link_held_requests_max
            or self._held_bytes[partition] + size > self._limits.link_held_bytes_max
        ):
            return False
        self._held[partition] += 1
        self._held_bytes[partition] += size
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._news.wait()
        except TimeoutError:
            pass
        finally:
            self._held[partition] -= 1
            self._held_bytes[partition] -= size
        return True

    def link(self, address: str) -> NodeLink:
        """Return the link to the node at an address."""
        link = self._links.get(address)
        if link is None:
            where = TcpAddress.parse(address, self._tls)
            link = self._links[address] = NodeLink(where, self._secrets, self._link_limits)
        return link

    async def keep_links(self, addresses: Iterable[str]) -> list[NodeLink]:
        """Return the links to these nodes, and close those to all others."""
        kept = {address: self.link(address) for address in addresses}
        gone = [link for address, link in self._links.items() if address not in kept]
        self._links = kept
        await asyncio.gather(*(link.close() for link in gone))
        return list(kept.values())

    def _refused(self, request: Request, error: DurableSessionsError) -> Response:
        return ANSWER_FORMAT.refuse(request.path, error, request.id)

    async def close(self) -> None:
        """Close the links; requests under way fail."""
        await self.keep_links(())


def _redirected(url: str, request: Request) -> Response:
    """Return the answer that names another node, which a client repeats its request to as it is."""
    query = b"?" + request.query if request.query else b""
    return Response(307, [(b"Location", url.encode() + request.path + query)])


def _is_moved(answer: Answer) -> bool:
    return (
        isinstance(answer, Response)
        and answer.status == 503
        and any(code in answer.body for code in _REPEATED)
    )
