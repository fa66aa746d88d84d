"""Session metadata as Parquet."""

from pathlib import Path

import duckdb
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.bucket.checkpoint import SessionRow, encode_checkpoint, read_checkpoint
from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.layout import sessions_path
from durable_sessions.errors import ObjectDamagedError
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.testing.bucket import MemoryBucket

pytestmark = pytest.mark.anyio

PATH = sessions_path(ONLY_PARTITION, 42)
TIMES = st.integers(0, 4_000_000_000_000)
NUMBERS = st.integers(0, 2**62)

ROWS = st.lists(
    st.builds(
        SessionRow,
        workspace=st.sampled_from(["main", "ünï"]),
        session=st.text(st.characters(codec="utf-8"), max_size=20),
        stream=NUMBERS,
        content_type=st.sampled_from(["application/json", "text/plain; charset=utf-8"]),
        created_at_ms=TIMES,
        next_position=NUMBERS,
        closed=st.booleans(),
        deleted=st.booleans(),
        parent=st.none() | NUMBERS,
        base=NUMBERS,
        ttl_seconds=st.none() | NUMBERS,
        expires_at_ms=st.none() | TIMES,
        last_access_ms=st.none() | TIMES,
        attributes=st.none() | st.just('{"a":1}'),
        state=st.none() | st.binary(max_size=30),
    ),
    max_size=10,
)


@settings(max_examples=100, deadline=None)
@given(ROWS)
async def test_rows_come_back_sorted(rows: list[SessionRow]) -> None:
    encoded = encode_checkpoint(rows)
    memory = MemoryBucket()
    memory.objects[PATH] = encoded.data
    found = await read_checkpoint(memory, encoded.info(PATH))
    assert found == sorted(rows, key=lambda row: (row.workspace, row.session, row.stream))
    assert encoded.info(PATH).rows == len(rows)


def row(number: int) -> SessionRow:
    return SessionRow(
        workspace="main",
        session=f"sessions/{number}",
        stream=number,
        content_type="application/json",
        created_at_ms=1_794_744_000_000,
        next_position=7,
        state=b"\0opaque",
    )


async def test_any_change_is_refused() -> None:
    encoded = encode_checkpoint([row(n) for n in range(3)])
    memory = MemoryBucket()
    info = encoded.info(PATH)
    for at in range(0, len(encoded.data), 7):
        memory.objects[PATH] = encoded.data[:at] + bytes([encoded.data[at] ^ 1]) + encoded.data[at + 1 :]
        with pytest.raises(ObjectDamagedError, match="its bytes have changed"):
            await read_checkpoint(memory, info)
    memory.objects[PATH] = encoded.data[:-1]
    with pytest.raises(ObjectDamagedError, match="not"):
        await read_checkpoint(memory, info)
    memory.objects.clear()
    with pytest.raises(ObjectDamagedError, match="it is missing"):
        await read_checkpoint(memory, info)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all, though its digest is right"])
async def test_something_else_is_refused_even_if_its_digest_is_right(content: bytes) -> None:
    memory = MemoryBucket()
    memory.objects[PATH] = content
    info = msgspec.structs.replace(
        encode_checkpoint([row(1)]).info(PATH), bytes=len(content), sha256=digest(content)
    )
    with pytest.raises(ObjectDamagedError):
        await read_checkpoint(memory, info)


async def test_duckdb_reads_it_with_the_right_types(tmp_path: Path) -> None:
    file = tmp_path / "sessions.parquet"
    file.write_bytes(encode_checkpoint([row(1), row(2)]).data)
    found = duckdb.connect().sql(
        f"select * replace (epoch_ms(created_at) as created_at), typeof(created_at) as kind from '{file}'"
    )
    types = dict(zip(found.columns, map(str, found.types), strict=True))
    assert (types["closed"], types["state"], types["next_position"]) == ("BOOLEAN", "BLOB", "BIGINT")
    first = found.fetchall()[0]
    assert first[:5] == ("main", "sessions/1", 1, "application/json", 1_794_744_000_000)
    assert first[-1] == "TIMESTAMP WITH TIME ZONE"
