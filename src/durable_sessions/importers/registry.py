"""The tools whose sessions can be imported, by the names of the command line."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from durable_sessions.importers import (
    aider,
    chat,
    gemini,
    inspect_ai,
    jsonl,
    langgraph,
    openai_agents,
    openhands,
    pi,
    swe_agent,
)
from durable_sessions.importers.claude_code import store as claude_code
from durable_sessions.importers.codex import store as codex
from durable_sessions.importers.opencode import store as opencode
from durable_sessions.importers.sources import Transcript


def _nowhere(environment: Mapping[str, str], home: Path) -> list[Path]:
    return []


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: what its sessions are, where it keeps them, and how they are found there."""

    name: str
    what: str
    discover: Callable[[Iterable[Path]], list[Transcript]]
    default_paths: Callable[[Mapping[str, str], Path], list[Path]] = _nowhere


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("claude-code", "Claude Code sessions", claude_code.discover, claude_code.default_paths),
        Tool("codex", "Codex rollouts", codex.discover, codex.default_paths),
        Tool("opencode", "OpenCode databases, trees and exports", opencode.discover, opencode.default_paths),
        Tool("gemini", "Gemini CLI chats", gemini.discover, gemini.default_paths),
        Tool("openhands", "OpenHands conversations", openhands.discover, openhands.default_paths),
        Tool("pi", "Pi sessions", pi.finder("pi"), pi.pi_paths),
        Tool("openclaw", "OpenClaw sessions", pi.finder("openclaw"), pi.openclaw_paths),
        Tool("swe-agent", "SWE-agent trajectories", swe_agent.discover),
        Tool("inspect", "Inspect AI logs", inspect_ai.discover),
        Tool("langgraph", "LangGraph checkpoints in SQLite", langgraph.discover),
        Tool("openai-agents", "sessions of the OpenAI Agents SDK", openai_agents.discover),
        Tool("aider", "Aider histories", aider.discover),
        Tool("openai-chat", "chat messages as JSON or JSON lines", chat.discover),
        Tool("jsonl", "events that were exported from here", jsonl.discover),
    )
}
