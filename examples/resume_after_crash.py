"""An agent run that outlives its machine.

Start a server with ``ds serve`` and run this file. A harness works through a task, one tool call after
the other, and is killed in the middle of it. A second harness, a fresh process that is given nothing but
a URL and a key, reads the end of the log, sees where the first one stood, and goes on from there.

The harness keeps nothing in memory that it needs: what to do next follows from the last events alone.
Here a few lines of Python stand in for the model; put yours into ``decide``.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any
from uuid import uuid4

STEPS = 100
DIES_AT = 144

Event = dict[str, Any]


class Session:
    """One session, over plain HTTP."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key

    def append(self, event: Event) -> Event:
        """Append an event; return it as it was stored, which is when it is on disk."""
        stored: Event = self._call("POST", "/events", {"events": [event]})["data"][0]
        return stored

    def last(self, count: int) -> list[Event]:
        """Return the last events; a tool call is never parted from its result."""
        events: list[Event] = self._call("GET", f"/events?tail={count}&pairs=keep")["data"]
        return events

    def _call(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {self.key}")
        request.add_header("Prefer", "return=representation")
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(10):
            try:
                with urllib.request.urlopen(request, data, timeout=10) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code == 404 and method == "GET":
                    return {"data": []}  # nobody has written to this session yet
                if error.code < 500:
                    raise
            except OSError:
                pass  # the answer was lost; every event has an id, so that sending it again is safe
            time.sleep(0.1 * 2**attempt)
        raise ConnectionError(f"{self.url} does not answer")


def decide(last: Event | None) -> Event | None:
    """Return the next event of the run, None when it is over. This is where your model is called."""
    if last is None:
        return {"id": "task", "type": "user.message", "text": f"Add the numbers up to {STEPS}."}
    match last["type"]:
        case "user.message":
            return {"id": "start", "type": "session.status_running"}
        case "session.status_running":
            return call(step=1, total=0)
        case "agent.tool_use":
            return run_tool(last)
        case "agent.tool_result" if last["step"] < STEPS:
            return call(last["step"] + 1, last["total"])
        case "agent.tool_result":
            return {"id": "answer", "type": "agent.message", "text": f"The sum is {last['total']}."}
        case "agent.message":
            return {"id": "end", "type": "session.status_idle", "stop_reason": {"type": "end_turn"}}
    return None


def call(step: int, total: int) -> Event:
    """Return the call of a tool."""
    return {
        "id": f"call-{step}",
        "type": "agent.tool_use",
        "name": "add",
        "input": [total, step],
        "step": step,
    }


def run_tool(wanted: Event) -> Event:
    """Run the tool that was called, and return its result."""
    step = wanted["step"]
    result = {"type": "agent.tool_result", "tool_use_id": wanted["id"], "step": step}
    return {"id": f"result-{step}", **result, "total": sum(wanted["input"])}


def harness(session: Session, dies_at: int | None) -> None:
    """Find out where the run stands, and go on until it is over, or until this process is killed."""
    recent = session.last(10)
    last = recent[-1] if recent else None
    if last is None:
        say("a new run, begins with event 0")
    else:
        found = f"event {number(last)} is the last one, {last['type']} {last['id']}"
        say(f"{found}; goes on with event {number(last) + 1}")
    while (following := decide(last)) is not None:
        last = session.append(following)
        if number(last) == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
    say("the run is over")


def number(event: Event) -> int:
    """Return the number of an event in its session, from 0."""
    return int(event["offset"].partition("_")[2])


def say(text: str) -> None:
    """Tell who watches what happens, before anything else can."""
    print(f"process {os.getpid()}: {text}", flush=True)


def main() -> None:
    """Run two harnesses, one after the other; the first does not survive."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="http://127.0.0.1:4437", help="where the server is")
    parser.add_argument(
        "--key",
        default=os.environ.get("DURABLE_SESSIONS_API_KEY", "none"),
        help="needed only if the server has keys (DURABLE_SESSIONS_API_KEY)",
    )
    parser.add_argument("--session", help=argparse.SUPPRESS)
    parser.add_argument("--dies-at", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.session:
        harness(Session(f"{given.url}/v1/sessions/{given.session}", given.key), given.dies_at)
        return
    session = f"sum-{uuid4().hex[:8]}"
    again = [sys.executable, __file__, "--url", given.url, "--key", given.key, "--session", session]
    died = subprocess.run([*again, "--dies-at", str(DIES_AT)], check=False)
    if died.returncode != -signal.SIGKILL:
        sys.exit("The first harness has failed before it could be killed; see above.")
    say(f"the first harness is gone, killed by signal {-died.returncode}")
    subprocess.run(again, check=True)
    say(f"read all of it: {given.url}/v1/sessions/{session}/events")


if __name__ == "__main__":
    main()
