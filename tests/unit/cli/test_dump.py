"""Dumps for people and for programs: what a file or an object holds, and what is wrong with it."""

import asyncio
import base64
import json
import shutil
from pathlib import Path

import pytest

from durable_sessions.streams.create import Create
from durable_sessions.streams.stream import Key
from durable_sessions.tier.snapshot_info import snapshot_of
from tests.unit.cli.conftest import Run, tree
from tests.unit.tools.damage import flip, logs, manifests, newest, rewrite_manifest, subscription_object
from tests.unit.tools.datadir import DataDirectory

BINARY = b"\xff\x00\xfe"


def first_segment(data: Path) -> str:
    return asyncio.run(newest(data)).segments[0].path


def write(data: Path, *, flush: bool) -> None:
    """Add a stream of bytes that are no text, in another workspace."""

    async def add() -> None:
        async with DataDirectory(data) as opened:
            create = Create(content_type="application/octet-stream", body=BINARY)
            await opened.partition.create(Key("other", "binary"), create)
            if flush:
                await opened.flush()

    asyncio.run(add())


def test_dumps_change_nothing(data: Path, run: Run) -> None:
    before = tree(data)
    held = asyncio.run(newest(data))
    objects = [
        ["segment", held.segments[0].path],
        ["checkpoint", held.checkpoints[0].path],
        ["subscriptions", subscription_object(held).path],
    ]
    for what in (["log"], ["manifest"], ["snapshot"], ["stream", "a"], *objects):
        assert run("dump", *what, "--data", data).status == 0
        assert run("dump", *what, "--data", data, "--json").status == 0
    assert tree(data) == before


# The log --------------------------------------------------------------------------------


def test_each_batch_says_where_it_lies_and_each_effect_whose_it_is(data: Path, run: Run) -> None:
    batches = run("dump", "log", "--data", data, "--json").json
    shown = run("dump", "log", "--data", data).lines
    heads = [line for line in shown if not line.startswith(" ")]
    assert heads == [
        f"batch {one['position']}  {one['size']} bytes  {one['file']}, byte {one['byte']}" for one in batches
    ]
    assert {one["file"] for one in batches} <= {path.name for path in logs(data)}
    effects = [effect for one in batches for effect in one["effects"]]
    appended = [one for one in effects if one["effect"] == "Appended" and one["path"] == "default/fork"]
    assert appended[-1]["data"] == '{"fork":6},'
    assert appended[-1]["next"] - appended[-1]["first"] == appended[-1]["messages"] == 1
    (line,) = [line for line in shown if '11:{"fork":6},' in line]
    assert line.startswith("  Appended stream=")
    assert "path=default/fork" in line
    assert "T" in line.partition("at_ms=")[2], "times are shown as times"


def test_a_part_of_the_log(data: Path, run: Run) -> None:
    batches = run("dump", "log", "--data", data, "--json").json
    start = batches[3]["position"]
    assert run("dump", "log", "--data", data, "--json", "--from", start).json == batches[3:]
    assert run("dump", "log", "--data", data, "--json", "--from", start, "--limit", 2).json == batches[3:5]
    assert run("dump", "log", "--data", data, "--from", 10**12).out == ""
    assert run("dump", "log", "--data", data, "--limit", 0).status == 2


def test_damage_and_a_torn_end_are_shown_where_they_lie(data: Path, run: Run) -> None:
    last = logs(data)[-1]
    flip(last, last.stat().st_size // 2)
    last.write_bytes(last.read_bytes()[:-3])
    told = run("dump", "log", "--data", data)
    assert told.status == 0
    damage, torn = [line for line in told.lines if line.startswith("DAMAGE ")]
    assert damage.startswith(f"DAMAGE {last.name}, byte ")
    assert told.lines[-1] == torn
    items = [one for one in run("dump", "log", "--data", data, "--json").json if "damage" in one]
    assert [one.get("torn", False) for one in items] == [False, True]
    assert all(one["file"] == last.name and one["length"] > 0 for one in items)


def test_what_a_newer_program_wrote_is_shown_as_such(data: Path, run: Run) -> None:
    async def add() -> None:
        async with DataDirectory(data) as opened:
            await opened.log.append(b"\x02\x00\x00\x00\xc1\xc1")

    asyncio.run(add())
    (effect,) = run("dump", "log", "--data", data, "--json").json[-1]["effects"]
    assert effect["effect"] == "undecodable"
    assert "a newer program may have written it" in effect["problem"]


def test_without_its_bucket_the_log_is_shown_without_names(data: Path, run: Run) -> None:
    flip(manifests(data)[-1], 5)
    told = run("dump", "log", "--data", data, "--json")
    assert told.status == 0
    assert told.err.startswith("ds: names of streams are unknown: ")
    appended = [one for batch in told.json for one in batch["effects"] if one["effect"] == "Appended"]
    assert appended
    assert not [one for one in appended if "path" in one]


# Manifests ------------------------------------------------------------------------------


def test_the_manifest_that_holds_and_others(data: Path, run: Run) -> None:
    (told,) = run("dump", "manifest", "--data", data, "--json").json
    assert told["number"] == int(manifests(data)[-1].stem)
    shown = run("dump", "manifest", "--data", data).lines
    assert f"number: {told['number']}" in shown
    assert f"flushed_through: {told['flushed_through']}" in shown
    assert f"segments: {len(told['segments'])}" in shown
    for part in ("segments", "checkpoints"):
        for one in told[part]:
            (line,) = [line for line in shown if line.startswith(f"  {one['path']} ")]
            assert f"sha256={one['sha256']}" in line
    assert [line for line in shown if line.startswith("extra subscriptions: {")]
    (created,) = [line for line in shown if line.startswith("created_at_ms: ")]
    assert created.endswith("+00:00")
    oldest = int(manifests(data)[0].stem)
    (older,) = run("dump", "manifest", "--number", oldest, "--data", data, "--json").json
    assert older["number"] == oldest


def test_a_manifest_that_is_not_there_or_damaged(data: Path, run: Run) -> None:
    missing = run("dump", "manifest", "--number", 999_999, "--data", data)
    assert (missing.status, missing.out) == (3, "")
    assert "000000999999.json" in missing.err
    damaged = flip(manifests(data)[0], 5)
    refused = run("dump", "manifest", "--number", int(damaged.stem), "--data", data)
    assert refused.status == 1
    assert damaged.name in refused.err
    shutil.rmtree(data / "bucket")
    empty = run("dump", "manifest", "--data", data)
    assert empty.status == 3
    assert f"{data / 'bucket'} holds no manifest: nothing was flushed there yet." in empty.err
    assert not (data / "bucket").exists()


# Segments -------------------------------------------------------------------------------


def test_a_segment_shows_groups_pieces_and_rows(data: Path, run: Run) -> None:
    write(data, flush=True)
    path = asyncio.run(newest(data)).segments[-1].path
    whole, *items = run("dump", "segment", path, "--data", data, "--json").json
    assert whole["segment"] == path
    assert whole["bytes"] == (data / "bucket" / path).stat().st_size
    groups = [one for one in items if "damaged" in one]
    pieces = [one for one in items if "piece" in one]
    rows = [one for one in items if "session" in one]
    assert sum(one["rows"] for one in groups) == sum(one["rows"] for one in pieces) == whole["rows"]
    assert len(rows) == whole["rows"]
    assert not any(one["damaged"] for one in groups)
    (binary,) = [one for one in rows if one["session"] == "binary"]
    assert base64.b64decode(binary["data"]["base64"]) == BINARY
    shown = run("dump", "segment", path, "--data", data).lines
    assert shown[0].startswith(f"segment {path} bytes={whole['bytes']} ")
    assert len(shown) == 1 + len(items)
    assert [line for line in shown if "session=binary" in line and r"data=3:\xff\x00\xfe" in line]


def test_a_damaged_row_group_is_named_and_the_others_are_shown(data: Path, run: Run) -> None:
    path = first_segment(data)
    flip(data / "bucket" / path, 60)
    items = run("dump", "segment", path, "--data", data, "--json").json
    assert next(one["damaged"] for one in items if "damaged" in one)
    assert not [one for one in items if "session" in one and one["group"] == 0]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("events/none.parquet", 3, "There is no object"),
        ("", 2, "is not the path of an object"),
        ("events/../format.json", 2, "is not the path of an object"),
        ("/etc/passwd", 2, "is not the path of an object"),
        ("format.json", 1, "its footer cannot be read"),
    ],
)
def test_what_is_no_segment(data: Path, run: Run, path: str, status: int, said: str) -> None:
    told = run("dump", "segment", path, "--data", data)
    assert told.status == status
    assert said in told.err
    assert path in told.err
    assert told.out == ""


# Checkpoints and subscriptions ----------------------------------------------------------


def test_the_checkpoints_give_every_stream_and_what_is_gone(data: Path, run: Run) -> None:
    manifest = asyncio.run(newest(data))
    known: dict[int, dict[str, object]] = {}
    for info in manifest.checkpoints:
        whole, *rows = run("dump", "checkpoint", info.path, "--data", data, "--json").json
        assert whole == {
            "checkpoint": info.path,
            "bytes": info.bytes,
            "sha256": info.sha256,
            "rows": len(rows),
        }
        known |= {row["stream"]: row for row in rows}
    there = {row["session"]: row for row in known.values() if not row["deleted"]}
    assert set(there) == {"a", "b", "c", "text", "fork"}
    assert there["fork"]["parent"] == there["a"]["stream"]
    assert there["text"]["content_type"] == "text/plain"
    assert all(row["state_bytes"] for row in there.values())
    shown = run("dump", "checkpoint", manifest.checkpoints[-1].path, "--data", data).lines
    assert shown[0].startswith(f"checkpoint {manifest.checkpoints[-1].path} bytes=")
    (line,) = [line for line in shown if " session=a " in line]
    assert line.startswith(f"stream {there['a']['stream']} workspace=default ")
    assert "expires_at_ms" not in line, "what a stream has not is left out"


def test_a_removed_stream_is_shown_as_such(data: Path, run: Run) -> None:
    async def remove() -> None:
        async with DataDirectory(data) as opened:
            await opened.partition.delete(Key("default", "b"))
            await opened.partition.flush()

    asyncio.run(remove())
    path = asyncio.run(newest(data)).checkpoints[-1].path
    (row,) = [
        one for one in run("dump", "checkpoint", path, "--data", data, "--json").json if one.get("deleted")
    ]
    assert (row["session"], row["state_bytes"]) == ("b", 0)


def test_the_effects_that_give_the_subscriptions(data: Path, run: Run) -> None:
    info = subscription_object(asyncio.run(newest(data)))
    whole, *effects = run("dump", "subscriptions", info.path, "--data", data, "--json").json
    assert whole == {"subscriptions": info.path, "bytes": info.bytes, "sha256": info.sha256}
    (created,) = [one for one in effects if one["effect"] == "SubscriptionCreated"]
    assert (created["workspace"], created["id"]) == ("default", "sub")
    assert [one["byte"] for one in effects] == sorted(one["byte"] for one in effects)
    shown = run("dump", "subscriptions", info.path, "--data", data).lines
    assert [line for line in shown if line.startswith("byte 0 effect=SubscriptionCreated ")]


def test_a_damaged_effect_is_named_by_its_place(data: Path, run: Run) -> None:
    path = subscription_object(asyncio.run(newest(data))).path
    whole = (data / "bucket" / path).read_bytes()
    (data / "bucket" / path).write_bytes(b"\x02\x00\x00\x00\xc1\xc1" + whole[:-1])
    _, first, *_, last = run("dump", "subscriptions", path, "--data", data, "--json").json
    assert first["byte"] == 0
    assert "cannot be decoded" in first["problem"]
    assert "the batch ends within an effect" in last["problem"]


# Snapshots ------------------------------------------------------------------------------


def test_the_newest_snapshot_of_the_catalog(data: Path, run: Run) -> None:
    info = snapshot_of(asyncio.run(newest(data)))
    assert info is not None
    whole, *items = run("dump", "snapshot", "--data", data, "--json").json
    assert (whole["snapshot"], whole["manifest"]) == (info.path, info.manifest)
    assert (whole["bytes"], whole["sha256"]) == (info.bytes, info.sha256)
    (packed,) = run("dump", "manifest", "--number", info.manifest, "--data", data, "--json").json
    assert whole["flushed_through"] == packed["flushed_through"]
    sizes = {one["table"]: one["rows"] for one in items if "table" in one}
    streams = [one for one in items if "stream" in one and "path" in one]
    places = [one for one in items if "place" in one]
    assert sizes["streams"] == len(streams) == info.rows
    assert sizes["extents"] == len(places)
    assert sizes["segments"] == len(packed["segments"])
    assert {one["path"] for one in streams} == {"a", "b", "c", "text", "fork"}
    assert "state" not in streams[0]
    for one in streams:
        if one["path"] != "fork":
            assert one["tail"] == max(place["next"] for place in places if place["place"] == one["stream"])
    assert run("dump", "snapshot", info.path, "--data", data, "--json").json == [whole, *items]
    shown = run("dump", "snapshot", "--data", data).lines
    assert shown[0].startswith(f"snapshot {info.path} bytes={info.bytes} ")
    assert f"table streams rows={len(streams)}" in shown
    assert [
        line for line in shown if line.startswith(f"stream {streams[0]['stream']} workspace=default path=")
    ]


def test_a_snapshot_that_is_not_there_or_cannot_be_unpacked(data: Path, run: Run) -> None:
    info = snapshot_of(asyncio.run(newest(data)))
    assert info is not None
    flip(data / "bucket" / info.path, 0)
    damaged = run("dump", "snapshot", "--data", data)
    assert (damaged.status, damaged.out) == (1, "")
    assert info.path in damaged.err
    assert "it has not the digest that the manifest names" in damaged.err
    assert "it cannot be unpacked" in run("dump", "snapshot", info.path, "--data", data).err
    (data / "bucket" / info.path).unlink()
    missing = run("dump", "snapshot", "--data", data)
    assert missing.status == 3
    assert f"There is no object {info.path}" in missing.err
    asyncio.run(rewrite_manifest(data, extra={}))
    none = run("dump", "snapshot", "--data", data)
    assert none.status == 3
    assert "names no snapshot of the catalog" in none.err


@pytest.mark.parametrize("kind", ["segment", "checkpoint", "snapshot"])
def test_an_object_of_another_kind_is_refused_by_name(data: Path, run: Run, kind: str) -> None:
    held = asyncio.run(newest(data))
    paths = {
        "segment": held.checkpoints[0].path,
        "checkpoint": held.segments[0].path,
        "snapshot": held.segments[0].path,
    }
    told = run("dump", kind, paths[kind], "--data", data)
    assert (told.status, told.out) == (1, "")
    assert paths[kind] in told.err


# Streams --------------------------------------------------------------------------------


def test_a_stream_with_its_places_and_records(data: Path, run: Run) -> None:
    state, *rest = run("dump", "stream", "a", "--data", data, "--json").json
    places = [one["place"] for one in rest if "place" in one]
    records = [one["record"] for one in rest if "record" in one]
    assert [one["position"] for one in records] == list(range(state["stream"]["tail"]))
    assert json.loads(records[0]["body"]) == {"a": 0}
    assert [one["next"] for one in places][:-1] == [one["first"] for one in places][1:]
    flushed = state["stream"]["flushed"]
    assert {one["tier"] for one in places if one["next"] <= flushed} == {"bucket"}
    assert {one["tier"] for one in records[:flushed]} == {"bucket"}
    shown = run("dump", "stream", "a", "--data", data).lines
    assert "path: a" in shown
    assert f"places: {len(places)}" in shown
    assert f"  bucket {places[0]['where']}: {places[0]['first']} to {places[0]['next']}" in shown
    assert shown[-len(records) - 1] == "records:"
    assert shown[-1].startswith(f"  {len(records) - 1} at_ms=20")


def test_a_fork_names_its_source_and_repeats_nothing_of_it(data: Path, run: Run) -> None:
    state, *rest = run("dump", "stream", "fork", "--data", data, "--json").json
    base = state["stream"]["base"]
    records = [one["record"] for one in rest if "record" in one]
    assert [one["position"] for one in records] == list(range(base, state["stream"]["tail"]))
    shown = run("dump", "stream", "fork", "--data", data).lines
    assert f"positions before {base} are those of stream {state['stream']['parent']}" in shown


@pytest.mark.parametrize("flush", [True, False], ids=["bucket", "log"])
def test_bytes_that_are_no_text_are_base64_for_programs(data: Path, run: Run, flush: bool) -> None:
    write(data, flush=flush)
    where = ("dump", "stream", "binary", "--workspace", "other", "--data", data)
    *_, last = run(*where, "--json").json
    assert base64.b64decode(last["record"]["body"]["base64"]) == BINARY
    assert last["record"]["tier"] == ("bucket" if flush else "log")
    assert run(*where).lines[-1].endswith(r"body=3:\xff\x00\xfe")


@pytest.mark.parametrize("arguments", [["none"], ["gone"], ["a", "--workspace", "other"]])
def test_a_stream_that_is_not_there(data: Path, run: Run, arguments: list[str]) -> None:
    told = run("dump", "stream", *arguments, "--data", data)
    assert (told.status, told.out) == (3, "")
    assert arguments[0] in told.err
