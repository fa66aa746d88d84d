"""Exports that the package of Inspect itself reads. It is large, so `make test-adapters` installs it."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.skips import disabled
from tests.unit.exporters.golden import HERE, exported, judged

NO_INSPECT = disabled("inspect_ai is missing: its reader did not see our logs", "make test-adapters")
pytestmark = pytest.mark.skipif(importlib.util.find_spec("inspect_ai") is None, reason=NO_INSPECT)
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
SCHEMA = """
import importlib.metadata, json
from inspect_ai.log import EvalLog
version = importlib.metadata.version("inspect_ai")
print(json.dumps([version, EvalLog.model_json_schema()]))
"""


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


def test_our_copy_of_the_schema_is_that_of_the_package() -> None:
    """The other tests, which run everywhere, check exports with the copy."""
    done = subprocess.run([sys.executable, "-c", SCHEMA], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    version, schema = json.loads(done.stdout.splitlines()[-1])
    copied = json.loads((HERE / "inspect-eval-log.schema.json").read_text(encoding="utf-8"))
    assert f"inspect-ai {version}," in copied.pop("$comment")
    assert copied == without_texts(schema)


def without_texts(schema: Any) -> Any:
    """Return a schema without what only people read; properties may have these names, too."""
    if isinstance(schema, list):
        return [without_texts(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: {key: without_texts(one) for key, one in value.items()}
        if name in ("properties", "$defs")
        else without_texts(value)
        for name, value in schema.items()
        if name not in ("title", "description")
    }
