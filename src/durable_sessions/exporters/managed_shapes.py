"""The shapes of Managed Agents' events, as far as its SDKs promise them to those who read.

It is a table, first of members and then of types, with nothing to run; ``member_shapes`` makes events fit it.
"""

from typing import Any, Literal

import msgspec

from durable_sessions.exporters.member_shapes import Content, ErrorShape, MemberShape, Metadata, Shape

# What members can be --------------------------------------------------------------------


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _Redacted(msgspec.Struct, tag_field="type", tag="redacted"):
    pass


class _Base64(msgspec.Struct, tag_field="type", tag="base64"):
    data: str
    media_type: str


class _Plain(msgspec.Struct, tag_field="type", tag="text"):
    data: str
    media_type: Literal["text/plain"]


class _Url(msgspec.Struct, tag_field="type", tag="url"):
    url: str


class _File(msgspec.Struct, tag_field="type", tag="file"):
    file_id: str


class _Image(msgspec.Struct, tag_field="type", tag="image"):
    source: _Base64 | _Url | _File


class _Document(msgspec.Struct, tag_field="type", tag="document"):
    source: _Base64 | _Plain | _Url | _File
    title: str | None = None
    context: str | None = None


class _Citations(msgspec.Struct):
    enabled: bool


class _SearchResult(msgspec.Struct, tag_field="type", tag="search_result"):
    source: str
    title: str
    content: list[_Text]
    citations: _Citations


class _Tokens(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int
    speed: Literal["standard", "fast"] | None = None


class _RetryStatus(msgspec.Struct):
    type: Literal["retrying", "exhausted", "terminal"]


class _PlainError(msgspec.Struct):
    type: Literal[
        "unknown_error",
        "model_overloaded_error",
        "model_rate_limited_error",
        "model_request_failed_error",
        "billing_error",
        "tool_use_limit_reached_error",
        "compaction_limit_reached_error",
    ]
    message: str
    retry_status: _RetryStatus


class _ServerError(msgspec.Struct):
    type: Literal["mcp_connection_failed_error", "mcp_authentication_failed_error"]
    message: str
    retry_status: _RetryStatus
    mcp_server_name: str


class _CredentialError(msgspec.Struct):
    type: Literal["credential_host_unreachable_error"]
    message: str
    retry_status: _RetryStatus
    vault_id: str
    credential_id: str


class _RepositoryError(msgspec.Struct):
    type: Literal[
        "repository_authentication_error",
        "repository_forbidden_error",
        "repository_not_found_error",
        "repository_checkout_error",
        "repository_clone_error",
    ]
    message: str
    retry_status: _RetryStatus
    repository_url: str | None = None


class _WorkflowError(msgspec.Struct):
    type: Literal[
        "timeout_error", "program_error", "unknown_error", "thread_limit_error", "max_workflow_runs_error"
    ]
    message: str


class _Ended(msgspec.Struct):
    type: Literal["end_turn", "retries_exhausted", "budget_reached", "refusal"]


class _ActionRequired(msgspec.Struct):
    type: Literal["requires_action"]
    event_ids: list[str]


class _StopDetails(msgspec.Struct):
    type: Literal["refusal"]
    category: Literal["cyber", "bio", "frontier_llm", "reasoning_extraction", "general_harms"] | None = None
    explanation: str | None = None


class _TextRubric(msgspec.Struct, tag_field="type", tag="text"):
    content: str


class _AlwaysEvaluated(msgspec.Struct):
    type: Literal["always_allow", "always_ask"]


class _Allowed(msgspec.Struct, tag_field="type", tag="allow"):
    pass


class _Asked(msgspec.Struct, tag_field="type", tag="ask"):
    reason_code: str


class _Denied(msgspec.Struct, tag_field="type", tag="deny"):
    reason_code: str


class _AutoEvaluated(msgspec.Struct):
    type: Literal["auto"]
    evaluated_permission: _Allowed | _Asked | _Denied


class _Amount(msgspec.Struct):
    amount: str
    currency: Literal["USD"]


class _Budget(msgspec.Struct):
    type: Literal["limit"]
    max_list_cost: _Amount


class _CacheCreation(msgspec.Struct):
    ephemeral_1h_input_tokens: int | None = None
    ephemeral_5m_input_tokens: int | None = None


class _ServerTools(msgspec.Struct):
    web_fetch_requests: int | None = None
    web_search_requests: int | None = None


class _Usage(msgspec.Struct):
    active_seconds: float | None = None
    cache_creation: _CacheCreation | None = None
    cache_read_input_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    list_cost: _Amount | None = None
    server_tool_use: _ServerTools | None = None


class _Model(msgspec.Struct):
    id: str


class _Typed(msgspec.Struct):
    type: str


class _Agent(msgspec.Struct):
    id: str
    type: Literal["agent"]
    name: str
    version: int
    model: _Model
    tools: list[_Typed]
    skills: list[_Typed]
    mcp_servers: list[_Typed]
    execution_identity: _Typed
    description: str | None = None
    system: str | None = None


class _Phase(msgspec.Struct):
    id: str
    name: str
    description: str | None = None


class _Finished(msgspec.Struct):
    type: Literal["completed", "stopped"]


class _Broken(msgspec.Struct):
    type: Literal["error"]
    error: _WorkflowError


# The types ------------------------------------------------------------------------------

_NO_TOKENS = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
}
_TEXT = MemberShape((str,), "")
_NULL_OR_TEXT = MemberShape((str,), None)
_MAYBE_TEXT = MemberShape((str | None,))
_MAYBE_FLAG = MemberShape((bool | None,))
_NULL_OR_FLAG = MemberShape((bool,), None)
_NUMBER = MemberShape((int,), 0)
_TOKENS = MemberShape((_Tokens,), _NO_TOKENS)
_SAID = Content(_Text | _Image | _Document | _Redacted, required=True)
_FOUND = Content(_Text | _Image | _Document | _SearchResult)
_STOPPED: Shape = {
    "stop_reason": MemberShape((_Ended, _ActionRequired), {"type": "end_turn"}),
    "stop_details": MemberShape((_StopDetails,), None),
}
_THREAD: Shape = {"session_thread_id": _MAYBE_TEXT}
_OF_THREAD: Shape = {"session_thread_id": _TEXT, "agent_name": _TEXT}
_RUN: Shape = {"workflow_run_id": _TEXT}
_PHASE: Shape = {**_RUN, "workflow_run_phase_id": _TEXT}
_CALL: Shape = {"name": _TEXT, "input": MemberShape((dict[str, Any],), {}), **_THREAD}
_JUDGED: Shape = {
    **_CALL,
    "evaluated_permission": MemberShape((Literal["allow", "ask", "deny"] | None,)),
    "evaluation": MemberShape((_AlwaysEvaluated, _AutoEvaluated)),
}
_RESULT: Shape = {"content": _FOUND, "is_error": _MAYBE_FLAG}
_OUTCOME: Shape = {"outcome_id": _TEXT, "iteration": _NUMBER}
_BUDGET = MemberShape((_Budget,))

SHAPES: dict[str, Shape] = {
    "user.message": {"content": _SAID},
    "user.interrupt": _THREAD,
    "user.tool_confirmation": {
        "tool_use_id": _TEXT,
        "result": MemberShape((Literal["allow", "deny"],), "allow"),
        "deny_message": _MAYBE_TEXT,
        **_THREAD,
    },
    "user.custom_tool_result": {"custom_tool_use_id": _TEXT, **_RESULT, **_THREAD},
    "user.tool_result": {"tool_use_id": _TEXT, **_RESULT, **_THREAD},
    "user.define_outcome": {
        "outcome_id": _TEXT,
        "description": _TEXT,
        "rubric": MemberShape((_TextRubric | _File,), {"type": "text", "content": ""}),
        "max_iterations": MemberShape((int,), None),
    },
    "system.message": {"content": Content(_Text, required=True)},
    "agent.message": {"content": Content(_Text | _Redacted, required=True)},
    "agent.thinking": {},
    "agent.thread_context_compacted": {},
    "agent.tool_use": _JUDGED,
    "agent.tool_result": {"tool_use_id": _TEXT, **_RESULT},
    "agent.mcp_tool_use": {"mcp_server_name": _TEXT, **_JUDGED},
    "agent.mcp_tool_result": {"mcp_tool_use_id": _TEXT, **_RESULT},
    "agent.custom_tool_use": _CALL,
    "agent.thread_message_sent": {
        "to_session_thread_id": _TEXT,
        "to_agent_name": _MAYBE_TEXT,
        "content": _SAID,
    },
    "agent.thread_message_received": {
        "from_session_thread_id": _TEXT,
        "from_agent_name": _MAYBE_TEXT,
        "content": _SAID,
    },
    "session.status_running": {},
    "session.status_rescheduled": {},
    "session.status_terminated": {},
    "session.status_idle": _STOPPED,
    "session.deleted": {},
    "session.error": {
        "error": ErrorShape(
            (_PlainError, _ServerError, _CredentialError, _RepositoryError),
            {"type": "unknown_error", "message": "", "retry_status": {"type": "terminal"}},
            _RetryStatus,
        )
    },
    "session.updated": {
        "title": _MAYBE_TEXT,
        "metadata": Metadata(),
        "agent": MemberShape((_Agent,)),
        "budget": _BUDGET,
    },
    "session.usage": {"usage": MemberShape((_Usage,), {}), "budget": _BUDGET},
    "session.thread_created": {**_OF_THREAD, "workflow_run_id": _NULL_OR_TEXT},
    "session.thread_status_running": _OF_THREAD,
    "session.thread_status_rescheduled": _OF_THREAD,
    "session.thread_status_terminated": _OF_THREAD,
    "session.thread_status_idle": {**_OF_THREAD, **_STOPPED},
    "span.model_request_start": {},
    "span.model_request_end": {
        "model_request_start_id": _TEXT,
        "model_usage": _TOKENS,
        "is_error": _NULL_OR_FLAG,
    },
    "span.outcome_evaluation_start": _OUTCOME,
    "span.outcome_evaluation_ongoing": _OUTCOME,
    "span.outcome_evaluation_end": {
        "outcome_evaluation_start_id": _TEXT,
        "result": _TEXT,
        "explanation": _TEXT,
        "usage": _TOKENS,
        **_OUTCOME,
    },
    "workflow_run.created": {
        **_RUN,
        "name": _TEXT,
        "description": _NULL_OR_TEXT,
        "phases": MemberShape((list[_Phase],), []),
    },
    "workflow_run.status_running": _RUN,
    "workflow_run.status_idle": _RUN,
    "workflow_run.status_ended": {**_RUN, "result": MemberShape((_Finished, _Broken), {"type": "completed"})},
    "workflow_run.error": {
        "error": ErrorShape((_WorkflowError,), {"type": "unknown_error", "message": ""}),
        "workflow_run_id": _NULL_OR_TEXT,
    },
    "workflow_run.phase_started": _PHASE,
    "workflow_run.phase_ended": {**_PHASE, "phase_started_id": _TEXT},
}
"""The types that Managed Agents knows, and the members that it says something of."""
