"""The tests of the frameworks themselves, from their source distributions, unmodified.

`make test-adapters` downloads these; nothing of them is kept in this repository. A plugin puts our class in
the place of theirs before their tests are imported.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.support.skips import disabled

PLUGINS = Path(__file__).parent / "plugins"
FOLDER = Path(sys.prefix) / "upstream"
COMMAND = "make test-adapters  # installs large frameworks, and downloads their tests"
SUITE_SECONDS_MAX = 900.0


def needed(package: str) -> str:
    """Return the version of a framework that is installed; skip if there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(disabled(f"{package} is not installed", COMMAND), allow_module_level=True)


def sources(package: str, into: Path) -> Path:
    """Unpack the source distribution of the installed version, and return its folder."""
    name = f"{package.replace('-', '_')}-{needed(package)}"
    archive = FOLDER / f"{name}.tar.gz"
    if not archive.exists():
        pytest.skip(disabled(f"the tests of {package} are not there", COMMAND))
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")
    return into / name


def run(
    folder: Path,
    files: Iterable[str],
    plugin: str,
    url: str,
    *,
    expected: Mapping[str, str],
    left_out: Mapping[str, str],
    options: Iterable[str] = (),
) -> int:
    """Run tests of others, and return how many passed.

    ``expected`` are those that must fail, with the reason; ``left_out`` are those whose result depends on how
    fast the machine is. Both are names of tests, without their parameters.
    """
    report = folder / "report.xml"
    skipping = [option for name in left_out for option in ("--deselect", f"tests/{name}")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-x", "--maxfail=1000", f"--junitxml={report}"),
            *("-p", f"{plugin}_in_place", "-p", "no:cacheprovider"),
            *(*skipping, *options, *files),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PLUGINS), "NO_DOCKER": "true", "ADAPTER_SERVER": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=SUITE_SECONDS_MAX,
    )
    assert report.exists(), done.stdout[-4_000:] + done.stderr[-4_000:]
    passed, failed = _results(report)
    surprising = sorted(name for name in failed if _plain(name) not in expected)
    assert not surprising, "\n".join([*surprising, done.stdout[-8_000:]])
    missing = sorted(set(expected) - {_plain(name) for name in failed})
    assert not missing, f"these were expected to fail, and passed: {missing}"
    return len(passed)


def _results(report: Path) -> tuple[list[str], list[str]]:
    passed, failed = [], []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            failed.append(name)
        elif "skipped" not in outcomes:
            passed.append(name)
    return passed, failed


def _plain(name: str) -> str:
    """Return the name of a test without the module and the parameters."""
    return re.sub(r"\[.*", "", name).rpartition(".")[2]
