"""The check of a feature: what it runs, when it passes, and what its verdict names."""

import hashlib
from typing import Any

import pytest

from durable_sessions.client.validation import FeatureCheck
from durable_sessions.sandbox import Result, SandboxPathError

AGREED = hashlib.sha256(b"assert total() == 6\n").hexdigest()
FEATURE = {"id": "sum", "check": "make test", "files": [{"path": "test_sum.py", "sha256": AGREED}]}


class Box:
    """A sandbox with some files, in which every command ends in the same way."""

    def __init__(self, files: dict[str, bytes], exit_code: int = 0) -> None:
        self.files = files
        self.exit_code = exit_code
        self.asked: list[tuple[str, float | None]] = []

    def run(self, command: str, timeout: float | None) -> Result:
        self.asked.append((command, timeout))
        return Result(self.exit_code, "out", "", 0.5)

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise SandboxPathError(f"{path} does not exist")
        return self.files[path]


def judged(
    box: Box, feature: dict[str, Any] | None = None, **more: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the events of the log and of the verdict."""
    state = {"outcome": {"features": [FEATURE if feature is None else feature]}}
    check = FeatureCheck(state, "sum", more.pop("command", None), more.pop("evidence", ()))
    result, found = check.run(box, 5.0)  # type: ignore[arg-type]
    (log, verdict), validation = check.events("box-1", result, found, "d" * 64, 9, more.pop("metrics", None))
    assert validation.verdict == verdict["verdict"]
    assert validation.evaluation == verdict["id"]
    return log, verdict


def test_a_check_passes_if_it_ends_well_and_its_files_are_as_agreed() -> None:
    box = Box({"test_sum.py": b"assert total() == 6\n"})
    log, verdict = judged(box, evidence=["call-7"])
    assert box.asked == [("make test", 5.0)]
    assert (verdict["verdict"], verdict["feature"], verdict["exit_code"]) == ("pass", "sum", 0)
    assert verdict["files"] == [{"path": "test_sum.py", "sha256": AGREED}]
    assert "note" not in verdict
    assert verdict["refs"] == [{"rel": "because", "id": log["id"]}, {"rel": "because", "id": "call-7"}]
    assert (log["sha256"], log["bytes"], log["role"]) == ("d" * 64, 9, "test_log")


@pytest.mark.parametrize(
    ("files", "exit_code", "note"),
    [
        ({"test_sum.py": b"assert True\n"}, 0, "Not as agreed: test_sum.py."),
        ({}, 0, "Not as agreed: test_sum.py."),
        ({"test_sum.py": b"assert total() == 6\n"}, 1, None),
    ],
    ids=["changed", "missing", "failed"],
)
def test_a_check_that_proves_nothing_fails(files: dict[str, bytes], exit_code: int, note: str | None) -> None:
    _, verdict = judged(Box(files, exit_code))
    assert (verdict["verdict"], verdict.get("note")) == ("fail", note)
    assert ("files" in verdict) == bool(files), "a missing file has no digest to name"


def test_a_note_stays_short_however_many_files_have_changed() -> None:
    files = [{"path": f"{number:0200}", "sha256": AGREED} for number in range(50)]
    _, verdict = judged(Box({}), {**FEATURE, "files": files})
    assert len(verdict["note"]) == 4_000


def test_what_is_given_goes_before_what_was_agreed() -> None:
    box = Box({"test_sum.py": b"assert total() == 6\n"})
    _, verdict = judged(box, command="pytest -q", metrics=lambda result: {"seconds": result.seconds})
    assert (box.asked[0][0], verdict["command"], verdict["metrics"]) == (
        "pytest -q",
        "pytest -q",
        {"seconds": 0.5},
    )
    _, verdict = judged(box, metrics=lambda _: {})
    assert "metrics" not in verdict


@pytest.mark.parametrize("outcome", [None, {"features": []}, {"features": [{"id": "sum"}]}])
def test_a_feature_without_a_check_needs_a_command(outcome: object) -> None:
    with pytest.raises(ValueError, match="The feature 'sum' has no check; give a command"):
        FeatureCheck({"outcome": outcome}, "sum", None, ())
    assert FeatureCheck({"outcome": outcome}, "sum", "make", ()).command == "make"
