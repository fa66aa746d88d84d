"""A long-running agent: an initializer, a coder that is woken again and again, and a judge.

Start a server with ``ds serve`` and run this file. The initializer makes a git repository with tests that
fail, and a session whose outcome is that they pass. The coder is woken once per turn, works on one feature,
writes a checkpoint and routes the session to the judge. The judge checks the work in a fresh clone, with the
tests as they were at the beginning, gives its verdict and routes the session back. When all features pass,
the session is closed.

Kill it whenever you like, the server too, and start it again: it goes on where it was. Nothing is kept in
memory that the session does not know. Every event has an id that follows from the work, so that it is stored
once; a call without a result is looked at before anything is done again.

A few answers of a script stand in for the model (``ANSWERS``); the first one for ``mul`` is wrong.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from durable_sessions import Client
from durable_sessions.client import Work

Event = dict[str, Any]

ANSWERS = {
    "add": ["def add(a, b):\n    return a + b\n"],
    "mul": ["def mul(a, b):\n    return a ** b\n", "def mul(a, b):\n    return a * b\n"],
    "neg": ["def neg(a):\n    return -a\n"],
}
"""What the model answers for each feature, attempt by attempt."""
TESTS = {
    "add": "assert calc.add.add(2, 3) == 5",
    "mul": "assert calc.mul.mul(2, 3) == 6",
    "neg": "assert calc.neg.neg(2) == -2",
}
CODER, JUDGE = "coder", "judge"
LOCK_SECONDS_MAX = 5.0


class Place:
    """The repository, and what stands for the world outside, in which nothing can be taken back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = folder / "repository"
        self.outbox = folder / "outbox.txt"
        self.acknowledged = folder / "acknowledged.txt"

    def git(self, *words: str) -> str:
        """Run git in the repository and return what it prints."""
        who = ("-c", "user.name=coder", "-c", "user.email=coder@example.com")
        command = ["git", *who, *words]
        return subprocess.run(command, cwd=self.repository, check=True, capture_output=True, text=True).stdout

    def unlocked(self) -> None:
        """Wait for a git that a killed worker has left behind; remove its lock if it is dead, too."""
        lock = self.repository / ".git" / "index.lock"
        deadline = time.monotonic() + LOCK_SECONDS_MAX
        while lock.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        lock.unlink(missing_ok=True)

    def note(self, file: Path, line: str) -> None:
        """Add a line to a file, in one write."""
        with file.open("ab", buffering=0) as end:
            end.write(f"{line}\n".encode())

    def has_sent(self, call: str) -> bool:
        """Say whether the announcement of a call has left."""
        sent = self.outbox.read_text().splitlines() if self.outbox.exists() else []
        return any(line.split("\t")[0] == call for line in sent)


# The initializer: once --------------------------------------------------------------------


def initialize(coder: Client, session: str, place: Place) -> None:
    """Make the repository and the session, unless they are there."""
    if not place.repository.exists():
        place.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.folder) as scratch:
            draft = Place(Path(scratch))
            (draft.repository / "calc").mkdir(parents=True)
            (draft.repository / "tests").mkdir()
            (draft.repository / "calc" / "__init__.py").touch()
            for name, test in TESTS.items():
                (draft.repository / "calc" / f"{name}.py").write_text("")
                (draft.repository / "tests" / f"{name}.py").write_text(f"import calc.{name}\n\n{test}\n")
            draft.git("init", "--quiet", "--initial-branch", "main")
            draft.git("add", "--all")
            draft.git("commit", "--quiet", "--message", "Begin with tests that fail")
            draft.repository.rename(place.repository)  # it is there as a whole, or not at all
    features = [
        {
            "id": name,
            "text": f"calc.{name} works.",
            "check": f"{sys.executable} tests/{name}.py",
            "files": [digest(place.repository, f"tests/{name}.py")],
        }
        for name in TESTS
    ]
    budget = {"tokens": 100_000, "tool_calls": 100}
    coder.sessions.create(session, goal="Make calc work.", outcome=features, budget=budget)


def digest(folder: Path, path: str) -> dict[str, str]:
    """Return a file with its digest, as a feature names it."""
    return {"path": path, "sha256": hashlib.sha256((folder / path).read_bytes()).hexdigest()}


# The coder: one feature per turn ----------------------------------------------------------


def code(client: Client, session: str, place: Place) -> None:
    """Work on the next feature, and pass the session on to the judge."""
    with client.wake(session, seconds=5) as work:
        state = work.lease.state
        feature = next(one for one in state["outcome"]["features"] if not one["passing"])
        name, attempt = feature["id"], feature["iterations"]
        turn = f"{name}-{attempt}"
        place.unlocked()
        answer = ANSWERS[name][min(attempt, len(ANSWERS[name]) - 1)]
        usage = {"input_tokens": 900, "output_tokens": len(answer)}
        work.append({"type": "span.model_request_end", "id": f"{turn}-model", "model_usage": usage})
        coder = Coder(work, place, turn)
        coder.call("edit", {"path": f"calc/{name}.py", "text": answer}, "idempotent")
        tested = coder.call("test", {"command": feature["check"]}, "read_only")
        coder.call("commit", {"message": f"Write {name}, attempt {attempt + 1}"}, "idempotent")
        coder.call("announce", {"text": f"{name} is ready, attempt {attempt + 1}"}, "non_idempotent")
        fact = {"type": "ds.fact", "id": f"{turn}-fact", "key": turn, "value": tested}
        commit = place.git("rev-parse", "HEAD").strip()
        work.append(fact)
        place.note(place.acknowledged, turn)
        checkpoint = {
            "type": "ds.checkpoint",
            "id": f"{turn}-checkpoint",
            "units": 1,
            "done": [name],
            "next": "Have it judged.",
            "instructions": f"If {name} fails, look at tests/{name}.py.",
            "git": {"commit": commit, "branch": "main"},
        }
        route = {"type": "ds.routed", "id": f"{turn}-to-judge", "to": JUDGE, "reason": f"Judge {name}."}
        work.append([checkpoint, route])


class Coder:
    """Calls tools, each once for a turn; what a coder before it had begun is finished."""

    def __init__(self, work: Work, place: Place, turn: str) -> None:
        self._work = work
        self._place = place
        self._turn = turn
        self._unfinished = {one["id"]: one["advice"] for one in work.unfinished}
        events = work.events(types="agent.tool_result")
        self._results = {event["tool_use_id"]: event["content"] for event in events}

    def call(self, tool: str, given: dict[str, str], effect: str) -> str:
        """Return the result of a call; run the tool unless the session knows it."""
        id = f"{self._turn}-{tool}"  # noqa: A001
        if id in self._results:
            return str(self._results[id])
        advice = self._unfinished.get(id)
        if advice is None:
            call = {"type": "agent.tool_use", "id": id, "name": tool, "input": given, "effect": effect}
            self._work.append({**call, "idempotency_key": id})
        is_done = advice == "ask" and self._place.has_sent(id)  # nothing is run again blindly
        result = "sent" if is_done else getattr(self, tool)(id, given)
        self._work.append(
            {"type": "agent.tool_result", "id": f"{id}-result", "tool_use_id": id, "content": result}
        )
        return str(result)

    def edit(self, id: str, given: dict[str, str]) -> str:  # noqa: A002
        """Write a file."""
        (self._place.repository / given["path"]).write_text(given["text"])
        return "written"

    def test(self, id: str, given: dict[str, str]) -> str:  # noqa: A002
        """Run a test."""
        return "passed" if passes(self._place.repository, given["command"]) else "failed"

    def commit(self, id: str, given: dict[str, str]) -> str:  # noqa: A002
        """Commit what was written, unless this very call has."""
        if f"Call: {id}" not in self._place.git("log", "--format=%B"):
            self._place.git("add", "--all")
            message = f"{given['message']}\n\nCall: {id}"
            self._place.git("commit", "--quiet", "--allow-empty", "--message", message)
        return "committed"

    def announce(self, id: str, given: dict[str, str]) -> str:  # noqa: A002
        """Tell the world, which cannot be taken back."""
        self._place.note(self._place.outbox, f"{id}\t{given['text']}")
        return "sent"


def passes(folder: Path, command: str) -> bool:
    """Run a check."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, check=False)
    return done.returncode == 0


# The judge: somebody else -----------------------------------------------------------------


def judge(client: Client, session: str, place: Place) -> None:
    """Judge what the last checkpoint claims, in a fresh clone, and pass the session back."""
    handle = client.session(session)
    state = handle.state()
    checkpoint = state["checkpoint"]
    (name,) = checkpoint["done"]
    feature = next(one for one in state["outcome"]["features"] if one["id"] == name)
    with tempfile.TemporaryDirectory() as scratch:
        clone = Path(scratch) / "clone"
        place.git("clone", "--quiet", str(place.repository), str(clone))
        files = [digest(clone, one["path"]) for one in feature["files"]]
        is_same = files == feature["files"]  # the coder has not touched the tests
        is_good = is_same and passes(clone, feature["check"])
    verdict = {
        "type": "ds.evaluation",
        "id": f"verdict-on-{checkpoint['id']}",
        "feature": name,
        "verdict": "pass" if is_good else "fail",
        "command": feature["check"],
        "files": files,
        "refs": [{"rel": "evaluates", "id": checkpoint["id"]}],
    }
    back = {"type": "ds.routed", "id": f"after-{checkpoint['id']}", "to": CODER, "reason": "Go on."}
    handle.append([verdict, back])


# The loop -----------------------------------------------------------------------------------


def run(coder: Client, judges: Client, session: str, place: Place) -> None:
    """Take turns until everything passes; what to do next follows from the session alone."""
    initialize(coder, session, place)
    handle = coder.session(session)
    while True:
        state = handle.state()
        if state["lifecycle"] == "closed":
            break
        if state["done"]:
            handle.end("completed", "Every feature passes.")
        elif state["route"] is not None and state["route"]["to"] == JUDGE:
            judge(judges, session, place)
        else:
            code(coder, session, place)
    for feature in handle.state()["outcome"]["features"]:
        print(
            f"{feature['id']}: {feature['verdict']} by {feature['evaluated_by']}, "
            f"after {feature['iterations']} verdicts"
        )


def main() -> None:
    """Run the loop."""
    parser = argparse.ArgumentParser(description="An agent that runs long, and may be killed at any moment.")
    parser.add_argument("session", nargs="?", default="long-running")
    parser.add_argument("--url", help="where the server is")
    parser.add_argument("--folder", type=Path, default=Path("long-running"), help="where the work is done")
    options = parser.parse_args()
    # With keys, each has its own: the judge's has the role evaluator. Without, only the names differ.
    keys = {name: os.environ.get(f"{name.upper()}_KEY") for name in (CODER, JUDGE)}
    with (
        Client(options.url, keys[CODER], principal=CODER, retries=20) as coder,
        Client(options.url, keys[JUDGE], principal=JUDGE, retries=20) as judges,
    ):
        run(coder, judges, options.session, Place(options.folder.resolve()))


if __name__ == "__main__":
    main()
