"""The kinds of dossiers, and which sections each has."""

from typing import Literal, get_args

DossierKind = Literal["engineering", "research", "trading", "report"]
KINDS: tuple[DossierKind, ...] = get_args(DossierKind)
REQUIRED: dict[DossierKind, tuple[str, ...]] = {
    "engineering": (
        "task",
        "repository_state",
        "patch",
        "test_command",
        "test_result",
        "tool_calls",
        "placement",
    ),
    "research": ("inputs", "experiment_state", "tool_logs", "decisions", "metrics"),
    "trading": ("policy", "domain_tools", "action_log", "state_deltas", "risk_checks"),
    "report": ("tool_logs", "sandbox_metadata", "validation_result", "failure_analysis"),
}
"""The sections without which a dossier is not complete, in their order."""
OPTIONAL: dict[DossierKind, tuple[str, ...]] = {
    "engineering": ("rejected_branches", "memory_update"),
    "research": ("memory",),
    "trading": ("reliability",),
    "report": (),
}
"""The sections that may be empty, behind the others."""
QUESTIONS = ("task", "environment", "workflow", "tools", "sandbox", "memory", "validation")
"""What every dossier answers with events; all but memory must have an answer."""
MAY_BE_EMPTY = frozenset({"memory"})
EVENTS_OF_QUESTIONS: dict[str, tuple[str, ...]] = {
    "ds.sandbox": ("environment", "sandbox"),
    "ds.routed": ("workflow",),
    "ds.lease.claimed": ("workflow",),
    "ds.lease.released": ("workflow",),
    "agent.tool_use": ("tools",),
    "agent.mcp_tool_use": ("tools",),
    "agent.custom_tool_use": ("tools",),
    "ds.memory.written": ("memory",),
    "ds.memory.read": ("memory",),
    "ds.memory.rolled_back": ("memory",),
    "ds.evaluation": ("validation",),
    "ds.approval.decided": ("validation",),
}
"""Which events answer which questions; the task is answered by the goal."""
