"""One event of every type that the SDK knows, as a client or a harness sends it."""

from typing import Any

from tests.anthropic.harness import text

_MODEL_USAGE = {
    "input_tokens": 3,
    "output_tokens": 2,
    "cache_read_input_tokens": 1,
    "cache_creation_input_tokens": 0,
}
_THREAD = {"session_thread_id": "sthr_1", "agent_name": "Reviewer"}
_IDLE = {"stop_reason": {"type": "end_turn"}, "stop_details": None}
_RUN = {"workflow_run_id": "wrun_1"}
_PHASE = {**_RUN, "workflow_run_phase_id": "wphs_1"}
_OUTCOME = {"outcome_id": "outc_1", "iteration": 1}

_MEMBERS: dict[str, dict[str, Any]] = {
    "user.message": {"content": text("hello")},
    "user.interrupt": {},
    "user.tool_confirmation": {"tool_use_id": "sevt_1", "result": "deny", "deny_message": "no"},
    "user.custom_tool_result": {"custom_tool_use_id": "sevt_1", "content": text("ok"), "is_error": False},
    "user.tool_result": {"tool_use_id": "sevt_1", "content": text("ok")},
    "user.define_outcome": {"description": "d", "rubric": {"type": "text", "content": "c"}},
    "system.message": {"content": text("be brief")},
    "agent.message": {"content": text("hi")},
    "agent.thinking": {},
    "agent.thread_context_compacted": {},
    "agent.tool_use": {"name": "bash", "input": {"command": "ls"}, "evaluated_permission": "allow"},
    "agent.tool_result": {"tool_use_id": "sevt_1", "content": text("README"), "is_error": False},
    "agent.mcp_tool_use": {"name": "search", "mcp_server_name": "docs", "input": {}},
    "agent.mcp_tool_result": {"mcp_tool_use_id": "sevt_1", "content": text("found")},
    "agent.custom_tool_use": {"name": "crm", "input": {"id": 7}},
    "agent.thread_message_sent": {"to_session_thread_id": "sthr_1", "content": text("do it")},
    "agent.thread_message_received": {"from_session_thread_id": "sthr_1", "content": text("done")},
    "session.status_running": {},
    "session.status_rescheduled": {},
    "session.status_idle": _IDLE,
    "session.status_terminated": {},
    "session.error": {
        "error": {"type": "model_overloaded_error", "message": "busy", "retry_status": {"type": "retrying"}}
    },
    "session.updated": {"title": "new"},
    "session.usage": {"usage": {"input_tokens": 3, "output_tokens": 2}},
    "session.thread_created": {**_THREAD, "workflow_run_id": None},
    "session.thread_status_running": _THREAD,
    "session.thread_status_rescheduled": _THREAD,
    "session.thread_status_idle": {**_THREAD, **_IDLE},
    "session.thread_status_terminated": _THREAD,
    "span.model_request_start": {},
    "span.model_request_end": {
        "model_request_start_id": "sevt_1",
        "model_usage": _MODEL_USAGE,
        "is_error": None,
    },
    "span.outcome_evaluation_start": _OUTCOME,
    "span.outcome_evaluation_ongoing": _OUTCOME,
    "span.outcome_evaluation_end": {
        **_OUTCOME,
        "outcome_evaluation_start_id": "sevt_1",
        "result": "satisfied",
        "explanation": "It does.",
        "usage": _MODEL_USAGE,
    },
    "workflow_run.created": {
        **_RUN,
        "name": "Build",
        "description": None,
        "phases": [{"id": "wphs_1", "name": "Plan", "description": None}],
    },
    "workflow_run.status_running": _RUN,
    "workflow_run.status_idle": _RUN,
    "workflow_run.status_ended": {**_RUN, "result": {"type": "completed"}},
    "workflow_run.error": {**_RUN, "error": {"type": "timeout_error", "message": "too slow"}},
    "workflow_run.phase_started": _PHASE,
    "workflow_run.phase_ended": {**_PHASE, "phase_started_id": "sevt_1"},
}

EVENTS = [{"type": kind, **members} for kind, members in _MEMBERS.items()]
