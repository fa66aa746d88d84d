"""The files of partitions in a data directory, and those that a repartitioning leaves behind."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from durable_sessions.log.generations import LOG_NAME, PARTITIONS_NAME, partition_directories
from durable_sessions.partition_id import PartitionId

CATALOG_NAME = "catalog.sqlite"
CATALOG_SUFFIXES = ("", "-wal", "-shm")
"""Suffixes of the files that make up a catalog, or any other database."""
VIEWS_NAME = "views.sqlite"
ARTIFACT_NAMES_NAME = "artifact-names.sqlite"
SEARCH_NAME = "search"
ORIGINAL_TIMES_MARK = "imports-known"


def remove_other_generations(data: Path, generation: int) -> None:
    """Remove the logs, catalogs, views and search indexes of all generations but one.

    Nobody needs them any more: their partitions are flushed, or have never held.
    """
    for other, directory in partition_directories(data):
        if other != generation:
            shutil.rmtree(directory)
    if generation:
        _remove_files(data)
    folder = data / PARTITIONS_NAME
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def pass_marks_on(data: Path, old: Sequence[PartitionId], new: Sequence[PartitionId]) -> None:
    """Mark new partitions as the old ones are marked, so that work that was done once is not repeated."""
    if all((one.directory(data) / ORIGINAL_TIMES_MARK).exists() for one in old):
        for one in new:
            (one.directory(data) / ORIGINAL_TIMES_MARK).touch()


def _remove_files(directory: Path) -> None:
    """Remove the files of one partition, and leave what else is in its directory."""
    databases = (CATALOG_NAME, VIEWS_NAME, ARTIFACT_NAMES_NAME)
    files = (name + suffix for name in databases for suffix in CATALOG_SUFFIXES)
    for name in (*files, ORIGINAL_TIMES_MARK):
        (directory / name).unlink(missing_ok=True)
    for name in (SEARCH_NAME, LOG_NAME):
        shutil.rmtree(directory / name, ignore_errors=True)
