"""Exports that the package of Inspect itself reads, where it is installed: it is too large to be required."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.skips import disabled
from tests.unit.exporters.golden import exported
from tests.unit.exporters.test_validated import judged

NO_INSPECT = disabled(
    "inspect_ai is missing: its reader did not see our logs", ".venv/bin/pip install inspect-ai"
)
READ = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample
log = read_eval_log(sys.argv[1])
sample = read_eval_log_sample(sys.argv[1], id=log.samples[0].id)
print(json.dumps({
    "version": log.version, "status": log.status, "task": log.eval.task, "input": sample.input,
    "target": sample.target, "roles": [message.role for message in sample.messages],
    "calls": [call.function for one in sample.messages for call in getattr(one, "tool_calls", None) or []],
    "scores": {name: score.value for name, score in sample.scores.items()},
    "accuracy": log.results.scores[0].metrics["accuracy"].value if log.results.scores else None,
    "tokens": {model: used.output_tokens for model, used in log.stats.model_usage.items()},
}))
"""
"""Run by itself, because importing the package warns and changes the process."""


@pytest.mark.skipif(importlib.util.find_spec("inspect_ai") is None, reason=NO_INSPECT)
def test_inspect_reads_our_logs(tmp_path: Path) -> None:
    path = tmp_path / "build-42.json"
    path.write_text(exported("inspect", judged()), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout.splitlines()[-1])
    ours = json.loads(path.read_text(encoding="utf-8"))
    (sample,) = ours["samples"]
    assert (read["version"], read["status"], read["task"]) == (2, "success", ours["eval"]["task"])
    assert (read["input"], read["target"]) == ("Mend the cache", ["It is green."])
    assert read["roles"] == [message["role"] for message in sample["messages"]]
    assert read["calls"] == ["bash", "edit", "get_issue", "ask_person", "grep"]
    assert read["scores"] == {"f1": "C"}
    assert read["accuracy"] == 1.0
    assert read["tokens"] == {"claude-opus-4-5": 110}
