"""Operations that ask every partition and merge the answers: lists, searches, health, flush and the like."""

import asyncio
from collections.abc import Mapping

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import DurableSessionsError, LinkDownError, OutcomeUnknownError
from durable_sessions.http.api.internal import FLUSH, REINDEX, STATUS
from durable_sessions.http.api.server_status import STATUSES, StatusPart, merged_status
from durable_sessions.http.api.sessions.live_list import LiveLists
from durable_sessions.http.api.sessions.merged_approvals import MergedApprovals
from durable_sessions.http.api.sessions.merged_listing import MergedListing
from durable_sessions.http.api.sessions.merged_live_list import MergedChanges
from durable_sessions.http.api.sessions.merged_rows import part_request
from durable_sessions.http.api.sessions.merged_search import MergedSearch
from durable_sessions.http.api.sessions.page_tokens import UNSEALED, PageTokens
from durable_sessions.http.api.sessions.usages import MergedUsages
from durable_sessions.http.bodies.operations import (
    FlushResult,
    PartitionFlush,
    Readiness,
    Reindexing,
    SearchReadiness,
)
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.limits import Limits
from durable_sessions.node.merged_metrics import merged_metrics
from durable_sessions.node.partitions import Partitions, answered, gathered
from durable_sessions.node.router import Every, Operation
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.partition_id import PartitionId

_SEARCH_STATES = ("ready", "building", "paused", "failing")
_UNAVAILABLE = LinkDownError.code.encode()
_JSON: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]


class MergedOperations:
    """Answers for all partitions; if one of them refuses, its refusal is the answer.

    ``handlers`` is the table of these operations, by method and path.
    """

    def __init__(
        self,
        partitions: Partitions,
        worker: WorkerId,
        own: PartitionId,
        limits: Limits,
        tokens: PageTokens = UNSEALED,
    ) -> None:
        self._partitions = partitions
        self._worker = worker
        self._all = own.all()
        changes = MergedChanges(self._ask_one, range(own.of), limits)
        self._live_lists = LiveLists(changes.follow, limits)
        search = MergedSearch(self._ask_one, range(own.of), limits, tokens)
        self.handlers: Mapping[Operation, Every] = {
            (b"GET", b"/v1/sessions"): MergedListing(
                self._ask_one, range(own.of), self._follow_sessions, limits, tokens
            ),
            (b"GET", b"/v1/search"): search,
            (b"GET", b"/v1/approvals"): MergedApprovals(self._ask_one, range(own.of), search, limits),
            (b"GET", b"/v1/usage"): MergedUsages(self._ask_one, range(own.of), limits, tokens),
            (b"GET", b"/readyz"): self._ready,
            (b"GET", b"/metrics"): self._metrics,
            (b"GET", b"/v1/admin/status"): self._status,
            (b"POST", b"/v1/admin/flush"): self._flush,
            (b"POST", b"/v1/admin/reindex"): self._reindex,
        }

    async def _ask_one(self, partition: int, request: Request) -> Answer:
        return await answered(self._partitions.ask(partition, request))

    async def _follow_sessions(self, request: Request) -> Answer:
        return await self._partitions.app.follow_sessions(request, self._live_lists)

    async def _ask(self, request: Request) -> dict[PartitionId, Response]:
        answers = await gathered(self._partitions, [one.number for one in self._all], request)
        found: dict[PartitionId, Response] = {}
        for partition, answer in zip(self._all, answers, strict=True):
            assert isinstance(answer, Response), "none of these operations streams its answer"
            found[partition] = answer
        return found

    async def _ready(self, request: Request) -> Answer:
        answers = await self._ask(request)
        said = {partition.digits: _readiness(answer) for partition, answer in answers.items()}
        worst = max(said.values(), key=lambda one: STATUSES.index(one.status))
        search = _searches([one.search for one in said.values()])
        whole = msgspec.structs.replace(worst, search=search, partitions=said)
        status = max(answer.status for answer in answers.values())
        return Response(status, next(iter(answers.values())).headers, msgspec.json.encode(whole))

    async def _status(self, request: Request) -> Answer:
        """Tell of all partitions; those that do not answer are named."""
        app, caller = self._partitions.app, request.caller
        assert isinstance(caller, Caller), "what is below /v1 was authenticated"
        try:
            app.operations.require_operator(caller)
        except DurableSessionsError as error:
            return app.refuse(request, error)
        answers = await self._ask(part_request(request, STATUS, b""))
        parts = {at.digits: _status_part(said) for at, said in answers.items()}
        return Response(200, _JSON, merged_status(parts, app.operations.key_counts()))

    async def _flush(self, request: Request) -> Answer:
        # Recorded here, once for the server: the internal operations of the partitions record nothing.
        answers = await self._order(request, "flush", FLUSH)
        if isinstance(answers, Response):
            return answers
        said = {
            partition.digits: msgspec.msgpack.decode(answer.body, type=PartitionFlush)
            for partition, answer in answers.items()
        }
        first = next(iter(said.values()))
        whole = FlushResult(first.manifest, first.flushed_through, said)
        return Response(200, _JSON, msgspec.json.encode(whole))

    async def _reindex(self, request: Request) -> Answer:
        answers = await self._order(request, "reindex", REINDEX)
        if isinstance(answers, Response):
            return answers
        return Response(202, _JSON, msgspec.json.encode(Reindexing("building")))

    async def _order(self, request: Request, act: str, path: bytes) -> dict[PartitionId, Response] | Response:
        """Have an operator's act carried out by all partitions, and recorded once; or return the refusal."""
        app, caller = self._partitions.app, request.caller
        assert isinstance(caller, Caller), "what is below /v1 was authenticated"
        try:
            await app.operations.admit(request, caller, act)
        except DurableSessionsError as error:
            return app.refuse(request, error)
        order = Request(b"POST", path, b"", {}, b"")
        order.id, order.caller = request.id, caller
        answers = await self._ask(order)
        refused = _refusal(answers)
        done = any(answer.status < 400 for answer in answers.values())
        if refused is not None and done and _UNAVAILABLE in refused.body:
            # Others have done it, so "this request changed nothing" would be wrong.
            reason = "one of the partitions cannot be reached: send it again, which does no harm"
            return app.refuse(request, OutcomeUnknownError(reason=reason))
        return refused or answers

    async def _metrics(self, request: Request) -> Answer:
        """Answer with the metrics of all; those of a process have its number, all others their partition."""
        answers = await self._ask(request)
        if (refused := _refusal(answers)) is not None:
            return refused
        # In a thread: of a hundred partitions, parsing takes longer than the event loop may be held.
        text = await asyncio.to_thread(merged_metrics, answers, self._worker)
        return Response(200, next(iter(answers.values())).headers, text)


def _searches(said: list[SearchReadiness]) -> SearchReadiness:
    """Return how far the search indexes of all partitions are together."""
    worst = max(said, key=lambda one: _SEARCH_STATES.index(one.state))
    if worst.state != "building":
        return worst
    building = [one for one in said if one.state == "building"]
    events = sum(one.events or 0 for one in building)
    return SearchReadiness("building", events, sum(one.events_left or 0 for one in building))


def _readiness(answer: Response) -> Readiness:
    """Return what a partition says of itself; one that cannot be asked is not ready."""
    try:
        return msgspec.json.decode(answer.body, type=Readiness)
    except msgspec.MsgspecError:
        return Readiness("not ready", SearchReadiness("failing"), reason="its process cannot be reached")


def _status_part(answer: Response) -> StatusPart | str:
    """Return what a partition tells of itself, or why it does not."""
    try:
        if answer.status == 200:
            return msgspec.msgpack.decode(answer.body, type=StatusPart)
        return str(msgspec.json.decode(answer.body)["error"]["message"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return f"It has answered {answer.status}."


def _refusal(answers: Mapping[PartitionId, Response]) -> Response | None:
    return next((answer for answer in answers.values() if answer.status >= 400), None)
