"""Health and metrics of a node of a cluster: whether it can route, and who owns what."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from prometheus_client.exposition import generate_latest

from durable_sessions.errors import LinkDownError, UnknownParameterError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.api.cluster_metrics import ClusterFigures, PartitionFigures, cluster_metrics
from durable_sessions.http.api.route_table import ROUTES
from durable_sessions.http.bodies.operations import Alive, PartitionOwner, Readiness, SearchReadiness
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.log.shared import boottime
from durable_sessions.node.cluster_partitions import ENTRANCE
from durable_sessions.node.merged_metrics import Collected, merged_metrics
from durable_sessions.node.owned_partition import OwnedPartition
from durable_sessions.node.partitions import answered
from durable_sessions.node.router import Every, Operation
from durable_sessions.node.worker_id import ONLY_WORKER
from durable_sessions.partition_id import PartitionId

if TYPE_CHECKING:
    from durable_sessions.node.cluster_node import ClusterNode

_JSON: list[Header] = [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")]
_LIVE, _READY, _METRICS = b"/livez", b"/readyz", b"/metrics"
_ALIVE = Response(200, [(b"Content-Type", b"application/json")], msgspec.json.encode(Alive("alive")))


class ClusterOperations:
    """Answers about one node, and counts what happens to its partitions."""

    def __init__(self, node: "ClusterNode") -> None:
        self._node = node
        self._figures = ClusterFigures()

    def took_over(self, seconds: float, *, planned: bool) -> None:
        """Note a partition that this node answers for from now on."""
        self._figures.takeovers["planned" if planned else "dead"] += 1
        self._figures.takeover_seconds = seconds

    def handed_over(self, seconds: float) -> None:
        """Note a partition that this node has given to another, and how long it answered nothing."""
        self._figures.handovers += 1
        self._figures.handover_pause_seconds = seconds

    def fenced(self) -> None:
        """Note a partition that another node has claimed."""
        self._figures.fenced += 1

    @property
    def handlers(self) -> Mapping[Operation, Every]:
        """The operations that this node answers for itself alone, by method and path."""
        return {(b"GET", _READY): self.ready, (b"GET", _METRICS): self.metrics}

    def serves(self, request: Request) -> bool:
        """Say whether a request is one of these operations."""
        return request.method in (b"GET", b"HEAD") and request.path in (_LIVE, _READY, _METRICS)

    async def answer(self, request: Request) -> Answer:
        """Answer one of these operations."""
        try:
            ROUTES.check_parameters(request)
        except UnknownParameterError as error:
            return ANSWER_FORMAT.refuse(request.path, error, request.id)
        if request.path == _LIVE:
            return _ALIVE
        return await (self.ready if request.path == _READY else self.metrics)(request)

    async def ready(self, request: Request) -> Answer:
        """Say whether this node can take requests: its own partitions need not work for that."""
        node = self._node
        front = node.front
        unproven = not await node.keys_proven()
        can_route = front is not None or node.owner(ENTRANCE) is not None
        known = front is not None and front.operations.is_known(request)
        said = Readiness("ready", SearchReadiness("ready"))
        if front is not None:
            searches = [one.engine.app.operations.searchable(detailed=known) for one in self._serving()]
            said.search = next((one for one in searches if one.state != "ready"), said.search)
        if node.draining or unproven or not can_route:
            said.status = "not ready"
            said.reason = node.problem or "no node owns a partition"
            if unproven:
                said.reason = "the keys are not confirmed"
            if node.draining:
                said.reason = "this node is stopping"
        elif node.problem:
            said.status = "degraded"
            if known:
                said.reason = node.problem
        if known:
            said.owners = {one.digits: self._owner(one) for one in node.partitions.values()}
        return Response(503 if said.status == "not ready" else 200, _JSON, msgspec.json.encode(said))

    def _serving(self) -> list[OwnedPartition]:
        return [one for one in self._node.owned.values() if one.serving is not None]

    def _owner(self, partition: PartitionId) -> PartitionOwner:
        now = boottime()
        found = self._node.members.owner(partition.number, now)
        if found is None:
            return PartitionOwner("")
        said = PartitionOwner(found.beat.name, found.partition.epoch, found.partition.tail)
        own = self._node.owned.get(partition.number)
        if own is not None and own.serving is not None:
            said.proof_age_ms = int(1000 * own.proof_age_seconds)
            said.flushed_through = own.engine.archive.flushed_through
            said.tail = own.log.ends_at or 0
        return said

    async def metrics(self, request: Request) -> Answer:
        """Return the metrics of this node and of the partitions that it owns."""
        answers: dict[PartitionId, Response] = {}
        for owned in self._serving():
            answer = await answered(owned.engine.app(request))
            if not isinstance(answer, Response) or answer.status >= 400:
                return answer
            answers[owned.id] = answer
        if not answers:
            error = LinkDownError(reason="this node owns no partition, so that it cannot check keys")
            return ANSWER_FORMAT.refuse(request.path, error, request.id)
        figures = self._now()
        text = await asyncio.to_thread(_rendered, answers, figures)
        return Response(200, next(iter(answers.values())).headers, text)

    def _now(self) -> ClusterFigures:
        node, figures = self._node, self._figures
        figures.held = node.asked.held
        figures.clock_skew_seconds = node.members.skew_seconds(node.id, boottime())
        figures.owned = [
            PartitionFigures(
                one.id.digits,
                one.epoch,
                one.proof_age_seconds,
                one.log.resolved,
                one.log.publish_seconds,
            )
            for one in self._serving()
        ]
        figures.shadow_lag = {}
        for number, partition in node.partitions.items():
            owner = node.members.owner(number, boottime())
            if number in node.shadows and owner is not None:
                lag = owner.partition.catalog - node.shadows.manifest(number)
                figures.shadow_lag[partition.digits] = max(0, lag)
        return figures


def _rendered(answers: Mapping[PartitionId, Response], figures: ClusterFigures) -> bytes:
    return merged_metrics(answers, ONLY_WORKER) + generate_latest(Collected(list(cluster_metrics(figures))))
