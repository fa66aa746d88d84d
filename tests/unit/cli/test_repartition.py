"""repartition, and every other command for data at rest where there are several partitions."""

import asyncio
import json
import os
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from durable_sessions.bucket.manifest import Manifests
from durable_sessions.bucket.partition_layout import PartitionLayout, encode_layout
from durable_sessions.bucket.store import Bucket
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.partition_id import PARTITIONS_MAX, PartitionId
from tests.unit.cli.conftest import Run, tree
from tests.unit.tools.damage import flip

NOBODY = "http://127.0.0.1:1"
HOURS_AGO = 2 * 3_600


@pytest.fixture
def divided(data: Path, run: Run) -> Path:
    done = run("repartition", "--data", data, "--partitions", 3, "--json")
    assert done.json == [{"partitions": 3, "generation": 1, "changed": True, "streams": 5}]
    return data


def test_it_says_what_it_does_and_what_there_is_then(data: Path, run: Run) -> None:
    done = run("repartition", "--data", data, "--partitions", 3)
    assert done.status == 0
    assert done.lines[0] == "open the partitions"
    assert "commit the new layout" in done.lines
    assert done.lines[-1] == "5 streams in 3 partitions, generation 1"
    again = run("repartition", "--data", data, "--partitions", 3)
    assert again.lines[-1] == f"{data / 'bucket'} has 3 partitions already"
    (answer,) = run("repartition", "--data", data, "--partitions", 3, "--json").json
    assert answer == {"partitions": 3, "generation": 1, "changed": False, "streams": 0}
    back = run("repartition", "--data", data, "--partitions", 1)
    assert back.lines[-1] == "5 streams in 1 partition, generation 2"
    assert run("verify", "--data", data).lines[-1] == "ok"


@pytest.mark.parametrize("count", ["0", "-1", str(PARTITIONS_MAX + 1), "two"])
def test_a_number_that_cannot_be_is_refused(data: Path, run: Run, count: str) -> None:
    before = tree(data)
    done = run("repartition", "--data", data, "--partitions", count)
    assert done.status == 2
    assert tree(data) == before


def test_a_running_server_is_refused(divided: Path, run: Run) -> None:
    before = tree(divided)
    release = REAL_DISK.claim(PartitionId(1, 3, 1).directory(divided) / "log")
    for command in (("repartition", "--partitions", 2), ("verify",), ("repair",), ("gc",)):
        refused = run(*command, "--data", divided)
        assert refused.status == 1
        assert "Stop the server first" in refused.err
    assert run("verify", "--data", divided, "--bucket-only").status == 0
    assert run("gc", "--data", divided, "--dry-run").status == 0
    release()
    assert tree(divided) == before


def test_a_directory_that_is_missing_is_refused(tmp_path: Path, run: Run) -> None:
    assert run("repartition", "--data", tmp_path / "none", "--partitions", 2).status == 2


def test_all_partitions_are_verified_of_either_generation(divided: Path, run: Run) -> None:
    (now,) = run("verify", "--data", divided, "--json").json
    assert now["ok"]
    assert now["checked"]["catalogs"] == 4
    (before,) = run("verify", "--data", divided, "--generation", 0, "--json").json
    assert before["ok"]
    assert before["checked"]["streams"] == now["checked"]["streams"] - notes(divided)
    assert run("verify", "--data", divided, "--generation", 2).status == 3


def notes(data: Path) -> int:
    """Return how many names do not live at home: each has a stream that notes where."""
    paths = (PartitionId(one, 3, 1).directory(data) / "catalog.sqlite" for one in (0, 1, 2))
    count = 0
    for path in paths:
        with closing(sqlite3.connect(path)) as connection:
            query = "select count(*) from streams where folder = '__placed'"
            count += connection.execute(query).fetchone()[0]
    return count


def test_damage_in_any_partition_is_found_and_mended(divided: Path, run: Run) -> None:
    manifest = sorted((divided / "bucket" / "partitions" / "1-01" / "manifest").iterdir())[-1]
    flip(manifest, 100)
    found = run("verify", "--data", divided)
    assert found.status == 1
    assert "partitions/1-01/manifest" in found.out
    mended = run("repair", "--data", divided, "--yes")
    assert mended.status == 0, mended.out
    assert [line for line in mended.lines if line.startswith("partition ")] == [
        "partition 1-00:",
        "partition 1-01:",
        "partition 1-02:",
        "partition 1-sys:",
    ]
    assert run("verify", "--data", divided).status == 0
    assert list(divided.glob("repair-*")), "copies are beside the partitions, not in one of them"


def test_a_damaged_segment_that_partitions_share_is_saved_by_each(divided: Path, run: Run) -> None:
    shared = shared_segment(divided)
    flip(shared, 200)
    assert run("verify", "--data", divided).status == 1
    mended = run("repair", "--data", divided, "--yes")
    assert mended.status == 0, mended.out
    assert shared.exists(), "the janitor removes it when no partition refers to it"
    assert run("verify", "--data", divided).status == 0


def shared_segment(data: Path) -> Path:
    """Return a segment of the old generation that several partitions refer to."""
    bucket = asyncio.run(Bucket.open(data / "bucket"))
    named: Counter[str] = Counter()
    for one in PartitionId(0, 3, 1).all():
        manifest = asyncio.run(Manifests(bucket, one).newest())
        assert manifest is not None
        named.update(info.path for info in manifest.segments)
    path, count = named.most_common(1)[0]
    assert count > 1
    return data / "bucket" / path


def test_a_missing_format_is_mended(divided: Path, run: Run) -> None:
    (divided / "bucket" / "format.json").unlink()
    assert run("verify", "--data", divided).status == 1
    assert run("repair", "--data", divided, "--yes").status == 0
    assert json.loads((divided / "bucket" / "format.json").read_bytes())["version"] == 2
    assert run("verify", "--data", divided).status == 0


def test_dumps_of_a_partition(divided: Path, run: Run) -> None:
    layouts = run("dump", "layout", "--data", divided, "--json").json
    assert [(one["generation"], one["partitions"]) for one in layouts] == [(0, 1), (1, 3)]
    assert run("dump", "layout", "--data", divided).lines[1].startswith("layout 1 generation=1 partitions=3")
    for command in ("log", "manifest", "snapshot"):
        unnamed = run("dump", command, "--data", divided)
        assert unnamed.status == 2
        assert "name one of 1-00, 1-01, 1-02, 1-sys with --partition" in unnamed.err
        assert run("dump", command, "--data", divided, "--partition", "1-01").status == 0
        assert run("dump", command, "--data", divided, "--partition", "7-01").status == 3
    (old,) = run("dump", "manifest", "--data", divided, "--partition", "00", "--json").json
    assert old["number"] > 1


@pytest.mark.parametrize("path", ["a", "b", "c", "text", "fork"])
def test_a_stream_is_found_wherever_it_is(divided: Path, run: Run, path: str) -> None:
    found = run("dump", "stream", path, "--data", divided, "--json")
    assert found.status == 0
    assert found.json[0]["stream"]["path"] == path
    assert any("record" in line for line in found.json)


def test_a_flush_is_of_all_partitions(divided: Path, run: Run) -> None:
    bucket = asyncio.run(Bucket.open(divided / "bucket"))

    def numbers() -> list[int]:
        manifests = [Manifests(bucket, one) for one in PartitionId(0, 3, 1).all()]
        return [asyncio.run(one.newest_number()) for one in manifests]

    before = numbers()
    assert run("flush", "--data", divided, "--url", NOBODY).status == 0
    assert all(now > then for now, then in zip(numbers(), before, strict=True))


def test_the_old_generation_is_collected_after_a_while(divided: Path, run: Run) -> None:
    assert run("gc", "--data", divided).lines[-1] == "0 objects were removed"
    bucket = divided / "bucket"
    layout = bucket / "cluster" / "layout" / "000000000001.json"
    past = time.time() - HOURS_AGO
    for file in bucket.rglob("*"):
        if file.is_file():
            os.utime(file, (past, past))
    assert run("gc", "--data", divided).lines[-1] == "0 objects were removed", "the layout is young"
    backdate(layout)
    told = run("gc", "--data", divided)
    assert told.status == 0
    assert any("partitions/00/manifest/" in line for line in told.lines)
    assert not list((bucket / "partitions").glob("00/*/*"))
    assert not list((bucket / "sessions").glob("00-*"))
    assert run("verify", "--data", divided).status == 0, "segments that partitions refer to are kept"


def backdate(file: Path) -> None:
    """Let a layout be of two hours ago."""
    layout = msgspec.json.decode(file.read_bytes(), type=PartitionLayout)
    earlier = msgspec.structs.replace(layout, created_at_ms=layout.created_at_ms - HOURS_AGO * 1000)
    file.write_bytes(encode_layout(earlier))
