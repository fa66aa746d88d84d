"""Other users of the machine see nothing of the data, whatever the umask."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from durable_sessions.storage import file_permissions
from tests.support.process import ServerProcess

ROOT = Path(__file__).parents[2]


def _open_to_others(directory: Path) -> list[str]:
    found = [directory, *directory.rglob("*")]
    return [f"{path} {path.lstat().st_mode:o}" for path in found if path.lstat().st_mode & 0o077]


def _undocumented(directory: Path) -> list[str]:
    """Return what lies in the data directory and not in the table of it."""
    _, _, table = (ROOT / "docs" / "running.md").read_text().partition("## The data directory\n")
    named = re.findall(r"^\| `([^`]+)` \|", table.partition("\n## ")[0], re.MULTILINE)
    firsts = [name.partition("/")[0] for name in named]
    assert {"log", "bucket", "search"} < {*firsts}
    return [path.name for path in directory.iterdir() if not any(map(path.match, firsts))]


def _use(server: ServerProcess) -> None:
    with httpx2.Client(base_url=server.url + "/v1", timeout=60) as client:
        client.post("/sessions/s/events", json={"type": "note", "text": "needle"})
        client.put("/stream/s", headers={"Content-Type": "text/plain"}, content="x")
        digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        client.put(f"/artifacts/{digest}", content=b"test")
        client.post("/admin/flush")
        while not client.get("/search", params={"q": "needle"}).json().get("total_hits"):
            pass
        client.get(server.url + "/v1/stream/__ds/jwks.json")


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_everything_is_made_private(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        _use(server)
        assert (data / "catalog.sqlite").exists()
        assert any((data / "search/default").iterdir())
        assert _open_to_others(data) == []
        assert _undocumented(data) == []
        server.terminate()
        assert server.run("verify").returncode == 0
        assert _open_to_others(data) == []
        assert _undocumented(data) == []


@pytest.mark.usefixtures("umask")
def test_what_is_open_is_made_private_at_the_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        _use(server)
        server.terminate()
        for path in (data, *data.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        server.start()
        assert _open_to_others(data) == []
        _use(server)
        assert _open_to_others(data) == []


def test_links_are_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "file").touch(mode=0o644)
    outside.chmod(0o755)
    (outside / "file").chmod(0o644)
    data = tmp_path / "data"
    (data / "deep").mkdir(parents=True)
    (data / "folder").symlink_to(outside)
    (data / "file").symlink_to(outside / "file")
    (data / "deep/one").touch()
    for path in (data, data / "deep"):
        path.chmod(0o755)
    (data / "deep/one").chmod(0o664)
    file_permissions.tighten(data)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755
    assert stat.S_IMODE((outside / "file").stat().st_mode) == 0o644
    assert [stat.S_IMODE(path.stat().st_mode) for path in (data, data / "deep", data / "deep/one")] == [
        0o700,
        0o700,
        0o600,
    ]
