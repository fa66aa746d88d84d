"""What earlier versions wrote is partition 0, and keeps its meaning byte for byte."""

import io
import json
import re
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.tools.verify import verify
from tests.unit.tier.earlier import Directory, write

pytestmark = pytest.mark.anyio

EARLIER = Path(__file__).with_name("earlier.zip")
SAID = "said.json"
_DEPENDS_ON_PARQUET = re.compile(rb'"(?:bytes|footer_offset)":\d+|"(?:sha256|footer_sha256)":"[0-9a-f]{64}"')


@pytest.fixture
def earlier() -> dict[str, bytes]:
    with zipfile.ZipFile(EARLIER) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def files_in(data: Path) -> dict[str, bytes]:
    """Return what outlives a process: log and bucket."""
    found = (path for path in data.rglob("*") if path.is_file() and path.name != "lock")
    names = {path.relative_to(data).as_posix(): path.read_bytes() for path in found}
    return {name: content for name, content in names.items() if not name.startswith("catalog.")}


def meaning(name: str, content: bytes) -> object:
    """Return what a file says, without what another version of the Parquet library would change."""
    if name.endswith(".parquet"):
        table = pq.read_table(io.BytesIO(content))
        return table.schema.remove_metadata(), table.to_pylist()
    return _DEPENDS_ON_PARQUET.sub(b"", content) if name.endswith(".json") else content


async def test_the_same_appends_give_the_same_bytes(earlier: dict[str, bytes], tmp_path: Path) -> None:
    assert await write(tmp_path) == json.loads(earlier.pop(SAID))
    now = files_in(tmp_path)
    assert sorted(now) == sorted(earlier)
    for name, content in earlier.items():
        assert meaning(name, now[name]) == meaning(name, content), name
    segment = next(name for name in now if name.endswith(".parquet"))
    writers = {pq.read_metadata(io.BytesIO(one[segment])).created_by for one in (now, earlier)}
    if len(writers) == 1:
        assert now == earlier


async def test_a_directory_of_an_earlier_version_goes_on(earlier: dict[str, bytes], tmp_path: Path) -> None:
    said = json.loads(earlier.pop(SAID))
    for name, content in earlier.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    bucket = await Bucket.open(tmp_path / "bucket")
    assert (await verify(bucket, tmp_path, partition=ONLY_PARTITION)).problems == []
    async with Directory(tmp_path, "a later process") as one:
        one.clock.advance(3_600.0)
        assert await one.said() == said, "numbers, incarnations, offsets and event ids"
        assert [each.key.id for each in one.partition._state.subscriptions] == ["sub"]
        numbers = [member["number"] for member in said.values()]
        for session in ("alpha", "beta"):
            await one.send(session, {"id": "m2", "type": "x"})
        await one.send("alpha", {"type": "user.message"}, request="key-1")
        assert await one.said() == said, "repeated under the same ids and keys, nothing is appended again"
        assert one.partition._state.next_id == max(numbers) + 1
        assert one.partition._state.next_id in ONLY_PARTITION.streams
    now = files_in(tmp_path)
    assert {name: now[name] for name in earlier if not name.startswith("log/")} == {
        name: content for name, content in earlier.items() if not name.startswith("log/")
    }
    assert [name for name in now if name not in earlier and name.startswith("bucket/")] == [
        "bucket/partitions/00/manifest/000000000008.json"
    ]
    assert (await verify(bucket, tmp_path, partition=ONLY_PARTITION)).problems == []
