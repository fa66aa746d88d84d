"""The tests of the frameworks themselves, from their source distributions and repositories, unmodified.

`make test-adapters` downloads these (``tools/upstream_tests.py``); nothing of them is kept in this
repository. A plugin puts our class in the place of theirs before their tests are imported.
"""

import importlib
import importlib.metadata
import os
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from tools import upstream_tests

from tests.support.skips import disabled
from tests.support.told import RAN_AGAIN, UNSETTLED

PLUGINS = Path(__file__).parent / "plugins"
COMMAND = "make test-adapters  # installs large frameworks, and downloads their tests"
SUITE_SECONDS_MAX = 900.0
AGAIN_MAX = 5
Record = Callable[[str, object], None]
NONE: Mapping[str, str] = MappingProxyType({})


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
    archive = upstream_tests.distribution(package, needed(package))
    if not archive.exists():
        pytest.skip(disabled(f"the tests of {package} are not there", COMMAND))
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")
    return into / archive.name.removesuffix(".tar.gz")


def commit(repository: str, folder: str, into: Path) -> Path:
    """Unpack a folder of the pinned commit of a repository, and return it."""
    archive = upstream_tests.commit(repository)
    if not archive.exists():
        pytest.skip(disabled(f"the pinned commit of {repository} is not there", COMMAND))
    root = archive.name.removesuffix(".tar.gz")
    with tarfile.open(archive) as packed:
        members = [one for one in packed.getmembers() if one.name.startswith(f"{root}/{folder}/")]
        packed.extractall(into, members=members, filter="data")
    return into / root / folder


class Suite:
    """Tests of others, run with our class in the place of theirs.

    ``record`` is pytest's ``record_property``: what ran a second time, and how the unsettled ones went, is
    told at the end of the run.
    """

    def __init__(self, folder: Path, plugin: str, url: str, record: Record) -> None:
        self._folder = folder
        self._plugin = plugin
        self._record = record
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(PLUGINS),
            "NO_DOCKER": "true",
            "ADAPTER_SERVER": url,
        }

    def check(
        self,
        files: Iterable[str],
        *,
        passing: int,
        failing: Mapping[str, str],
        unsettled: Mapping[str, str] = NONE,
        left_out: Mapping[str, str] = NONE,
        options: Iterable[str] = (),
    ) -> None:
        """Run tests: exactly ``passing`` pass, and exactly those of ``failing`` fail.

        The ``unsettled`` ones count nowhere: their result depends on how fast the machine is. Tests are named
        as pytest names them, with file and parameters, and each with its reason; ``left_out`` are not run.
        """
        skipping = [option for name in left_out for option in ("--deselect", name)]
        passed, failed, output = self._run([*skipping, *options, *files])
        unknown = sorted(unsettled.keys() - passed - failed)
        assert not unknown, f"there are no such tests: {unknown}"
        for name in sorted(unsettled):
            self._record(UNSETTLED, f"{name}: {'failed' if name in failed else 'passed'} ({unsettled[name]})")
        passed -= unsettled.keys()
        failed -= unsettled.keys()
        surprising = sorted(failed - failing.keys())
        if 0 < len(surprising) <= AGAIN_MAX:
            # Some tests of others sleep to bring about an order: alone, they get it.
            passed_alone, failed_alone, output = self._run(
                ["-n", "0", *_without_workers(options), *surprising]
            )
            for name in sorted(passed_alone):
                self._record(RAN_AGAIN, f"{self._plugin}: {name}")
            passed |= passed_alone
            surprising = sorted(failed_alone)
        assert not surprising, "\n".join([*surprising, output[-8_000:]])
        unexpected = sorted(failing.keys() - failed)
        assert not unexpected, f"these were expected to fail, and did not: {unexpected}"
        assert len(passed) == passing, f"{len(passed)} tests passed, and {passing} should: {output[-2_000:]}"

    def _run(self, words: Iterable[str]) -> tuple[set[str], set[str], str]:
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
        return *self._outcomes(report), done.stdout

    def _outcomes(self, report: Path) -> tuple[set[str], set[str]]:
        passed, failed = set(), set()
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = _address(str(case.get("classname")), str(case.get("name")), self._folder)
            outcomes = {child.tag for child in case}
            if outcomes & {"failure", "error"}:
                failed.add(name)
            elif "skipped" not in outcomes:
                passed.add(name)
        return passed - failed, failed


def _address(place: str, name: str, folder: Path) -> str:
    """Return a test as pytest takes it, from its place in a report: ``tests.test_x.TestY``, ``test_z[1]``."""
    parts = place.split(".")
    for length in range(len(parts), 0, -1):
        file = Path(*parts[:length]).with_suffix(".py")
        if (folder / file).exists():
            return "::".join([str(file), *parts[length:], name])
    raise AssertionError(f"{place} is in no file of {folder}")


def _without_workers(options: Iterable[str]) -> list[str]:
    """Return the options of pytest without those that say how many processes run tests, or which."""
    listed = list(options)
    return [
        word
        for index, word in enumerate(listed)
        if word not in ("-n", "-k") and (index == 0 or listed[index - 1] not in ("-n", "-k"))
    ]
