"""What a run was measured on: machine, disk, versions, durability."""

import os
import platform
import shutil
import sqlite3
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench import place, postgres, redis, reference

PACKAGES = ("uvloop", "httptools", "pyarrow", "tantivy", "uvicorn", "granian")
FRAMEWORKS = (
    "claude-agent-sdk",
    "langgraph-checkpoint",
    "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-sqlite",
    "openai-agents",
    "mcp",
    "asyncpg",
    "psycopg",
)
DURABILITY = (
    "ours answers after `fdatasync`; the file-backed reference after `fdatasync` of the stream's file; "
    "PostgreSQL with `fsync=on`, `synchronous_commit=on`; Redis with `appendfsync always`; the in-memory "
    "reference and the empty answers keep nothing; all data on the same file system"
)


def describe(directory: Path) -> dict[str, str]:
    """Return the facts that a figure means nothing without."""
    device, kind = place.file_system(directory)
    return {
        "machine": f"{os.cpu_count()} cores ({_processor()}), shared by server and client; {_memory()}",
        "disk": f"{kind} on {device}",
        "system": platform.platform(),
        "versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
        "durability": DURABILITY,
    }


def versions() -> dict[str, str]:
    """Return the version of everything that is measured or measures."""
    found = {"Python": platform.python_version()}
    for name in (*PACKAGES, *FRAMEWORKS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # this environment does not measure it
    found["SQLite"] = sqlite3.sqlite_version
    if shutil.which("node"):
        found["Node.js"] = _first_line("node", "--version").lstrip("v")
        found["@durable-streams/server"] = reference.VERSION
    if not postgres.missing():
        found["PostgreSQL"] = postgres.version()
    if not redis.missing():
        found["Redis"] = redis.version()
    found["C compiler"] = _first_line("cc", "--version")
    return found


def _first_line(*command: str) -> str:
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return (found.stdout or found.stderr).splitlines()[0]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB of memory"
