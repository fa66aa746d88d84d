"""How much each workspace holds: its streams and the bytes of their records."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from durable_sessions.streams.stream import Stream


@dataclass(slots=True)
class WorkspaceUsage:
    """What one workspace holds at the tip, what is kept only for forks included."""

    streams: int = 0
    record_bytes: int = 0


class Usages:
    """The usage of every workspace; updated by the state with every effect that it carries out."""

    def __init__(self, known: Mapping[str, WorkspaceUsage]) -> None:
        self._by_workspace = {workspace: replace(usage) for workspace, usage in known.items()}

    def of(self, workspace: str) -> WorkspaceUsage:
        """Return what a workspace holds."""
        return self._by_workspace.setdefault(workspace, WorkspaceUsage())

    def known(self) -> Mapping[str, WorkspaceUsage]:
        """Return what every workspace holds."""
        return self._by_workspace

    def created(self, stream: Stream) -> None:
        """Count a new stream, which is empty."""
        self.of(stream.key.workspace).streams += 1

    def appended(self, stream: Stream, record_bytes: int) -> None:
        """Count records."""
        self.of(stream.key.workspace).record_bytes += record_bytes

    def removed(self, stream: Stream) -> None:
        """Take back what a stream was counted for."""
        usage = self.of(stream.key.workspace)
        usage.streams -= 1
        usage.record_bytes -= stream.record_bytes
