import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.process import ServerProcess

pytestmark = pytest.mark.conformance

TESTS_IN_THE_SUITE = 338


def suite_failures(url: str, node_modules: Path, report: Path) -> list[str]:
    """Run the suite against a server, and return what failed; all its tests must have run."""
    subprocess.run(
        ["node_modules/.bin/vitest", "run", "--reporter=json", f"--outputFile={report}"],
        cwd=node_modules,
        env={**os.environ, "DS_URL": url, "CI": "true"},
        capture_output=True,
        check=False,
        timeout=300,
    )
    result = json.loads(report.read_text())
    failed = [
        f"{test['fullName']}: {test['failureMessages'][:1]}"
        for file in result["testResults"]
        for test in file["assertionResults"]
        if test["status"] == "failed"
    ]
    assert (result["numPassedTests"] + len(failed), result["numPendingTests"]) == (TESTS_IN_THE_SUITE, 0)
    return failed


def test_the_public_suite_passes_whole(node_modules: Path, server: ServerProcess, tmp_path: Path) -> None:
    failed = suite_failures(server.url, node_modules, tmp_path / "report.json")
    assert not failed, "\n".join(failed)
