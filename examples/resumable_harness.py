"""A harness that can be killed at any point, by anything, and goes on where it stopped.

Start a server (``ds serve``) and run ``python examples/resumable_harness.py deploy-1``. Kill it whenever you
like, as hard as you like; run it again, here or on another machine. Every event is in the log once, and every
effect outside happens once.

The loop has no state of its own. It reads the session, sees from its end what comes next, does that, and
appends it, on the condition that nobody else has appended anything meanwhile. Only the model is scripted
here, so that the example needs no key; put yours into ``ask_model``.
"""

import argparse
import fcntl
import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from durable_sessions import Client
from durable_sessions.client.errors import PreconditionFailedError

Event = dict[str, Any]
Point = Callable[[], None]

TASK = "Deploy version 7 to both regions, then tell the team."


# The model ------------------------------------------------------------------------------------


def ask_model(events: Sequence[Event]) -> list[Event]:
    """Return what the model says next: calls of tools, or its last words."""
    turn = sum(event["type"] == "agent.message" for event in events)
    script = [
        [say("I deploy to both regions."), call("deploy", region="eu"), call("deploy", region="us")],
        [say("Both are up. I tell the team."), call("notify", text="Version 7 is live.")],
        [say("Version 7 is live in eu and us, and the team knows.")],
    ]
    return [{"id": f"turn-{turn}-{number}", **said} for number, said in enumerate(script[turn])]


def say(text: str) -> Event:
    """Return a message of the agent."""
    return {"type": "agent.message", "content": [{"type": "text", "text": text}]}


def call(name: str, **arguments: str) -> Event:
    """Return a call of a tool."""
    return {"type": "agent.tool_use", "name": name, "input": arguments}


# The tools ------------------------------------------------------------------------------------


class World:
    """Something outside that a tool changes: here a file with a line for each effect.

    An effect has the id of the call that wanted it, and one whose id is there already is not repeated.
    Payment providers, mail services and deployment tools take such a key for the same reason.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def change(self, key: str, what: str) -> str:
        """Do something once, however often it is asked for, and return what came of it."""
        with self._file.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if key not in (line.split("\t")[0] for line in file):
                file.write(f"{key}\t{what}\n")
        return f"{what}: done"


def run_tool(wanted: Event, world: World) -> Event:
    """Run a tool that the model has called, and return its result."""
    what = f"{wanted['name']} {json.dumps(wanted['input'], sort_keys=True)}"
    content = [{"type": "text", "text": world.change(wanted["id"], what)}]
    return {"type": "agent.tool_result", "tool_use_id": wanted["id"], "content": content}


# The harness ----------------------------------------------------------------------------------


def next_events(events: Sequence[Event], world: World) -> list[Event]:
    """Return what comes next in a session, given all of it; nothing if the run is over."""
    if not events:
        return [
            {"type": "user.message", "content": [{"type": "text", "text": TASK}]},
            {"type": "session.status_running"},
        ]
    if events[-1]["type"] == "session.status_idle":
        return []
    answered = {event["tool_use_id"] for event in events if event["type"] == "agent.tool_result"}
    open_calls = [e for e in events if e["type"] == "agent.tool_use" and e["id"] not in answered]
    if open_calls:
        return [run_tool(open_calls[0], world)]
    if events[-1]["type"] == "agent.message":
        return [{"type": "session.status_idle", "stop_reason": {"type": "end_turn"}}]
    return ask_model(events)


def work(client: Client, name: str, world: World, point: Point) -> None:
    """Go on with a session until its run is over; ``point`` is called wherever a kill might hurt."""
    session = client.session(name)
    events, end = read(client, name)
    tell(f"goes on behind {len(events)} events")
    while following := next_events(events, world):
        point()  # after the effect, before the log knows
        try:
            end = session.append(following, if_match=end).next_offset
        except PreconditionFailedError:
            tell("somebody else has gone on; looks again")
            events, end = read(client, name)
            continue
        point()  # the log knows, this process might not live to
        events = [*events, *following]
    tell(f"is over, after {len(events)} events")


def read(client: Client, name: str) -> tuple[list[Event], str]:
    """Return all events of a session and where it ends; creates it if it is not there."""
    session = client.sessions.create(name)
    end = session.info().next_offset  # asked first: what others append after the reading must not be skipped
    for event in (events := list(session.events())):
        end = event.next_offset
    return [event.data for event in events], end


# The command ----------------------------------------------------------------------------------


def dies_at(number: int | None) -> Point:
    """Return a point at which this process is killed the ``number``-th time that it gets there."""
    passed = 0

    def point() -> None:
        nonlocal passed
        passed += 1
        if passed == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return point


def tell(text: str) -> None:
    """Tell who watches."""
    print(f"harness {os.getpid()} {text}", flush=True)


def main() -> None:
    """Begin a session or go on with it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("session", help="the id of the session")
    parser.add_argument("--url", help="where the server is (DURABLE_SESSIONS_URL)")
    parser.add_argument("--world", type=Path, help="the file that the tools write to (SESSION.world)")
    parser.add_argument("--dies-at", type=int, metavar="N", help="be killed at the Nth point")
    given = parser.parse_args()
    world = World(given.world or Path(f"{given.session}.world"))
    with Client(given.url) as client:
        work(client, given.session, world, dies_at(given.dies_at))


if __name__ == "__main__":
    main()
