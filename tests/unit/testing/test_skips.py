"""A run says at its end what it did not test, and how to."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.skips import UNKNOWN, disabled, told

ROOT = Path(__file__).parents[3]


def test_each_reason_stands_once_with_its_command() -> None:
    reason = disabled("no oven: nothing was baked", "make oven")
    assert told([f"Skipped: {reason}", "Skipped: too\n late", f"Skipped: {reason}"]) == [
        "2 skipped: no oven: nothing was baked",
        "    to enable: make oven",
        "1 skipped: too late",
        f"    to enable: {UNKNOWN}",
    ]
    assert told([]) == []


def test_a_run_ends_with_what_was_skipped_in_all_workers(tmp_path: Path) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "conftest.py").write_text("from tests.conftest import pytest_terminal_summary\n")
    skip = f"pytest.mark.skip(reason={disabled('no oven', 'make oven')!r})"
    for name in ("a", "b"):
        body = f"import pytest\n\n@{skip}\ndef test_it():\n    pass\n"
        (tmp_path / "suite" / f"test_{name}.py").write_text(body)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, "--confcutdir", str(tmp_path), "--import-mode=importlib", str(tmp_path / "suite")],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"not tested -+\n2 skipped: no oven\n    to enable: make oven\n", done.stdout), (
        done.stdout + done.stderr
    )


def test_every_skip_of_the_tests_names_its_command() -> None:
    bare = re.compile(r"pytest\.skip\((?!disabled\(|missing\()|mark\.skip\(reason=(?!disabled\(|missing\()")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != Path(__file__)
        for line in path.read_text().splitlines()
        if bare.search(line)
    ]
    assert not found
