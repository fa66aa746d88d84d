"""Of which generations a data directory has logs."""

from pathlib import Path

from durable_sessions.log.generations import logged_generations, partition_directories
from durable_sessions.partition_id import PartitionId

LINEAGE = "log_" + "0" * 32 + ".lineage"
SEGMENT = "0" * 20 + ".log"


def put(data: Path, partition: PartitionId, name: str) -> Path:
    own = partition.directory(data)
    (own / "log").mkdir(parents=True)
    (own / "log" / name).touch()
    return own


def test_an_empty_directory_has_none(tmp_path: Path) -> None:
    assert logged_generations(tmp_path) == set()
    assert logged_generations(tmp_path / "missing") == set()
    put(tmp_path, PartitionId(), "lock")
    assert logged_generations(tmp_path) == set()


def test_logs_with_a_lineage_or_batches_count(tmp_path: Path) -> None:
    put(tmp_path, PartitionId(), SEGMENT)
    assert logged_generations(tmp_path) == {0}
    system = put(tmp_path, PartitionId(100, 2, 12), LINEAGE)
    first = put(tmp_path, PartitionId(1, 2), "lock")
    (tmp_path / "partitions" / "else").mkdir()
    assert logged_generations(tmp_path) == {0, 12}
    assert partition_directories(tmp_path) == [(0, first), (12, system)]
