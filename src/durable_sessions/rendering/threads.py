"""The threads of a session, by the names of their agents."""

from durable_sessions.rendering.entries import TranscriptEntry
from durable_sessions.rendering.events import Event, text_member
from durable_sessions.rendering.text import one_line

THREADS_MAX = 10_000
"""How many are remembered; the events of further ones are shown with the thread's id."""


class Threads:
    """Learns from the events that pass which threads there are."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, event: Event, entry: TranscriptEntry) -> None:
        """Say in an entry whose thread it is in, if that is one beside the primary thread."""
        thread = text_member(event, "session_thread_id")
        if event.get("type") == "session.thread_created" and len(self._names) < THREADS_MAX:
            agent = one_line(text_member(event, "agent_name"), 40)
            self._names[thread] = f"{agent} {one_line(thread[-6:], 6)}".strip()
        if thread in self._names:
            entry.thread = self._names[thread]
            entry.nested = not entry.type.startswith("session.thread_")
