"""The tests of the frameworks themselves, from their source distributions, unmodified.

`make test-adapters` downloads these; nothing of them is kept in this repository. A plugin puts our class in
the place of theirs before their tests are imported.
"""

import importlib
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

ROOT = Path(__file__).parents[2]
PLUGINS = Path(__file__).parent / "plugins"
FOLDER = Path(sys.prefix) / "upstream"
COMMAND = "make test-adapters  # installs large frameworks, and downloads their tests"
SUITE_SECONDS_MAX = 900.0
AGAIN_MAX = 5


MODULES = {
    "agent-framework-core": "agent_framework",
    "claude-agent-sdk": "claude_agent_sdk",
    "google-adk": "google.adk.sessions",
    "langgraph": "langgraph.graph",
    "langgraph-checkpoint": "langgraph.checkpoint.base",
    "langgraph-checkpoint-sqlite": "langgraph.store.sqlite",
    "openai-agents": "agents",
    "pydantic-ai-slim": "pydantic_ai",
}
"""What a framework must be able to import; where one of its requirements cannot be had, it cannot."""


def needed(package: str) -> str:
    """Return the version of a framework that is installed; skip if there is none, or it does not work."""
    try:
        importlib.import_module(MODULES[package])
        return importlib.metadata.version(package)
    except ImportError:
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


def commit(repository: str, folder: str, into: Path) -> Path:
    """Unpack a folder of the commit of a repository that the Makefile names, and return it."""
    name = repository.partition("/")[2]
    found = re.search(rf"{re.escape(repository)}@([0-9a-f]{{40}})", (ROOT / "Makefile").read_text())
    assert found is not None, f"the Makefile names no commit of {repository}"
    archive = FOLDER / f"{name}-{found[1]}.tar.gz"
    if not archive.exists():
        pytest.skip(disabled(f"the commit {found[1][:12]} of {repository} is not there", COMMAND))
    root = f"{name}-{found[1]}"
    with tarfile.open(archive) as packed:
        members = [one for one in packed.getmembers() if one.name.startswith(f"{root}/{folder}/")]
        packed.extractall(into, members=members, filter="data")
    return into / root / folder


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
    suite = _Suite(folder, plugin, url)
    skipping = [option for name in left_out for option in ("--deselect", f"tests/{name}")]
    passed, failed, output = suite.run([*skipping, *options, *files])
    surprising = sorted(name for name in failed if _plain(name) not in expected)
    if surprising:
        # Some tests of others sleep to bring about an order: alone, they get it.
        again = [_address(name, folder) for name in surprising[:AGAIN_MAX]]
        passed_alone, failed_alone, output = suite.run(["-n", "0", *_without_workers(options), *again])
        passed += passed_alone
        surprising = surprising[AGAIN_MAX:] + failed_alone
    assert not surprising, "\n".join([*surprising, output[-8_000:]])
    missing = sorted(set(expected) - {_plain(name) for name in failed})
    assert not missing, f"these were expected to fail, and passed: {missing}"
    return len(passed)


class _Suite:
    """Runs tests of others with our class in the place of theirs."""

    def __init__(self, folder: Path, plugin: str, url: str) -> None:
        self._folder = folder
        self._plugin = plugin
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(PLUGINS),
            "NO_DOCKER": "true",
            "ADAPTER_SERVER": url,
        }

    def run(self, words: Iterable[str]) -> tuple[list[str], list[str], str]:
        """Return which tests passed and which failed, and what was printed."""
        report = self._folder / "report.xml"
        report.unlink(missing_ok=True)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-x", "--maxfail=1000", f"--junitxml={report}"),
                *("-p", f"{self._plugin}_in_place", "-p", "no:cacheprovider", *words),
            ],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SUITE_SECONDS_MAX,
        )
        assert report.exists(), done.stdout[-4_000:] + done.stderr[-4_000:]
        return *_results(report), done.stdout


def _address(name: str, folder: Path) -> str:
    """Return a test as pytest takes it, from its name in a report: ``tests.test_x.TestY.test_z[1]``."""
    names, bracket, parameters = name.partition("[")
    parts = names.split(".")
    for length in range(len(parts) - 1, 0, -1):
        file = Path(*parts[:length]).with_suffix(".py")
        if (folder / file).exists():
            return "::".join([str(file), *parts[length:]]) + bracket + parameters
    raise AssertionError(f"{name} is in no file of {folder}")


def _without_workers(options: Iterable[str]) -> list[str]:
    """Return the options of pytest without those that say how many processes run tests, or which."""
    listed = list(options)
    return [
        word
        for index, word in enumerate(listed)
        if word not in ("-n", "-k") and (index == 0 or listed[index - 1] not in ("-n", "-k"))
    ]


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
