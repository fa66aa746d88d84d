"""One process of a machine has a bucket at a time, and loses it when it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from durable_sessions.bucket.machine_claim import MachineClaim

_HOLDER = """
import sys
from durable_sessions.bucket.machine_claim import MachineClaim
claim = MachineClaim(sys.argv[1])
print(claim.take(), flush=True)
sys.stdin.read()
"""


def held(bucket: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _HOLDER, bucket]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


@pytest.mark.parametrize("place", ["directory", "store"])
def test_a_bucket_is_taken_once_and_free_when_its_holder_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "bucket").mkdir()
    bucket = str(tmp_path / "bucket") if place == "directory" else "s3://name/prefix"
    with held(bucket) as holder:
        assert not MachineClaim(bucket).take()
        assert not MachineClaim(f"{bucket}/").take(), "the same place, spelled differently"
        assert MachineClaim("s3://name/other").take()
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
        assert MachineClaim(bucket).take() is (place == "store"), "a bucket of this name in another store"
        monkeypatch.delenv("AWS_ENDPOINT_URL")
        holder.kill()
    claim = MachineClaim(bucket)
    assert claim.take()
    assert claim.take(), "it is ours already"


def test_a_directory_that_is_not_there_is_made_and_taken(tmp_path: Path) -> None:
    with held(str(tmp_path / "deep" / "bucket")):
        assert not MachineClaim(str(tmp_path / "deep" / "bucket")).take()


def test_what_cannot_be_locked_is_granted(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert MachineClaim(str(tmp_path / "file")).take()
