"""Context for a next turn, out of everything that was ever said and done.

``python examples/search_context.py "connection refused"`` searches all sessions, reads some events on both
sides of every hit, and prints them as one text that fits a budget. A tool call is never parted from its
result: a model that is shown one without the other is misled, and many APIs refuse it.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from durable_sessions import Client
from durable_sessions.client.event import Event
from durable_sessions.client.search import SearchGroup

RESULTS = {"agent.tool_result", "agent.mcp_tool_result", "user.custom_tool_result"}
"""Events that answer a call; they name it in a member that ends in ``tool_use_id``."""


@dataclass(frozen=True)
class Passage:
    """Events of one session in their order, chosen because of a hit."""

    session: str
    title: str
    events: Sequence[Event]

    def text(self) -> str:
        """Return the passage for a model to read; left out events are marked."""
        lines = [f"## {self.title or self.session} ({self.session})"]
        before = None
        for event in self.events:
            if before is not None and event.position != before + 1:
                lines.append("[…]")
            if said(event):
                lines.append(f"#{event.position} {event.type}: {said(event)}")
            before = event.position
        return "\n".join(lines)


def said(event: Event) -> str:
    """Return what an event says, a call of a tool with its input; nothing for mere bookkeeping."""
    if "input" in event:
        return f"{event.get('name', '')} {json.dumps(event['input'], ensure_ascii=False)}"
    return event.text


def around(client: Client, group: SearchGroup, window: int) -> Passage:
    """Return the hits of a session with their surroundings, each event once."""
    session = client.session(group.session.id)
    found: dict[int, Event] = {}
    for hit in group.hits:
        near = session.events(around=hit.event.position, window=window, pairs="keep")
        found |= {event.position: event for event in near}
    events = [found[position] for position in sorted(found)]
    return Passage(group.session.id, group.session.title or "", events)


def fitting(passages: Iterable[Passage], budget: int) -> list[Passage]:
    """Return the best passages that fit a number of characters together, whole ones only."""
    chosen = []
    for passage in passages:
        size = len(passage.text()) + 2
        if size <= budget:
            chosen.append(passage)
            budget -= size
    return chosen


def unpaired(events: Iterable[Event]) -> set[str]:
    """Return the ids of calls whose results are missing, and of results whose calls are."""
    calls, answered = set(), set()
    for event in events:
        if event.type in RESULTS:
            answered.add(next(str(value) for name, value in event.items() if name.endswith("tool_use_id")))
        elif event.type.endswith("tool_use"):
            calls.add(event.id)
    return calls ^ answered


def context(client: Client, query: str, *, window: int, budget: int, sessions: int) -> list[Passage]:
    """Return what is worth knowing about a query: passages of the sessions that match best."""
    found = client.search(query, limit=sessions)
    return fitting((around(client, group, window) for group in found.groups), budget)


def main() -> None:
    """Print the context of a query."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("query", help='words, "phrases", is:error, name:bash …')
    parser.add_argument("--url", help="where the server is (DURABLE_SESSIONS_URL)")
    parser.add_argument("--window", type=int, default=3, help="events on each side of a hit (3)")
    parser.add_argument("--budget", type=int, default=20_000, help="characters that fit (20000)")
    parser.add_argument("--sessions", type=int, default=5, help="how many sessions at most (5)")
    given = parser.parse_args()
    with Client(given.url) as client:
        passages = context(
            client, given.query, window=given.window, budget=given.budget, sessions=given.sessions
        )
        for passage in passages:
            print(passage.text(), end="\n\n")
        waiting = {id for passage in passages for id in unpaired(passage.events)}  # noqa: A001
        if waiting:
            print(f"No result yet of: {', '.join(sorted(waiting))}")


if __name__ == "__main__":
    main()
