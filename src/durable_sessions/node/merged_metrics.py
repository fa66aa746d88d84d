"""The metrics of a server with several partitions, merged from what each of them exposes."""

from collections.abc import Iterable, Mapping

from prometheus_client import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from durable_sessions.http.api.metrics import OF_PROCESS
from durable_sessions.http.carrier.message import Response
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.partition_id import PartitionId


def merged_metrics(answers: Mapping[PartitionId, Response], workers: WorkerId) -> bytes:
    """Return the metrics of all partitions as one text.

    Metrics of a process are counted once per process and labelled with its number; all others are labelled
    with their partition.
    """
    families: dict[str, Metric] = {}
    processes: set[int] = set()
    for partition, answer in answers.items():
        worker = workers.owner(partition.number)
        for family in text_string_to_metric_families(answer.body.decode()):
            of_process = family.name in OF_PROCESS
            if of_process and worker in processes:
                continue
            label = ("worker", str(worker)) if of_process else ("partition", partition.digits)
            known = families.setdefault(family.name, family)
            found = [_labelled(sample, *label) for sample in family.samples]
            known.samples = found if known is family else known.samples + found
        processes.add(worker)
    return generate_latest(Collected(families.values()))


class Collected(Collector):
    """Metrics that were collected already, for whoever renders them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._families


def _labelled(sample: Sample, label: str, value: str) -> Sample:
    return sample._replace(labels={label: value, **sample.labels})
