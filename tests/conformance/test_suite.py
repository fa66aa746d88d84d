import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.process import ServerProcess

pytestmark = pytest.mark.conformance

TESTS_IN_THE_SUITE = 338


def test_the_public_suite_passes_whole(node_modules: Path, server: ServerProcess, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    subprocess.run(
        ["node_modules/.bin/vitest", "run", "--reporter=json", f"--outputFile={report}"],
        cwd=node_modules,
        env={**os.environ, "DS_URL": server.url, "CI": "true"},
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
    assert not failed, "\n".join(failed)
    assert (result["numPassedTests"], result["numPendingTests"]) == (TESTS_IN_THE_SUITE, 0)
