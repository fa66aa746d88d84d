"""The rules of ATIF 1.7, written from its specification, for where Harbor is not installed."""

from datetime import datetime
from typing import Any

TRAJECTORY = {
    "schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics",
    "continued_trajectory_ref", "extra", "subagent_trajectories",
}  # fmt: skip
AGENT = {"name", "version", "model_name", "tool_definitions", "extra"}
STEP = {
    "step_id", "timestamp", "source", "model_name", "reasoning_effort", "message", "reasoning_content",
    "tool_calls", "observation", "metrics", "is_copied_context", "llm_call_count", "extra",
}  # fmt: skip
OF_AGENTS_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
FINAL = {
    "total_prompt_tokens", "total_completion_tokens", "total_cached_tokens", "total_cost_usd",
    "total_steps", "extra",
}  # fmt: skip
METRICS = {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "extra"}


def check(trajectory: dict[str, Any]) -> None:
    """Fail if a trajectory breaks a rule."""
    assert trajectory.keys() <= TRAJECTORY
    assert trajectory["schema_version"] == "ATIF-v1.7"
    assert trajectory["agent"].keys() <= AGENT
    assert all(isinstance(trajectory["agent"][name], str) for name in ("name", "version"))
    assert trajectory["steps"]
    assert [step["step_id"] for step in trajectory["steps"]] == [*range(1, len(trajectory["steps"]) + 1)]
    for step in trajectory["steps"]:
        _check_step(step)
    assert trajectory["final_metrics"].keys() <= FINAL
    assert trajectory["final_metrics"]["total_steps"] == len(trajectory["steps"])
    embedded = trajectory.get("subagent_trajectories", [])
    names = [one["trajectory_id"] for one in embedded]
    assert len(set(names)) == len(names)
    for one in embedded:
        check(one)


def _check_step(step: dict[str, Any]) -> None:
    assert step.keys() <= STEP
    assert step["source"] in ("user", "agent", "system")
    assert step["source"] == "agent" or not step.keys() & OF_AGENTS_ONLY
    if "timestamp" in step:
        datetime.fromisoformat(step["timestamp"])
    _check_content(step["message"])
    calls = set()
    for call in step.get("tool_calls", []):
        assert call.keys() <= {"tool_call_id", "function_name", "arguments", "extra"}
        assert isinstance(call["arguments"], dict)
        calls.add(call["tool_call_id"])
    for result in step.get("observation", {}).get("results", []):
        assert result.keys() <= {"source_call_id", "content", "subagent_trajectory_ref", "extra"}
        assert result.get("source_call_id") is None or result["source_call_id"] in calls
        _check_content(result.get("content", ""))
    assert step.get("metrics", {}).keys() <= METRICS


def _check_content(content: object) -> None:
    if isinstance(content, str):
        return
    assert isinstance(content, list)
    for part in content:
        if part["type"] == "text":
            assert part.keys() == {"type", "text"}
        else:
            assert part.keys() == {"type", "source"}
            assert part["source"].keys() == {"media_type", "path"}
