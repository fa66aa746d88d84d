"""The applications of all partitions: those of this process at hand, all others over links."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import LinkDownError, LinkLostError, OutcomeUnknownError
from durable_sessions.http.api.app import Application
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.carrier.message import Answer, Request
from durable_sessions.limits import Limits
from durable_sessions.node.engine_keeper import EngineKeeper
from durable_sessions.node.link import NodeLink
from durable_sessions.node.worker_id import WorkerId

_READING = (b"GET", b"HEAD")
_ONCE_HEADERS = (b"producer-id", b"idempotency-key")
"""Headers with which a repeated append takes effect once."""


class _Event(msgspec.Struct):
    id: msgspec.Raw = lenient.NULL


class _Events(msgspec.Struct):
    events: list[_Event] = []


_EVENTS = msgspec.json.Decoder(_Events)


class Peers:
    """Asks the owner of a partition; ``links`` are those to other workers, by number.

    If the link to an owner is lost, a request that may be repeated is sent again, once. Of any other it is
    unknown whether it took effect, and the answer says so.
    """

    def __init__(
        self,
        worker: WorkerId,
        keepers: Mapping[int, EngineKeeper],
        links: Mapping[int, NodeLink],
        limits: Limits,
    ) -> None:
        self._worker = worker
        self._keepers = keepers
        self._front = next(iter(keepers.values()))
        self._links = links
        self._parser = BodyParser(limits)

    @property
    def app(self) -> Application:
        """The application of a partition of this process, for requests that any can answer."""
        return self._front.engine.app

    def ask(self, partition: int, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request with the application of a partition."""
        keeper = self._keepers.get(partition)
        if keeper is not None:
            return keeper.engine.app.answer_router(request)
        return self._ask_owner(partition, request)

    async def _ask_owner(self, partition: int, request: Request) -> Answer:
        link = self._links[self._worker.owner(partition)]
        try:
            try:
                return await link.ask(partition, request)
            except LinkLostError as error:
                if not await self._may_repeat(request):
                    raise OutcomeUnknownError(reason=str(error.fields["reason"])) from None
            return await link.ask(partition, request)
        except (LinkDownError, LinkLostError, OutcomeUnknownError) as error:
            return self.app.refuse(request, error)

    async def _may_repeat(self, request: Request) -> bool:
        if request.method in _READING or any(name in request.headers for name in _ONCE_HEADERS):
            return True
        return await self._parser.parsed(request.body, names_every_event, request.body)


def names_every_event(body: bytes) -> bool:
    """Say whether every event of a body has an id, so that it is stored once however often it is sent."""
    try:
        events: Sequence[_Event] = lenient.decode(_EVENTS, body).events
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return bool(events) and all(lenient.text(event.id) for event in events)


async def close_links(links: Mapping[int, NodeLink]) -> None:
    """Close all links."""
    await asyncio.gather(*(link.close() for link in links.values()))
