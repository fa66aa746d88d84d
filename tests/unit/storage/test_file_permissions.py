"""Other users have no access to the data directory, whatever it looked like before."""

import stat
from pathlib import Path

from durable_sessions.storage.file_permissions import make_file, tighten


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def make(path: Path, text: str, bits: int) -> Path:
    path.write_text(text)
    path.chmod(bits)
    return path


def test_files_and_directories_become_private_and_keep_the_owners_rights(tmp_path: Path) -> None:
    inner = tmp_path / "log"
    inner.mkdir()
    segment = make(inner / "segment", "data", 0o644)
    script = make(tmp_path / "script", "data", 0o755)
    inner.chmod(0o755)
    tmp_path.chmod(0o755)
    tighten(tmp_path)
    assert [mode(path) for path in (tmp_path, inner, segment, script)] == [0o700, 0o700, 0o600, 0o700]


def test_a_private_directory_is_not_walked_again(tmp_path: Path) -> None:
    inner = tmp_path / "private"
    inner.mkdir()
    inside = make(inner / "file", "data", 0o644)
    inner.chmod(0o700)
    tighten(tmp_path)
    assert mode(inside) == 0o644


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shared = make(outside / "shared", "data", 0o644)
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").symlink_to(shared)
    (data / "folder").symlink_to(outside, target_is_directory=True)
    tighten(data)
    assert mode(shared) == 0o644


def test_a_new_file_is_private_and_an_existing_one_keeps_its_content(tmp_path: Path) -> None:
    path = tmp_path / "catalog"
    make_file(path)
    assert mode(path) == 0o600
    path.write_text("kept")
    make_file(path)
    assert path.read_text() == "kept"
