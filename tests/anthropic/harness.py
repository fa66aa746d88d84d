"""The agent's side of a session: what a harness appends, in the native dialect."""

from typing import Any

import httpx2

from tests.support.waiting import PATIENCE_SECONDS

Event = dict[str, Any]


class Harness:
    """Writes and reads a workspace's sessions without any SDK."""

    def __init__(self, url: str, key: str) -> None:
        headers = {"authorization": f"Bearer {key}"}
        self.http = httpx2.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE_SECONDS, verify=False)
        self._offset = "-1"

    async def append(self, session: str, *events: Event) -> list[Event]:
        """Append events and return them as they are stored."""
        answer = await self.http.post(
            f"/v1/sessions/{session}/events",
            json={"events": events},
            headers={"prefer": "return=representation"},
        )
        assert answer.status_code == 200, answer.text
        stored: list[Event] = answer.json()["data"]
        return stored

    async def get(self, path: str, **query: str) -> Any:
        """Return the JSON that a path answers with, as Anthropic's dialect has it."""
        answer = await self.http.get(path, params=query, headers={"anthropic-version": "2026-10-21"})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def wait_for(self, session: str, *kinds: str) -> list[Event]:
        """Return one more event of each of these types, in the order of the log, when all are there."""
        missing, found = list(kinds), []
        while missing:
            answer = await self.http.get(
                f"/v1/sessions/{session}/events", params={"offset": self._offset, "live": "long-poll"}
            )
            self._offset = answer.headers["stream-next-offset"]
            for event in answer.json()["data"] if answer.status_code == 200 else []:
                if event["type"] in missing:
                    missing.remove(event["type"])
                    found.append(event)
        return found


def text(words: str) -> list[Any]:
    """Return content that is one text."""
    return [{"type": "text", "text": words}]


RUNNING: Event = {"type": "session.status_running"}
END_TURN: Event = {"type": "session.status_idle", "stop_reason": {"type": "end_turn"}, "stop_details": None}


def waits_for(*event_ids: str) -> Event:
    """Return the event that says which calls a session waits for."""
    reason = {"type": "requires_action", "event_ids": list(event_ids)}
    return {"type": "session.status_idle", "stop_reason": reason, "stop_details": None}


def says(words: str) -> Event:
    """Return what an agent says."""
    return {"type": "agent.message", "content": text(words)}
