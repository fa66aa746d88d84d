"""A file that a command writes is complete or is not replaced."""

import stat
from pathlib import Path

import click
import pytest

from durable_sessions.cli.atomic_file import replacing


def test_a_file_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "export"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def interrupted(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt


def test_after_a_failure_the_old_file_is_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "export"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_executable_for_nobody(tmp_path: Path) -> None:
    path = tmp_path / "export"
    with replacing(path) as file:
        file.write(b"new")
    assert not stat.S_IMODE(path.stat().st_mode) & 0o111


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "export"
    with pytest.raises(click.FileError) as caught, replacing(path):
        pass
    assert str(path) in caught.value.format_message()
