"""Metrics of several partitions as one text: each figure once, and labelled with whose it is."""

from prometheus_client.parser import text_string_to_metric_families

from durable_sessions.http.carrier.message import Response
from durable_sessions.node.merged_metrics import merged_metrics
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.partition_id import PartitionId

ALL = PartitionId(0, 4).all()  # four, and the system partition
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def exposed(number: int, connections: int) -> Response:
    """What a partition exposes: a gauge of its process, a counter and a histogram of its own."""
    text = f"""# TYPE durable_sessions_http_connections gauge
durable_sessions_http_connections {connections}
# TYPE durable_sessions_appends_total counter
durable_sessions_appends_total {{kind="json"}} {number}
# TYPE durable_sessions_commit_seconds histogram
durable_sessions_commit_seconds_bucket {{le="+Inf"}} {number}
durable_sessions_commit_seconds_count {number}
durable_sessions_commit_seconds_sum 0.5
"""
    return Response(200, [], text.encode())


def merged(workers: int) -> Samples:
    answers = {one: exposed(place + 1, 10 * (place % workers)) for place, one in enumerate(ALL)}
    text = merged_metrics(answers, WorkerId(0, workers)).decode()
    samples = [
        ((sample.name, tuple(sorted(sample.labels.items()))), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    assert len(dict(samples)) == len(samples), "Prometheus refuses a sample that comes twice"
    return dict(samples)


def of(samples: Samples, name: str) -> dict[str, float]:
    """The values of a metric by the label that the merge has added."""
    return {
        dict(labels).get("partition") or f"worker {dict(labels)['worker']}": value
        for (found, labels), value in samples.items()
        if found == f"durable_sessions_{name}"
    }


def test_figures_of_a_partition_have_its_name_and_keep_their_labels() -> None:
    samples = merged(2)
    names = [one.digits for one in ALL]
    assert of(samples, "appends_total") == {name: place + 1 for place, name in enumerate(names)}
    assert ("durable_sessions_appends_total", (("kind", "json"), ("partition", names[1]))) in samples
    assert of(samples, "commit_seconds_count") == {name: place + 1 for place, name in enumerate(names)}


def test_figures_of_a_process_are_counted_once_for_each_process() -> None:
    # The system partition comes last and belongs to the first worker, which was counted by then.
    assert of(merged(2), "http_connections") == {"worker 0": 0, "worker 1": 10}
    assert of(merged(4), "http_connections") == {f"worker {n}": 10 * n for n in range(4)}
    assert of(merged(1), "http_connections") == {"worker 0": 0}
