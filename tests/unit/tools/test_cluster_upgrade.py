"""A cluster writes what all its nodes read, until an operator says that all of them are upgraded."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from durable_sessions.bucket import cluster_description
from durable_sessions.bucket.cluster_description import (
    DESCRIPTION,
    LEVEL,
    ClusterDescription,
    read_description,
)
from durable_sessions.bucket.store import Bucket
from durable_sessions.cli.main import cli
from durable_sessions.cluster.heartbeat import NodeHeartbeat
from durable_sessions.errors import BucketRefusedError, SettingsError
from durable_sessions.node.cluster_node import ClusterNode
from durable_sessions.settings import Settings
from durable_sessions.tools.cluster.upgrade import UpgradeState, finalize_upgrade, upgrade_state

from .test_cluster_status import Channel, Logs

pytestmark = pytest.mark.anyio


async def made(folder: Path, level: int) -> ClusterDescription:
    """Make a cluster that writes at a level; return its description."""
    said = ClusterDescription(name="blue", log="bucket", lineage="log_1", version=level)
    bucket = await Bucket.open(folder / "bucket")
    await bucket.create(DESCRIPTION, msgspec.json.encode(said))
    return said


async def logs(folder: Path, description: ClusterDescription, **levels: int) -> Any:
    """Return the logs of a cluster whose nodes read up to these levels."""

    def said(number: int) -> list[bytes]:
        beats = [
            NodeHeartbeat(name, name, "c:1", version="0.9", number=number, level=level)
            for name, level in levels.items()
        ]
        return [beat.encode() for beat in beats]

    bucket = await Bucket.open(folder / "bucket")
    return Logs(bucket, Channel([said(1), said(2)]), description=description)


def test_a_new_cluster_has_the_newest_level(tmp_path: Path) -> None:
    found = CliRunner().invoke(
        cli, ["cluster", "init", "--name", "blue", "--bucket", str(tmp_path / "bucket")]
    )
    assert found.exit_code == 0, found.output
    said = msgspec.json.decode((tmp_path / "bucket" / DESCRIPTION).read_bytes())
    assert said["version"] == LEVEL


async def test_the_level_is_raised_when_all_nodes_read_the_newest(tmp_path: Path) -> None:
    assert NodeHeartbeat("a", "a", "c:1").level == 1, "that of nodes which do not say it"
    old = await made(tmp_path, LEVEL - 1)
    mixed = await logs(tmp_path, old, a=LEVEL, b=1)
    assert await upgrade_state(mixed, 0) == UpgradeState(LEVEL - 1, LEVEL, ["b (0.9)"])
    with pytest.raises(BucketRefusedError, match=rf"do not read format level {LEVEL}: b \(0\.9\)"):
        await finalize_upgrade(await logs(tmp_path, old, a=LEVEL, b=1), 0)
    assert await read_description(mixed.bucket) == old, "nothing was changed"
    upgraded = await logs(tmp_path, old, a=LEVEL, b=LEVEL + 1)
    assert await finalize_upgrade(upgraded, 0) == UpgradeState(LEVEL, LEVEL, [])
    assert await read_description(upgraded.bucket) == msgspec.structs.replace(old, version=LEVEL)


async def test_a_node_that_is_too_old_for_the_level_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(tmp_path, LEVEL)
    monkeypatch.setattr(cluster_description, "LEVEL", LEVEL - 1)
    settings = Settings(
        data=tmp_path / "data", bucket=str(tmp_path / "bucket"), cluster="blue", cluster_secret="s" * 32
    )
    with pytest.raises(BucketRefusedError, match=f"writes at format level {LEVEL}, and this program reads"):
        await ClusterNode.open(settings, settings.limits())


async def test_what_older_nodes_cannot_read_waits_for_the_level(tmp_path: Path) -> None:
    await made(tmp_path, 1)
    settings = Settings(
        data=tmp_path / "data",
        bucket=str(tmp_path / "bucket"),
        cluster="blue",
        cluster_secret="s" * 32,
        cluster_secret_previous="p" * 32,
    )
    with pytest.raises(SettingsError, match="the cluster is at format level 1"):
        await ClusterNode.open(settings, settings.limits())


def test_the_command_shows_and_raises_the_level(tmp_path: Path) -> None:
    bucket = str(tmp_path / "bucket")
    run = CliRunner().invoke
    assert run(cli, ["cluster", "init", "--name", "blue", "--bucket", bucket]).exit_code == 0
    path = tmp_path / "bucket" / DESCRIPTION
    path.write_bytes(path.read_bytes().replace(f'"version":{LEVEL}'.encode(), b'"version":1'))
    assert "format level 1 of 2" in run(cli, ["cluster", "status", "--bucket", bucket]).output
    said = run(cli, ["cluster", "upgrade", "--bucket", bucket]).output
    assert said.startswith(
        "The cluster writes at format level 1; the newest is 2.\nAll nodes that run read it"
    )
    said = run(cli, ["cluster", "upgrade", "--bucket", bucket, "--finalize"]).output
    assert said == "The cluster writes at format level 2; the newest is 2.\n"
    said = run(cli, ["cluster", "upgrade", "--bucket", bucket, "--json"]).output
    assert msgspec.json.decode(said) == {"level": 2, "newest": 2, "older": []}
