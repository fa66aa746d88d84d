"""A scripted model, a git repository that is made on the spot, and the seven answers of a dossier."""

import argparse
import hashlib
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from durable_sessions import Client
from durable_sessions.client import Work
from durable_sessions.sandbox import Sandbox, SandboxError, SandboxSpec

QUESTIONS = {
    "task": "What was the task?",
    "environment": "In which environment?",
    "workflow": "Who worked on it, and in which order?",
    "tools": "With which tools?",
    "sandbox": "In which sandboxes?",
    "memory": "What was remembered, and read?",
    "validation": "Who says that it is right, and why?",
}
SPEC = SandboxSpec(env={"PYTHONDONTWRITEBYTECODE": "1"}, timeout=300)
_LINES_MAX = 6


class ScriptedModel:
    """Stands for a model: a list of answers, so that every run is the same."""

    def __init__(self, answers: Sequence[Mapping[str, Any]]) -> None:
        self._answers = iter(answers)

    def answer(self, work: Work) -> Mapping[str, Any]:
        """Return the next answer, and record the request and what was said, as for any model."""
        said = next(self._answers)
        seen = work.context(budget_tokens=20_000)
        usage = {"input_tokens": seen.tokens, "output_tokens": len(said["text"]) // 4 + 1}
        content = [{"type": "text", "text": said["text"]}]
        request = {"type": "span.model_request_end", "model": "scripted", "model_usage": usage}
        work.append([{**request, "cost_usd": 0.0}, {"type": "agent.message", "content": content}])
        return said


class Repository:
    """A git repository of its own, for this run only."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.folder = folder
        if folder.exists():
            raise SystemExit(f"{folder} is there already; remove it, or give another --folder.")
        folder.mkdir(parents=True)
        for path, text in files.items():
            (folder / path).write_text(text)
        self._git("init", "--quiet", "--initial-branch", "main")
        self._commit("Begin")

    def _git(self, *words: str) -> str:
        who = ("-c", "user.name=coder", "-c", "user.email=coder@example.com")
        command = ["git", *who, *words]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def _commit(self, message: str) -> None:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", message)

    def tree(self) -> bytes:
        """Return the files and their digests, as the run finds them."""
        return self._git("ls-tree", "-r", "main").encode()

    def edit(self, branch: str, path: str, text: str) -> str:
        """Change a file on a branch of its own, and return the patch."""
        self._git("checkout", "--quiet", "-B", branch, "main")
        (self.folder / path).write_text(text)
        self._commit(f"Change {path}")
        return self._git("diff", "main", branch)

    def cloned(self, branch: str) -> Callable[[Sandbox], None]:
        """Return what puts a clean clone of a branch into a sandbox."""

        def prepare(sandbox: Sandbox) -> None:
            done = sandbox.run(f"git clone --quiet --branch {branch} '{self.folder}' .")
            if done.exit_code != 0:
                raise SandboxError(f"The repository was not cloned: {done.stderr}")

        return prepare


def digest(path: str, text: str) -> dict[str, str]:
    """Return a file with its digest, as a feature names it."""
    return {"path": path, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def attach(client: Client, work: Work, role: str, name: str, data: bytes) -> str:
    """Store bytes as an artifact of the session, and return its digest."""
    stored = client.artifacts.put(data).sha256
    work.append({"type": "ds.artifact", "sha256": stored, "name": name, "role": role, "bytes": len(data)})
    return stored


# The dossier --------------------------------------------------------------------------------


def tell(client: Client, session: str, kind: str, path: Path) -> None:
    """Print the seven answers and the figures of a dossier, and write its zip."""
    dossier = client.session(session).dossier(kind)
    read = dossier.read()
    for question, words in QUESTIONS.items():
        print(f"\n{words}")
        events = [
            dict(client.session(ref["session"]).event(ref["id"])) for ref in read["questions"][question]
        ]
        lines = environments(events) if question == "environment" else answers(events)
        for line in lines[:_LINES_MAX] or ["nothing"]:
            print(f"  {line}")
        if len(lines) > _LINES_MAX:
            print(f"  … and {len(lines) - _LINES_MAX} more")
    counts = [f"{name} {len(section['items'])}" for name, section in read["sections"].items()]
    print(f"\nFigures: {', '.join(counts)}")
    missing = ", ".join(read["missing"])
    print(f"{dossier.save(path)}: {'complete' if read['complete'] else 'without ' + missing}")


def environments(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return where sandboxes were, each place once, with how many were there."""
    ready = (event for event in events if event["status"] == "ready")
    places = Counter(f"{one['backend']} on {one['host']}, network: {one['network']}" for one in ready)
    return [f"{place} ({count} in all)" for place, count in places.items()]


def answers(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the events of a question say, each once, with how often."""
    said = Counter(line_of(event) for event in events if event["type"] != "ds.sandbox")
    places: dict[str, list[str]] = {}
    for event in events:
        if event["type"] == "ds.sandbox":
            places.setdefault(f"{event['sandbox']} ({event['backend']})", []).append(event["status"])
    lines = [f"{place}: {', '.join(statuses)}" for place, statuses in places.items()]
    return lines + [f"{line} ({count} times)" if count > 1 else line for line, count in said.items()]


def line_of(event: Mapping[str, Any]) -> str:
    """Return an event in a line."""
    match event["type"]:
        case "ds.routed":
            return f"routed to {event['to']}: {event['reason']}"
        case "ds.lease.claimed":
            return f"{event['worker']} woke it"
        case "ds.lease.released":
            return f"{event['worker']} released it"
        case "ds.memory.written":
            return f"{event['scope']}: {event['key']} = {event['value']} ({event['why']})"
        case "ds.memory.read":
            return f"{event['scope']}: read {len(event['returned'])} for {event.get('influence', 'unknown')}"
        case "ds.memory.rolled_back":
            return f"rolled back {event['write']}: {event['reason']}"
        case "ds.evaluation":
            figures = event.get("metrics") or f"exit code {event.get('exit_code')}"
            return f"{event['actor']}: {event['verdict']} for {event.get('feature', 'all')} ({figures})"
        case "ds.approval.decided":
            return f"{event['actor']}: {event['decision']}, {event['reason']}"
        case "ds.fact":
            return str(event["value"])
        case "agent.tool_use":
            return f"{event['name']}: {', '.join(map(str, event['input'].values()))}".splitlines()[0][:100]
        case kind:
            return str(kind)


# The command line ---------------------------------------------------------------------------


def options(description: str, session: str) -> argparse.Namespace:
    """Return what was asked for on the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("session", nargs="?", default=session, help="the name of the session")
    parser.add_argument("--url", help="where the server is")
    parser.add_argument("--folder", type=Path, help="where the work is done; named after the session")
    parser.add_argument("--out", type=Path, help="the zip file to write; named after the session")
    given = parser.parse_args()
    given.folder = (given.folder or Path(given.session)).resolve()
    given.out = given.out or Path(f"{given.session}.zip")
    return given


def must_run(state: Mapping[str, Any], *, finished: bool) -> bool:
    """Say whether a story is still to be run; a run that was ended on its way is not taken up again here."""
    if not finished and state["epoch"] > 0:
        raise SystemExit(f"{state['session']} was begun before and not finished; give another name.")
    return not finished


def connected(url: str | None, name: str) -> Client:
    """Return the client of a principal; with keys, CODER_KEY and so on, else only the name differs."""
    return Client(url, os.environ.get(f"{name.upper()}_KEY"), principal=name)
