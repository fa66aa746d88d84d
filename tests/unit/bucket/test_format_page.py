"""The format page shows what is really written, and its queries run."""

import re
from pathlib import Path

import duckdb
import msgspec
import pytest

from durable_sessions.bucket.checkpoint import _SCHEMA as SESSIONS
from durable_sessions.bucket.checkpoint import SessionRow, encode_checkpoint
from durable_sessions.bucket.columns import SCHEMA
from durable_sessions.bucket.format import ensure_format
from durable_sessions.bucket.layout import sessions_path
from durable_sessions.bucket.manifest import CheckpointInfo, Manifest, Manifests, SegmentInfo, encode_manifest
from durable_sessions.bucket.records import StreamRecords
from durable_sessions.bucket.segment import (
    DIRECTORY_KEY,
    GROUP_BYTES,
    GROUP_ROWS_MAX,
    GROUPS_KEY,
    VERSION_KEY,
    encode_segment,
)
from durable_sessions.bucket.store import Bucket
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.testing.bucket import MemoryBucket
from tests.unit.bucket.support import NOON, json_append

PAGE = (Path(__file__).parents[3] / "docs" / "formats" / "bucket.md").read_text()
SEGMENT = "events/date=2026-11-15/00-000000000001.parquet"

MESSAGES = [
    json_append(0, b'{"id":"e1","type":"user.message","text":"hello"}', at_ms=NOON),
    json_append(1, b'{"id":"e2","type":"agent.message","text":"hi"}', at_ms=NOON + 1_000),
]
ENCODED = encode_segment([StreamRecords(7, "main", "sessions/a", "application/json", MESSAGES)])


def example(*segments: SegmentInfo) -> Manifest:
    return Manifest(
        number=1,
        writer="writer_1",
        flushed_through=120,
        lineage="log_f4c1d0a6b27e4b1c9d3e5f60718293a4",
        frame=1272514395,
        next_stream=8,
        created_at_ms=NOON + 60_000,
        segments=segments,
    )


def test_the_example_is_what_is_written() -> None:
    shown = re.search(r"^    (\{\"number\":1,\"writer\".*?\"\})$", PAGE, re.MULTILINE | re.DOTALL)
    assert shown is not None
    written = encode_manifest(example(ENCODED.info(SEGMENT))).decode()
    # The digests and sizes depend on the Parquet library's version, the rest does not.
    own = re.compile(r'"[0-9a-f]{64}"|"(bytes|footer_offset)":\d+')
    assert own.sub("…", shown[1].replace("\n    ", "")) == own.sub("…", written)


@pytest.mark.anyio
async def test_the_format_file_is_what_is_written() -> None:
    memory = MemoryBucket()
    await ensure_format(memory)
    assert f"`{memory.objects['format.json'].decode()}`" in PAGE


def test_every_column_member_and_key_is_described() -> None:
    fields = [*Manifest.__struct_fields__, *SegmentInfo.__struct_fields__, *CheckpointInfo.__struct_fields__]
    for name in [*SCHEMA.names, *SESSIONS.names, *fields, VERSION_KEY, GROUPS_KEY, DIRECTORY_KEY]:
        assert f"`{name}`" in PAGE, name
    assert f"{GROUP_ROWS_MAX:,} rows" in PAGE
    assert GROUP_BYTES == 1024 * 1024


@pytest.mark.anyio
async def test_the_queries_run(tmp_path: Path) -> None:
    bucket = await Bucket.open(tmp_path)
    replaced = "events/date=2026-11-15/00-000000000000.parquet"
    for path in (SEGMENT, replaced):
        await bucket.create(path, ENCODED.data)
    await Manifests(bucket, ONLY_PARTITION).create_next(example(ENCODED.info(SEGMENT)))
    for number in (1, 2):
        row = SessionRow(
            workspace="main",
            session="sessions/a",
            stream=7,
            content_type="application/json",
            created_at_ms=NOON,
            next_position=number,
        )
        gone = msgspec.structs.replace(row, session="sessions/b", stream=8, deleted=number == 2)
        await bucket.create(sessions_path(ONLY_PARTITION, number), encode_checkpoint([row, gone]).data)
    assert run("all", tmp_path) == [("agent.message", 2), ("user.message", 2)]
    assert run("live", tmp_path) == [("agent.message", 1), ("user.message", 1)]
    assert [row[:3] for row in run("sessions", tmp_path)] == [("main", "sessions/a", 2)]


def run(name: str, root: Path) -> list[tuple[object, ...]]:
    found = re.search(rf"<!-- query: {name} -->\n```sql\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    database = duckdb.connect()
    answer: list[tuple[object, ...]] = []
    for statement in found[1].replace("bucket/", f"{root}/").split(";"):
        if statement.strip():
            text = statement.replace("next_position, created_at", "next_position, epoch_ms(created_at)")
            answer = database.execute(text).fetchall()
    return answer
