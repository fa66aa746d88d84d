"""The applications of all partitions: those of this process at hand, all others over links."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import LinkDownError, LinkLostError, OutcomeUnknownError, OverloadedError
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.carrier.message import Answer, HandOver, Later, Request, Waiting
from durable_sessions.http.paths import API_ROOT, STREAM_ROOT
from durable_sessions.limits import Limits
from durable_sessions.node.engine_keeper import EngineKeeper
from durable_sessions.node.handover import HandOverSender
from durable_sessions.node.link import NodeLink
from durable_sessions.node.link_frames import PlainFrame
from durable_sessions.node.worker_id import WorkerId

_READING = (b"GET", b"HEAD")
_PRODUCER, _IDEMPOTENCY_KEY = b"producer-id", b"idempotency-key"
_TAIL_CONDITIONS = (b"if-match", b"stream-seq")
_SESSION_ROOT = API_ROOT + b"sessions/"


class _Event(msgspec.Struct):
    id: msgspec.Raw = lenient.NULL


class _Events(msgspec.Struct):
    events: list[_Event] = []


_EVENTS = msgspec.json.Decoder(_Events)


class Peers:
    """Asks the owner of a partition; ``links`` and ``senders`` are those to other workers, by number.

    If the link to an owner is lost, a request that may be repeated is sent again, once. Of any other it is
    unknown whether it took effect, and the answer says so.
    """

    def __init__(
        self,
        worker: WorkerId,
        keepers: Mapping[int, EngineKeeper],
        links: Mapping[int, NodeLink],
        senders: Mapping[int, HandOverSender],
        limits: Limits,
    ) -> None:
        self._worker = worker
        self._keepers = keepers
        self._front = next(iter(keepers.values()))
        self._links = links
        self._senders = senders
        self._repeat = RepeatRule(limits)

    @property
    def app(self) -> Application:
        """The application of a partition of this process, for requests that any can answer."""
        return self._front.engine.app

    def ask(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request with the application of a partition."""
        keeper = self._keepers.get(partition)
        if keeper is not None:
            return keeper.engine.answer(request)
        return self._forward(partition, request)

    def route(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a client's request; its connection moves to the worker that has the partition, if it can."""
        keeper = self._keepers.get(partition)
        if keeper is not None:
            return keeper.engine.answer(request)
        sender = self._senders[self._worker.owner(partition)]
        return HandOver(sender.give, partial(self._forward, partition, request))

    def pass_on(self, sent: PlainFrame, waiting: Waiting) -> bool:
        """Pass a plain append on to the owner of its partition, if the link to it is open."""
        return self._links[self._worker.owner(sent.partition)].ask_plain(sent, waiting)

    def _forward(self, partition: int, request: Request) -> Later[Answer]:
        """Ask the owner of a partition; nothing but the answer is waited for, so that no task is needed."""
        link = self._links[self._worker.owner(partition)]
        return Later(link.ask(partition, request), partial(self._forwarded, link, partition, request))

    def _forwarded(
        self, link: NodeLink, partition: int, request: Request, asked: "asyncio.Future[Answer]"
    ) -> Answer | Awaitable[Answer]:
        error = asked.exception()
        if isinstance(error, LinkLostError):
            return self._repeated(link, partition, request, error)
        if isinstance(error, LinkDownError | OverloadedError):
            return self.app.refuse(request, error)
        return asked.result()

    async def _repeated(
        self, link: NodeLink, partition: int, request: Request, lost: LinkLostError
    ) -> Answer:
        """Send a request again whose link was lost, if it may be repeated."""
        reason = str(lost.fields["reason"])
        try:
            if self._repeat.is_reading(request):
                return await self._ask_again(link, partition, request)
            if not await self._repeat.allows(request):
                raise OutcomeUnknownError(reason=reason)
            try:
                return await self._ask_again(link, partition, request)
            except (LinkDownError, OverloadedError):  # of the second try: the first may have taken effect
                raise OutcomeUnknownError(reason=reason) from None
        except (LinkDownError, OverloadedError, OutcomeUnknownError) as error:
            return self.app.refuse(request, error)

    async def _ask_again(self, link: NodeLink, partition: int, request: Request) -> Answer:
        try:
            return await link.ask(partition, request)
        except LinkLostError as error:
            raise LinkDownError(reason=error.fields["reason"]) from None


class RepeatRule:
    """Decides whether a request may be sent again when it is unknown whether it took effect."""

    def __init__(self, limits: Limits) -> None:
        self._parser = BodyParser(limits)

    def is_reading(self, request: Request) -> bool:
        """Say whether a request changes nothing."""
        return request.method in _READING

    async def allows(self, request: Request) -> bool:
        """Say whether a request takes effect once, however often it is sent."""
        if self.is_reading(request):
            return True
        if request.method != b"POST":
            return False
        headers = request.headers
        if _is_append_of_events(request.path):
            if _PRODUCER in headers or _IDEMPOTENCY_KEY in headers:
                return True
            # Events with ids are stored once, but a repeat does not meet a condition that named the tail
            # before them: its refusal would say that nothing was stored.
            if any(name in headers for name in _TAIL_CONDITIONS):
                return False
            return await self._parser.parsed(request.body, names_every_event, request.body)
        # A stream knows producers alone. Keys and ids mean nothing to it, and it refuses a Stream-Seq that
        # has been stored as it refuses one that was used by somebody else.
        return request.path.startswith(STREAM_ROOT) and _PRODUCER in headers


def _is_append_of_events(path: bytes) -> bool:
    return path.startswith(_SESSION_ROOT) and path.endswith(b"/events")


def names_every_event(body: bytes) -> bool:
    """Say whether every event of a body has an id, so that it is stored once however often it is sent."""
    try:
        events: Sequence[_Event] = lenient.decode(_EVENTS, body).events
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return bool(events) and all(lenient.text(event.id) for event in events)
