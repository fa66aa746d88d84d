"""A single server becomes a cluster, and one again; wherever it is killed, it has happened or not."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from durable_sessions.bucket.cluster_description import current_cluster, require_no_cluster
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.errors import BucketRefusedError, SettingsError
from durable_sessions.ids import RandomIds
from durable_sessions.node.cluster_logs import ClusterLogs
from durable_sessions.settings import Settings
from durable_sessions.tools.cluster import status
from durable_sessions.tools.cluster.migration import to_cluster, to_single_server
from durable_sessions.tools.cluster.renewal import renew_logs
from durable_sessions.tools.repartition import Repartitioned
from tests.support.stopped import stopped
from tests.unit.tools.datadir import make
from tests.unit.tools.test_repartition import held, layout_of, problems

pytestmark = pytest.mark.anyio


class KilledError(Exception):
    """The process ends here."""


class Killer:
    """Ends the process at a step, as often as it is told."""

    def __init__(self, at: int) -> None:
        self._left = at

    def __call__(self, step: str) -> None:
        self._left -= 1
        if not self._left:
            raise KilledError(step)


def nothing(step: str) -> None:
    """Do not end."""


@pytest.fixture(autouse=True)
def _listens_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "LISTEN_BEATS", 0)


async def clustered(data: Path, partitions: int = 2, step: Callable[[str], None] = nothing) -> Repartitioned:
    bucket = await Bucket.open(data / "bucket")
    return await to_cluster(stopped(data), bucket, None, "blue", 3, partitions, step)


async def single(data: Path, scratch: Path, step: Callable[[str], None] = nothing) -> Repartitioned:
    logs = await ClusterLogs.open(Settings(bucket=str(data / "bucket")), RandomIds())
    return await to_single_server(stopped(scratch), logs, 1, step)


async def cluster_of(data: Path) -> str | None:
    found = await current_cluster(await Bucket.open(data / "bucket"))
    return None if found is None else found.name


async def test_a_server_becomes_a_cluster_and_is_one_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    records = await make(data)
    assert await cluster_of(data) is None
    done = await clustered(data)
    assert (done.layout.partitions, done.layout.in_files) == (2, False)
    assert await cluster_of(data) == "blue"
    assert await problems(data, done.layout, log=False) == []
    with pytest.raises(BucketRefusedError, match="--cluster blue"):
        await require_no_cluster(await Bucket.open(data / "bucket"))
    with pytest.raises(BucketRefusedError, match="belongs to the cluster blue already"):
        await clustered(data)

    later = tmp_path / "later"
    later.mkdir()
    done = await single(data, later)
    assert (done.layout.partitions, done.layout.in_files) == (1, True)
    assert await cluster_of(data) is None
    (data / "bucket").rename(later / "bucket")
    assert await held(later) == records
    assert await problems(later, done.layout) == []

    assert (await clustered(later, partitions=1)).layout.partitions == 1
    assert await cluster_of(later) == "blue"


async def test_wherever_it_is_killed_it_has_happened_or_not(tmp_path: Path) -> None:
    data, at, seen = tmp_path / "data", 0, set[str | None]()
    records = await make(data)
    while True:
        at += 1
        again = tmp_path / f"try-{at}"
        shutil.copytree(data, again)
        try:
            await clustered(again, step=Killer(at))
            break
        except KilledError:
            pass
        found = await cluster_of(again)
        seen.add(found)
        if found is None:
            await require_no_cluster(await Bucket.open(again / "bucket"))
            assert await held(again) == records, "the server goes on as it was"
            await clustered(again)
        assert await cluster_of(again) == "blue"
        assert await problems(again, await layout_of(again), log=False) == []
    assert seen == {None, "blue"}, "it was killed before and after its commit"


async def test_who_cannot_be_a_cluster_is_told_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await make(data)
    bucket = await Bucket.open(data / "bucket")
    with pytest.raises(SettingsError, match="cannot be the name of a cluster"):
        await to_cluster(stopped(data), bucket, None, "Blue!", 3, 2, nothing)
    await clustered(data)
    logs = await ClusterLogs.open(Settings(bucket=bucket.location), RandomIds())
    with pytest.raises(SettingsError, match="in its bucket, which is never made anew"):
        await renew_logs(logs, SystemClock())
