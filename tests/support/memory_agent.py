"""An agent of a test: a process that writes, reads and rolls back memories, and tells what it saw.

``python -m tests.support.memory_agent URL NAME SEED COUNT SCOPE`` prints a line of JSON per operation. Times
are of the monotonic clock, which all processes of a machine share.
"""

import json
import random
import sys
import time
from typing import Any

import httpx2

from tests.support.waiting import PATIENCE_SECONDS

KEYS = ("build", "deploy", "upload")
_PAUSE_SECONDS = 0.02


class MemoryAgent:
    """Sends each request until it is answered; events have ids, so that a repeat changes nothing."""

    def __init__(self, url: str, name: str, seed: int, scope: str) -> None:
        self._api = httpx2.Client(base_url=f"{url}/v1", timeout=PATIENCE_SECONDS)
        self._name = name
        self._scope = scope
        self._random = random.Random(seed)
        self._written: list[str] = []

    def begin(self) -> None:
        """Leave the evidence that all writes refer to."""
        self._append({"type": "note", "id": f"{self._name}-evidence"})

    def step(self, number: int) -> dict[str, Any]:
        """Do one thing, and return what it was, when, and what came of it."""
        time.sleep(self._random.uniform(0, _PAUSE_SECONDS))
        begun = time.monotonic()
        roll = self._random.random()
        if roll < 0.4:
            said = self._write(number)
        elif roll < 0.5 and self._written:
            said = self._roll_back(number)
        elif roll < 0.75:
            said = self._recall(number)
        else:
            said = self._read()
        return {**said, "by": self._name, "begun": begun, "ended": time.monotonic()}

    def _write(self, number: int) -> dict[str, Any]:
        event, key = f"{self._name}-{number}", self._random.choice(KEYS)
        self._append(
            {
                "type": "ds.memory.written",
                "id": event,
                "scope": self._scope,
                "key": key,
                "value": event,
                "why": "tool_result",
                "refs": [{"rel": "because", "id": f"{self._name}-evidence"}],
            }
        )
        self._written.append(event)
        return {"act": "write", "id": event, "key": key}

    def _roll_back(self, number: int) -> dict[str, Any]:
        write = self._random.choice(self._written)
        event = {
            "type": "ds.memory.rolled_back",
            "write": write,
            "reason": "r",
            "id": f"{self._name}-{number}",
        }
        self._append(event)
        return {"act": "undo", "id": event["id"], "write": write}

    def _recall(self, number: int) -> dict[str, Any]:
        headers = {"Idempotency-Key": f"{self._name}-{number}"}
        body = {"scope": self._scope, "limit": 100}
        recalled = self._send("POST", f"/sessions/{self._name}/recall", json=body, headers=headers)
        event = recalled["event"]
        return {"act": "recall", "id": event["id"], "at": event["at"], "found": found(recalled["data"])}

    def _read(self) -> dict[str, Any]:
        memory = self._send("GET", "/memory", params={"scope": self._scope})
        return {"act": "read", "at": memory["at"], "found": found(memory["data"])}

    def _append(self, event: dict[str, Any]) -> None:
        self._send("POST", f"/sessions/{self._name}/events", json=event)

    def _send(self, method: str, path: str, **more: Any) -> Any:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                answer = self._api.request(method, path, **more)
            except httpx2.TransportError:
                assert time.monotonic() < deadline, "the server does not come back"
            else:
                if answer.is_success:
                    return answer.json() if answer.content else None
                assert answer.status_code == 503, (path, answer.text)
                assert time.monotonic() < deadline, answer.text
            time.sleep(_PAUSE_SECONDS)


def found(entries: list[dict[str, Any]]) -> dict[str, str]:
    """Return the write of each key; of a key there is only one."""
    writes = {one["key"]: one["id"] for one in entries}
    assert len(writes) == len(entries), entries
    assert all(one["value"] == one["id"] for one in entries), entries
    return writes


def main() -> None:
    """Run the agent of the command line."""
    url, name, seed, count, scope = sys.argv[1:]
    agent = MemoryAgent(url, name, int(seed), scope)
    agent.begin()
    for number in range(int(count)):
        sys.stdout.write(json.dumps(agent.step(number)) + "\n")


if __name__ == "__main__":
    main()
