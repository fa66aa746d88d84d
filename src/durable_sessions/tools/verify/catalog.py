"""Compares the local catalog with the bucket; it reads a copy, so that nothing changes."""

import shutil
import sqlite3
from pathlib import Path

from durable_sessions.bucket.manifest import Manifest
from durable_sessions.node.partition_files import CATALOG_SUFFIXES
from durable_sessions.tools.verify.findings import Findings
from durable_sessions.tools.verify.inventory import Inventory

DIFFERENCES_MAX = 100
"""How many differences are reported."""


def copied(catalog: Path, folder: Path) -> Path:
    """Copy a catalog that no process has open, and return the path of the copy."""
    folder.mkdir(exist_ok=True)
    for suffix in CATALOG_SUFFIXES[:2]:
        file = catalog.with_name(catalog.name + suffix)
        if file.exists():
            shutil.copyfile(file, folder / file.name)
    return folder / catalog.name


def about(catalog: Path) -> tuple[int, int]:
    """Return the manifest number of a catalog, and up to which position that was flushed."""
    connection = sqlite3.connect(catalog)
    try:
        number, flushed_through = connection.execute("select manifest, flushed_through from about").fetchone()
        return int(number), int(flushed_through)
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError("it does not say what it is of") from error
    finally:
        connection.close()


def check_catalog(
    catalog: Path, folder: Path, manifest: Manifest | None, inventory: Inventory, findings: Findings
) -> None:
    """Compare a catalog row by row, if it is of the newest manifest; the server rebuilds any other."""
    if not catalog.exists():
        return
    try:
        copy = copied(catalog, folder)
        of, flushed_through = about(copy)
        if (of, flushed_through) != (manifest.number, manifest.flushed_through) if manifest else of != 0:
            findings.notes.append(f"{catalog} is of manifest {of}; the server rebuilds it")
            return
        findings.checked["catalogs"] += 1
        for count, difference in enumerate(inventory.differences(copy)):
            if count == DIFFERENCES_MAX:
                findings.add(str(catalog), "there are more differences")
                break
            findings.add(str(catalog), difference)
    except sqlite3.DatabaseError as error:
        findings.add(str(catalog), f"it is not a sound database: {error}")
