"""Install a lock file one by one, where not all of it can be had: ``python -m tools.install_each FILE``.

A machine behind a mirror may lack one package of a hundred. What can be installed is, with its pinned hashes;
what cannot is named, and the tests that need it are skipped. What is there already is not installed again.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path


def requirements(lock: str) -> Iterator[str]:
    """Yield the requirements of a lock file, each with its hashes."""
    lines: list[str] = []
    for line in lock.splitlines():
        if re.match(r"[A-Za-z0-9]", line) and lines:
            yield "\n".join(lines)
            lines = []
        if line and not line.lstrip().startswith("#"):
            lines.append(line)
    if lines:
        yield "\n".join(lines)


def _installed(requirement: str) -> bool:
    """Install a requirement, unless it is there already; say whether it is there."""
    package, _, version = requirement.split()[0].partition("==")
    try:
        if metadata.version(package) == version:
            return True
    except metadata.PackageNotFoundError:
        pass
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(requirement + "\n")
        file.flush()
        words = [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes", "--requirement"]
        done = subprocess.run([*words, file.name], check=False, capture_output=True)  # noqa: S603
        return done.returncode == 0


def main() -> None:
    """Install all that can be had, name the rest, and fail if there is any."""
    missing = False
    for requirement in requirements(Path(sys.argv[1]).read_text()):
        if not _installed(requirement):
            name = requirement.split()[0]
            sys.stderr.write(f"NOT TESTED: {name} cannot be installed; what needs it is skipped\n")
            missing = True
    sys.exit(missing)


if __name__ == "__main__":
    main()
