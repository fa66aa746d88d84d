"""What a tool call leaves in a session: the call, its result, and what it attached."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from durable_sessions.client.errors import RecordedFailureError
from durable_sessions.client.event import Event

Effect = Literal["none", "read_only", "idempotent", "non_idempotent"]
HARMLESS = ("none", "read_only")
"""Effects of calls that have changed nothing when they fail."""
DIFF_TYPE = "text/x-diff"
_FAILURE_CHARACTERS_MAX = 4_000


@dataclass(slots=True)
class ToolRecord:
    """One call of a tool, as events; ``recorded`` is its result when it is replayed.

    A call that a worker before this one has begun is not ``is_new``: it is in the session already.
    """

    name: str
    input: Mapping[str, Any]
    effect: Effect | None = None
    key: str | None = None
    id: str = field(default_factory=lambda: f"call_{secrets.token_hex(12)}")
    is_new: bool = True
    recorded: Event | None = None

    def call(self) -> dict[str, Any]:
        """Return the event that says what is called, before it is."""
        said = {"type": "agent.tool_use", "id": self.id, "name": self.name, "input": dict(self.input)}
        if self.effect is not None:
            said["effect"] = self.effect
        if self.key is not None:
            said["idempotency_key"] = self.key
        return said

    def result(
        self,
        content: str | Iterable[Mapping[str, Any]],
        effects: Iterable[Mapping[str, Any]] = (),
        *,
        is_error: bool = False,
    ) -> dict[str, Any]:
        """Return the event that says what came of it; a text becomes a block."""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        said: dict[str, Any] = {
            "type": "agent.tool_result",
            "id": f"{self.id}-result",
            "tool_use_id": self.id,
            "content": blocks,
        }
        if is_error:
            said["is_error"] = True
        if listed := list(effects):
            said["effects"] = listed
        return said

    def failure(self, error: Exception) -> dict[str, Any]:
        """Return the result of a call that has raised; what it may have done is not known."""
        text = f"{type(error).__name__}: {error}"[:_FAILURE_CHARACTERS_MAX]
        said = self.result(text, is_error=True)
        return said if self.effect in HARMLESS else {**said, "outcome": "unknown"}

    def attached(self, sha256: str, name: str) -> dict[str, Any]:
        """Return the event that attaches a diff to the session."""
        refs = [{"rel": "result_of", "id": self.id}]
        return {"type": "ds.artifact", "sha256": sha256, "name": name, "role": "diff", "refs": refs}

    def replayed(self) -> str:
        """Return the text of the recorded result, or raise if the tool had failed."""
        assert self.recorded is not None, "only a replay has results"
        if self.recorded.get("is_error") is True:
            raise RecordedFailureError(self.recorded.text)
        return self.recorded.text


def begun(call: Mapping[str, Any]) -> ToolRecord:
    """Return a call that a worker before this one has begun, one of ``work.unfinished``."""
    effect = call["effect"] if call["effect"] != "unknown" else None
    key = call["idempotency_key"]
    return ToolRecord(str(call["name"]), call["input"], effect, key, str(call["id"]), is_new=False)
