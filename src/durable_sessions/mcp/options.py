"""What an agent may see and do, as the person who starts ``ds mcp`` decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ANSWER_BYTES = 24_000
ANSWER_BYTES_MIN = 2_000
ANSWER_BYTES_MAX = 1_000_000
TEXT_CHARACTERS_MAX = 4_000
"""Longer texts in an answer are cut, and marked as cut."""


@dataclass(frozen=True, slots=True)
class PastOptions:
    """The bounds of one ``ds mcp``. Within them, the key decides."""

    write: bool = False
    session: str | None = None
    """The current session: the one that the agent is working in."""
    epoch: int | None = None
    """The epoch of the lease under which the agent works on the current session."""
    only: Mapping[str, str] = field(default_factory=dict)
    """Metadata that a session must have; all others do not exist for the agent."""
    scope: str | None = None
    """The only scope of memory that the agent may use; any if None."""
    bytes_max: int = ANSWER_BYTES
    redact: bool = True

    @property
    def has_memory(self) -> bool:
        """Whether memory may be read: it holds what any session wrote, so ``only`` needs a scope, too."""
        return self.scope is not None or not self.only

    def admits(self, metadata: Mapping[str, Any]) -> bool:
        """Say whether a session with these metadata is one that the agent may see."""
        return all(_text(metadata.get(name)) == value for name, value in self.only.items())


def _text(value: object) -> str | None:
    """Return a value of metadata as filters compare it: strings, numbers and booleans as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None
