"""The secret that nodes share: where it comes from, and what is sealed with it while it is replaced."""

from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import SettingsError
from durable_sessions.node.cluster_keys import FILE, OBJECT, share_signing_keys
from durable_sessions.node.cluster_secrets import ClusterSecrets
from durable_sessions.settings import Settings

pytestmark = pytest.mark.anyio

OLD, NEW = "old-secret-" + "o" * 32, "new-secret-" + "n" * 32


def test_a_secret_comes_from_its_setting_or_from_a_file(tmp_path: Path) -> None:
    current, previous = tmp_path / "current", tmp_path / "previous"
    current.write_text(NEW + "\n")
    previous.write_text(f"  {OLD}\n\n")
    files = Settings(cluster_secret_file=str(current), cluster_secret_previous_file=str(previous))
    values = Settings(cluster_secret=NEW, cluster_secret_previous=OLD)
    assert ClusterSecrets.open(files) == ClusterSecrets.open(values) == ClusterSecrets((NEW, OLD))
    assert ClusterSecrets.open(replace(values, cluster_secret_previous=NEW)) == ClusterSecrets((NEW,))
    assert ClusterSecrets.open(Settings(cluster_secret=NEW)).keys("links") == (
        ClusterSecrets.open(values).keys("links")[0],
    )
    assert NEW not in repr(ClusterSecrets.open(values))


def test_what_is_of_no_use_as_a_secret_is_named(tmp_path: Path) -> None:
    usual = Settings(cluster_secret=NEW)
    two = tmp_path / "two"
    two.write_text(f"{NEW}\n{OLD}\n")
    (tmp_path / "binary").write_bytes(b"\xff" * 40)
    (tmp_path / "empty").touch()
    for wrong, problem in (
        (Settings(), "needs the secret that all nodes share"),
        (replace(usual, cluster_secret="s" * 31), "cluster_secret has 31"),
        (replace(usual, cluster_secret_previous="s" * 31), "cluster_secret_previous has 31"),
        (replace(usual, cluster_secret_file=str(two)), "are both given"),
        (Settings(cluster_secret_file=str(two)), "two, which has more in it than one secret"),
        (Settings(cluster_secret_file=str(tmp_path / "binary")), "binary, which has more in it"),
        (Settings(cluster_secret_file=str(tmp_path / "empty")), "cluster_secret has 0"),
        (replace(usual, cluster_secret_previous_file=str(tmp_path / "none")), "none, which cannot be read"),
    ):
        with pytest.raises(SettingsError, match=problem) as refused:
            ClusterSecrets.open(wrong)
        assert NEW not in str(refused.value)


def keys(*secrets: str) -> tuple[bytes, ...]:
    return ClusterSecrets(secrets).keys("signing keys")


async def shared(bucket: Bucket, data: Path, *secrets: str) -> bytes:
    """Start a node with these secrets; return the signing keys that it has then."""
    data.mkdir(exist_ok=True)
    await share_signing_keys(bucket, keys(*secrets), data)
    return (data / FILE).read_bytes()


async def test_nodes_keep_their_signing_keys_while_the_secret_is_replaced(tmp_path: Path) -> None:
    bucket = await Bucket.open(str(tmp_path / "bucket"))
    first = await shared(bucket, tmp_path / "a", OLD)
    assert await shared(bucket, tmp_path / "b", OLD) == first
    with pytest.raises(SettingsError, match="does not open their signing keys"):
        await shared(bucket, tmp_path / "new", NEW)
    assert await shared(bucket, tmp_path / "a", NEW, OLD) == first
    assert await shared(bucket, tmp_path / "c", OLD) == first, "one that was not changed yet starts again"
    assert await shared(bucket, tmp_path / "b", NEW, OLD) == first
    assert await shared(bucket, tmp_path / "c", NEW, OLD) == first
    assert await shared(bucket, tmp_path / "a", NEW) == first
    assert await shared(bucket, tmp_path / "b", NEW, OLD) == first
    with pytest.raises(SettingsError, match="does not open their signing keys"):
        await shared(bucket, tmp_path / "late", OLD)
    assert first not in await bucket.get(OBJECT)
