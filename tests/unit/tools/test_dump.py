"""Dumps: what is shown of each kind of object is what is in it, and damage is shown in its place."""

import asyncio
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import ObjectDamagedError, StreamNotFoundError
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.storage import batch
from durable_sessions.streams.effects import StreamCreated
from durable_sessions.streams.stream import Key
from durable_sessions.tier.snapshot_info import snapshot_of
from durable_sessions.tools.dump.flushed import checkpoint_items, subscription_items
from durable_sessions.tools.dump.log import Plain, StreamPaths, log_items
from durable_sessions.tools.dump.segments import segment_items
from durable_sessions.tools.dump.snapshots import snapshot_items
from durable_sessions.tools.dump.streams import load_names, look_up
from durable_sessions.tools.likely_layout import likely_layout
from tests.unit.tools.damage import flip, logs, manifests, newest
from tests.unit.tools.datadir import make

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[object]]]:
    data = tmp_path_factory.mktemp("made") / "data"
    return data, asyncio.run(make(data))


@pytest.fixture
def data(made: tuple[Path, dict[str, list[object]]], tmp_path: Path) -> Path:
    shutil.copytree(made[0], tmp_path / "data")
    return tmp_path / "data"


def rows_of(items: Iterable[Plain]) -> list[Plain]:
    """Return the rows of a segment; a piece of its directory only names its first row."""
    return [item for item in items if "row" in item and "piece" not in item]


def groups_of(items: Iterable[Plain]) -> list[Plain]:
    return [item for item in items if "group" in item and "row" not in item]


async def segments(data: Path) -> list[tuple[str, bytes]]:
    """Return the segments that hold, with their bytes."""
    return [(info.path, (data / "bucket" / info.path).read_bytes()) for info in (await newest(data)).segments]


# Segments -------------------------------------------------------------------------------


async def test_a_segment_is_shown_with_its_size_its_groups_its_pieces_and_its_rows(data: Path) -> None:
    for path, content in await segments(data):
        whole, *items = segment_items(path, content)
        rows = rows_of(items)
        assert whole == {
            "segment": path,
            "bytes": len(content),
            "sha256": digest(content),
            "rows": len(rows),
        }
        groups = groups_of(items)
        assert sum(int(str(group["rows"])) for group in groups) == len(rows)
        assert not any(group["damaged"] for group in groups)
        assert any("piece" in item for item in items)


async def test_the_rows_of_all_segments_are_the_records_that_were_flushed(
    data: Path, made: tuple[Path, dict[str, list[object]]]
) -> None:
    found: dict[object, dict[object, object]] = {}
    for path, content in await segments(data):
        for item in rows_of(segment_items(path, content)):
            if item["session"] in ("a", "b", "c"):
                found.setdefault(item["session"], {})[item["position"]] = json.loads(str(item["body"]))
    for name in ("a", "b", "c"):
        rows = [found[name][position] for position in sorted(found[name], key=lambda one: int(str(one)))]
        assert rows == made[1][name][: len(rows)]
        assert rows


async def test_a_damaged_group_is_named_and_the_rest_of_the_segment_is_shown(data: Path) -> None:
    path, content = max(await segments(data), key=lambda one: len(one[1]))
    before = list(segment_items(path, content))
    group: dict[str, Any] = groups_of(before)[0]
    changed = bytearray(content)
    changed[group["offset"] + 5] ^= 1
    items = list(segment_items(path, bytes(changed)))
    damaged = [item["group"] for item in items if item.get("damaged") is True]
    assert damaged == [group["group"]]
    assert not [item for item in rows_of(items) if item["group"] in damaged]
    others = [item for item in rows_of(before) if item["group"] not in damaged]
    assert rows_of(items) == others


async def test_a_segment_without_its_footer_is_damaged(data: Path) -> None:
    path, content = (await segments(data))[0]
    with pytest.raises(ObjectDamagedError, match="its footer cannot be read"):
        list(segment_items(path, content[:-20]))


# Snapshots, checkpoints, subscriptions --------------------------------------------------


async def test_a_snapshot_is_shown_with_the_rows_that_its_counts_promise(data: Path, tmp_path: Path) -> None:
    info = snapshot_of(await newest(data))
    assert info is not None
    content = (data / "bucket" / info.path).read_bytes()
    whole, *items = snapshot_items(info.path, content, tmp_path)
    assert whole["sha256"] == digest(content)
    counts = {item["table"]: item["rows"] for item in items if "table" in item}
    kinds = {
        "streams": "stream",
        "extents": "place",
        "segments": "segment",
        "names": "name",
        "dirty": "dirty",
    }
    for table, kind in kinds.items():
        rows = [item for item in items if next(iter(item)) == kind]
        assert len(rows) == counts[table], table
    shown = {item["path"]: item for item in items if next(iter(item)) == "stream"}
    assert {"a", "b", "c", "text"} <= set(shown)
    assert shown["text"]["content_type"] == "text/plain"


async def test_a_snapshot_that_cannot_be_unpacked_is_damaged(data: Path, tmp_path: Path) -> None:
    info = snapshot_of(await newest(data))
    assert info is not None
    content = (data / "bucket" / info.path).read_bytes()
    with pytest.raises(ObjectDamagedError, match="it cannot be unpacked"):
        list(snapshot_items(info.path, content[: len(content) // 2], tmp_path))


async def test_a_checkpoint_is_shown_with_removed_streams_and_without_encoded_state(data: Path) -> None:
    removed = []
    for info in (await newest(data)).checkpoints:
        content = (data / "bucket" / info.path).read_bytes()
        whole, *rows = checkpoint_items(info.path, content)
        assert whole["rows"] == len(rows) > 0
        assert not any("state" in row for row in rows)
        removed += [row for row in rows if row["state_bytes"] == 0]
    assert removed


def test_of_damaged_subscriptions_what_can_be_read_is_shown() -> None:
    effect = batch.encode(StreamCreated(7, "default", "a", "application/json", 1))
    whole, first, *rest = subscription_items("subscriptions/1", effect + b"\xc1\xff")
    assert whole["bytes"] == len(effect) + 2
    assert (first["byte"], first["effect"], first["stream"]) == (0, "StreamCreated", 7)
    assert [set(item) for item in rest] == [{"byte", "problem"}]


# The log --------------------------------------------------------------------------------


def test_the_log_is_shown_from_a_position_with_the_paths_of_its_streams(data: Path) -> None:
    everything = list(log_items(data / "log", 0, StreamPaths()))
    positions = [int(str(item["position"])) for item in everything]
    assert positions == sorted(positions)
    start = positions[len(positions) // 2]
    assert list(log_items(data / "log", start, StreamPaths())) == [
        item for item in everything if int(str(item["position"])) >= start
    ]


async def test_streams_that_were_created_before_the_log_begins_have_their_paths_from_the_bucket(
    data: Path,
) -> None:
    names = await load_names(await Bucket.open(data / "bucket"), ONLY_PARTITION)
    effects: list[dict[str, Any]] = [
        effect
        for item in log_items(data / "log", 0, names)
        for effect in item["effects"]  # type: ignore[attr-defined]
    ]
    appended = [effect for effect in effects if effect["effect"] == "Appended"]
    assert appended
    assert {effect["path"].partition("/")[2] for effect in appended} <= {
        "a",
        "b",
        "c",
        "text",
        "fork",
        "gone",
    }


def test_damage_in_the_log_is_shown_in_its_place_and_a_torn_end_as_torn(data: Path) -> None:
    last = logs(data)[-1]
    frames = [item for item in log_items(data / "log", 0, StreamPaths()) if item["file"] == last.name]
    assert len(frames) > 2
    flip(last, int(str(frames[1]["byte"])) + 3)
    last.write_bytes(last.read_bytes()[:-2])
    items = list(log_items(data / "log", 0, StreamPaths()))
    kinds = ["torn" if "torn" in item else "damage" if "damage" in item else "batch" for item in items]
    assert kinds[-1] == "torn"
    assert "damage" in kinds or kinds.count("torn") == 1
    shown = [item for item in items if "position" in item]
    assert all("effects" in item for item in shown)


# One stream -----------------------------------------------------------------------------


async def test_a_stream_is_shown_with_all_its_records_wherever_they_are(
    data: Path, made: tuple[Path, dict[str, list[object]]], tmp_path: Path
) -> None:
    bucket = await Bucket.open(data / "bucket")
    for name in ("a", "fork"):
        (tmp_path / name).mkdir()
        found = await look_up(bucket, data / "log", Key("default", name), tmp_path / name, ONLY_PARTITION)
        assert found.state()["path"] == name
        assert {place.tier for place in found.places} == {"bucket", "log"}
        assert found.places[-1].next == len(made[1][name])


async def test_a_stream_that_nobody_created_is_not_found(data: Path, tmp_path: Path) -> None:
    bucket = await Bucket.open(data / "bucket")
    with pytest.raises(StreamNotFoundError):
        await look_up(bucket, data / "log", Key("default", "nobody"), tmp_path, ONLY_PARTITION)


# The layout -----------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["missing", "damaged"])
async def test_the_layout_is_told_from_names_if_what_says_so_is_lost(data: Path, harm: str) -> None:
    bucket = await Bucket.open(data / "bucket")
    before = await likely_layout(bucket)
    for path in [data / "bucket/format.json", *(data / "bucket/cluster/layout").glob("*")]:
        if harm == "missing":
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(b"{")
    after = await likely_layout(await Bucket.open(data / "bucket"))
    assert (after.generation, after.partitions) == (before.generation, before.partitions)
    assert manifests(data)
