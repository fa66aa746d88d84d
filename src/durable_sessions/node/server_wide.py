"""Requests that concern all partitions: lists, searches, health, metrics, flush, reindex."""

import asyncio
from collections.abc import Iterable, Mapping

import msgspec
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from durable_sessions.http.api.metrics import OF_PROCESS
from durable_sessions.http.api.sessions.merged_listing import MergedListing
from durable_sessions.http.api.sessions.merged_search import MergedSearch
from durable_sessions.http.bodies.operations import FlushResult, PartitionFlush, Readiness, SearchReadiness
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.limits import Limits
from durable_sessions.node.router import Every, Operation, Partitions, answered, gathered
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.partition_id import PartitionId

_STATUSES = ("ready", "degraded", "not ready")


class ServerWide:
    """Asks every partition and answers for all of them; a refusal of one is the answer."""

    def __init__(self, partitions: Partitions, worker: WorkerId, own: PartitionId, limits: Limits) -> None:
        self._partitions = partitions
        self._worker = worker
        self._all = own.all()
        self.handlers: Mapping[Operation, Every] = {
            (b"GET", b"/v1/sessions"): MergedListing(self._ask_one, range(own.of), limits),
            (b"GET", b"/v1/search"): MergedSearch(self._ask_one, range(own.of), limits),
            (b"GET", b"/readyz"): self._ready,
            (b"GET", b"/metrics"): self._metrics,
            (b"POST", b"/v1/admin/flush"): self._flush,
            (b"POST", b"/v1/admin/reindex"): self._reindex,
        }

    async def _ask_one(self, partition: int, request: Request) -> Answer:
        return await answered(self._partitions.ask(partition, request))

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
        worst = max(said.values(), key=lambda one: _STATUSES.index(one.status))
        whole = msgspec.structs.replace(worst, partitions=said)
        status = max(answer.status for answer in answers.values())
        return Response(status, next(iter(answers.values())).headers, msgspec.json.encode(whole))

    async def _flush(self, request: Request) -> Answer:
        answers = await self._ask(request)
        if (refused := _refusal(answers)) is not None:
            return refused
        said = {
            partition.digits: msgspec.json.decode(answer.body, type=PartitionFlush)
            for partition, answer in answers.items()
        }
        first = next(iter(said.values()))
        whole = FlushResult(first.manifest, first.flushed_through, said)
        return Response(200, next(iter(answers.values())).headers, msgspec.json.encode(whole))

    async def _reindex(self, request: Request) -> Answer:
        answers = await self._ask(request)
        return _refusal(answers) or next(iter(answers.values()))

    async def _metrics(self, request: Request) -> Answer:
        """Answer with the metrics of all; those of a process have its number, all others their partition."""
        answers = await self._ask(request)
        if (refused := _refusal(answers)) is not None:
            return refused
        # In a thread: of a hundred partitions, parsing takes longer than the event loop may be held.
        text = await asyncio.to_thread(self._merged_metrics, answers)
        return Response(200, next(iter(answers.values())).headers, text)

    def _merged_metrics(self, answers: Mapping[PartitionId, Response]) -> bytes:
        families: dict[str, Metric] = {}
        processes: set[int] = set()
        for partition, answer in answers.items():
            worker = self._worker.owner(partition.number)
            for family in text_string_to_metric_families(answer.body.decode()):
                of_process = family.name in OF_PROCESS
                if of_process and worker in processes:
                    continue
                label = ("worker", str(worker)) if of_process else ("partition", partition.digits)
                known = families.setdefault(family.name, family)
                found = [_labelled(sample, *label) for sample in family.samples]
                known.samples = found if known is family else known.samples + found
            processes.add(worker)
        return generate_latest(_Collected(families.values()))


def _readiness(answer: Response) -> Readiness:
    """Return what a partition says of itself; one that cannot be asked is not ready."""
    try:
        return msgspec.json.decode(answer.body, type=Readiness)
    except msgspec.MsgspecError:
        return Readiness("not ready", SearchReadiness("failing"), reason="its process cannot be reached")


class _Collected(Collector):
    """Metrics that were collected already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._families


def _labelled(sample: Sample, label: str, value: str) -> Sample:
    return sample._replace(labels={label: value, **sample.labels})


def _refusal(answers: Mapping[PartitionId, Response]) -> Response | None:
    return next((answer for answer in answers.values() if answer.status >= 400), None)
