"""What a start removes of other generations, and what it must leave."""

from pathlib import Path

import pytest

from durable_sessions.node.partition_files import (
    ORIGINAL_TIMES_MARK,
    pass_marks_on,
    remove_other_generations,
)
from durable_sessions.partition_id import PartitionId

FILES = (
    "log/00000000000000000000.log",
    "catalog.sqlite",
    "catalog.sqlite-wal",
    "catalog.sqlite-shm",
    "views.sqlite",
    "views.sqlite-wal",
    "search/default/meta.json",
    ORIGINAL_TIMES_MARK,
)
OTHERS = ("bucket/FORMAT", "signing-keys.json", "first-key.json", "partitions/notes.txt")
"""Of no partition."""


def fill(directory: Path, names: tuple[str, ...]) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def found(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def below(folder: str) -> set[str]:
    return {f"{folder}{name}" for name in FILES}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with generation 0 (one partition of it in the directory itself), 1, and 12."""
    fill(tmp_path, FILES + OTHERS)
    for name in ("01", "sys", "1-00", "1-sys", "12-00"):
        fill(tmp_path / "partitions" / name, FILES)
    return tmp_path


def test_the_first_generation_stays_in_the_directory_itself(data: Path) -> None:
    remove_other_generations(data, 0)
    assert found(data) == below("") | below("partitions/01/") | below("partitions/sys/") | set(OTHERS)


def test_a_later_generation_takes_the_files_of_the_first_away_and_nothing_else(data: Path) -> None:
    remove_other_generations(data, 1)
    assert found(data) == below("partitions/1-00/") | below("partitions/1-sys/") | set(OTHERS)


def test_it_is_complete_however_often_it_is_begun(data: Path) -> None:
    remove_other_generations(data, 12)
    once = found(data)
    remove_other_generations(data, 12)
    assert found(data) == once == below("partitions/12-00/") | set(OTHERS)


def test_a_folder_without_partitions_goes(tmp_path: Path) -> None:
    fill(tmp_path / "partitions" / "1-00", FILES)
    remove_other_generations(tmp_path, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("marked", "passes_on"), [((0, 1), True), ((0,), False), ((), False)])
def test_a_mark_is_passed_on_only_if_all_old_partitions_have_it(
    tmp_path: Path, marked: tuple[int, ...], passes_on: bool
) -> None:
    old = [PartitionId(number, 2) for number in range(2)]
    new = [PartitionId(number, 3, 1) for number in range(3)]
    for one in (*old, *new):
        one.directory(tmp_path).mkdir(parents=True, exist_ok=True)
    for number in marked:
        (old[number].directory(tmp_path) / ORIGINAL_TIMES_MARK).touch()
    pass_marks_on(tmp_path, old, new)
    assert [(one.directory(tmp_path) / ORIGINAL_TIMES_MARK).exists() for one in new] == [passes_on] * 3
