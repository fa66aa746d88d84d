"""One software task from the issue to the dossier: over HTTP, by the client, by the command line alone.

An issue is researched and edited, the test fails and the judge rejects it; a fork does it right, the judge
passes it there, the session adopts the fork, and what was remembered proves wrong and is rolled back. The
dossier shows all of it. The repository is real, and so are its tests and the sandboxes they run in.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions import Client
from durable_sessions.evidence import verification
from durable_sessions.sandbox import Result, Sandbox, SandboxSpec, backend
from durable_sessions.testing import BackgroundServer
from tests.support.commands import Commands
from tests.support.waiting import PATIENCE_SECONDS

Event = dict[str, Any]

BROKEN = "def total(items):\n    return sum(items[1:])\n"
WRONG = "def total(items):\n    return sum(items[:-1])\n"
RIGHT = "def total(items):\n    return sum(items)\n"
TEST = "from calc import total\n\n\ndef test_total():\n    assert total([1, 2, 3]) == 6\n"
CHECK = f"{sys.executable} -m pytest -q -p no:cacheprovider test_calc.py"
SCOPE = "project:calc"
GOAL = "total() leaves out an item. Make it add all of them."
FEATURE = {
    "id": "total",
    "text": "total() adds all items.",
    "check": CHECK,
    "files": [{"path": "test_calc.py", "sha256": hashlib.sha256(TEST.encode()).hexdigest()}],
}


class Repository:
    """A git repository with a bug and a test that finds it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "calc.py").write_text(BROKEN)
        (folder / "test_calc.py").write_text(TEST)
        self.git("init", "--quiet", "--initial-branch", "main")
        self.commit("Begin with a bug")

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=coder", "-c", "user.email=coder@example.com")
        return subprocess.run(
            ["git", *who, *words], cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD").strip()

    def edit(self, branch: str, text: str) -> str:
        """Write calc.py on a new branch from the beginning, and return the patch."""
        self.git("checkout", "--quiet", "-B", branch, "main")
        (self.folder / "calc.py").write_text(text)
        self.commit(f"Edit calc.py in {branch}")
        return self.git("diff", "main", branch)

    def tree(self) -> bytes:
        """Return the files of the repository with their digests, as it is."""
        return self.git("ls-tree", "-r", "main").encode()

    def cloned(self, branch: str) -> Callable[[Sandbox], None]:
        """Return what puts a clone of a branch into a sandbox."""

        def prepare(sandbox: Sandbox) -> None:
            done = sandbox.run(f"git clone --quiet --branch {branch} {self.folder} .")
            assert done.exit_code == 0, done.stderr

        return prepare


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def assert_told(session: Event, branch: Event, entries: list[Event], history: list[Event]) -> None:
    """See that the states of a session and of its fork, and the memory, tell the whole story."""
    assert session["goal"]["text"] == GOAL
    assert (session["done"], branch["done"]) == (True, True)
    (feature,) = session["outcome"]["features"]
    assert (feature["verdict"], feature["iterations"]) == ("pass", 2), "rejected, then passed by the fork"
    (own,) = branch["outcome"]["features"]
    assert (own["verdict"], own["evaluated_by"], own["iterations"]) == ("pass", "judge", 1)
    assert session["generators"] == branch["generators"] == ["coder"]
    assert session["calls"]["open"] == branch["calls"]["open"] == []
    assert (session["calls"]["failed"], branch["calls"]["failed"]) == (1, 0)
    assert session["sandbox"] is None
    assert branch["sandbox"] is None
    assert session["facts"]["cause"]["value"] == "the slice leaves out the last item, not the first"
    roles = [one["role"] for one in session["artifacts"]]
    assert roles.count("diff") == 2, "that of the rejected edit, and the adopted one"
    assert entries == [], "what was rolled back is remembered by nobody"
    kinds = [one["type"] for one in history]
    assert kinds == ["read", "written", "read", "rolled_back", "read"]
    returned = [len(one["returned"]) for one in history if one["type"] == "read"]
    assert returned == [0, 1, 0]


def assert_proved(path: Path, dossier: Event, url: str) -> None:
    """See that the dossier answers all questions and names the rejected way, and that its file is true."""
    assert (dossier["complete"], dossier["missing"]) == (True, [])
    assert all(dossier["questions"].values())
    sections = dossier["sections"]
    assert [one["session"] for one in sections["rejected_branches"]["items"]] == ["issue-7"]
    assert {one["backend"] for one in sections["placement"]["items"]} == {"local"}
    assert sorted(one["verdict"] for one in sections["test_result"]["items"] if "verdict" in one) == [
        "fail",
        "pass",
    ]
    assert len(sections["patch"]["items"]) >= 2
    keys = verification.public_keys(httpx2.get(f"{url}/v1/stream/__ds/jwks.json").content)
    found = verification.verify(path, keys)
    assert (found.session, found.complete, found.result) == ("issue-7", True, "PASSED")


def assert_explained(graph: Event, impact: Event) -> None:
    """See that commands lead to the sandboxes they ran in, and that the memory leads to who acted on it."""
    ran = [edge for edge in graph["edges"] if edge["rel"] == "ran_in"]
    assert {edge["to"].partition(":")[0] for edge in ran} == {"sandbox"}
    assert len({edge["to"] for edge in ran}) == 2, "one of each attempt"
    readers = [(one["session"], one["influence"]) for one in impact["readers"]]
    assert impact["up_to_date"], impact
    assert readers == [("issue-7-again", "planning")]


# By the client ---------------------------------------------------------------------------


def test_by_the_client(running: BackgroundServer, repository: Repository, tmp_path: Path) -> None:
    with Client(running.url, principal="coder") as coder, Client(running.url, principal="judge") as judge:
        issue = coder.sessions.create("issue-7", goal=GOAL, outcome=[FEATURE], budget={"tool_calls": 50})
        with coder.wake("issue-7", worker="host-1") as work:
            assert work.recall("total", scope=SCOPE, influence="planning").entries == []
            work.to("local", prepare=repository.cloned("main"))
            tree = coder.artifacts.put(repository.tree()).sha256
            work.append({"type": "ds.artifact", "sha256": tree, "name": "main", "role": "repo_state"})
            with work.tool("read", {"path": "calc.py"}, effect="read_only") as call:
                call.result(work.sandbox.read("calc.py").decode())
            start = issue.info().event_count
            work.fact("cause", "the slice leaves out the first item", kind="decision")
            edit(work, repository, "first", WRONG)
            failed = work.run(CHECK, effect="read_only")
            assert failed.exit_code == 1
            work.remember(
                "calc.total",
                "The slice leaves out the first item.",
                scope=SCOPE,
                why="failed_attempt",
                because=[failed.result],
                kind="failure_pattern",
                id="remembered",
            )
            work.route("judge", reason="Verify it.")
        rejected = judge.session("issue-7").validate(
            "total", prepare=repository.cloned("first"), evidence=[failed.result]
        )
        assert rejected.verdict == "fail"
        branch = issue.fork("issue-7-again", at=start)
        with branch_work(coder, "issue-7-again") as work:
            recalled = work.recall("slice", scope=SCOPE, influence="planning").entries
            assert [one["id"] for one in recalled] == ["remembered"]
            work.to("local", prepare=repository.cloned("main"))
            edit(work, repository, "second", RIGHT)
            passed = work.run(CHECK, effect="read_only")
            assert passed.exit_code == 0
            work.fact("cause", "the slice leaves out the last item, not the first", kind="decision")
        verdict = judge.session("issue-7-again").validate(
            "total", prepare=repository.cloned("second"), evidence=[passed.result]
        )
        assert verdict.verdict == "pass"
        assert [one["verdicts"] for one in [issue.diff(branch)]] == [
            [{"feature": "total", "a": "fail", "b": "pass"}]
        ]
        issue.adopt(branch, on_conflict="theirs")
        coder.memory.roll_back("remembered", session=issue, reason="It is the last item.")
        issue.recall("slice", scope=SCOPE)
        assert [one["id"] for one in coder.memory.get(SCOPE, at=2)] == ["remembered"]
        assert_told(issue.state(), branch.state(), coder.memory.get(SCOPE), list(coder.memory.log(SCOPE)))
        graph = issue.graph()
        assert isinstance(graph, dict)
        assert_explained(graph, issue.impact("remembered"))
        saved = issue.dossier("engineering").save(tmp_path / "out.zip")
        assert_proved(saved, issue.dossier("engineering").read(), running.url)


def branch_work(client: Client, session: str) -> Any:
    return client.wake(session, worker="host-2")


def edit(work: Any, repository: Repository, branch: str, text: str) -> None:
    """Edit calc.py as a tool of the agent does, with its diff."""
    with work.tool("edit", {"path": "calc.py", "text": text}, effect="idempotent", key=branch) as call:
        patch = repository.edit(branch, text)
        work.sandbox.write("calc.py", text)
        call.result("edited", effects=[{"kind": "file", "target": "calc.py"}])
        call.diff(patch)


# Over HTTP, and by the command line ------------------------------------------------------


class HttpFace:
    """Plain requests."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/v1"

    def ask(self, method: str, path: str, who: str = "coder", **options: Any) -> Any:
        headers = {"Session-Principal": who, **options.pop("headers", {})}
        url, timeout = self._url + path, PATIENCE_SECONDS
        answer = httpx2.request(method, url, headers=headers, timeout=timeout, **options)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def create(self, session: str) -> None:
        body = {"goal": GOAL, "outcome": {"features": [FEATURE]}, "budget": {"tool_calls": 50}}
        self.ask("PUT", f"/sessions/{session}", json=body)

    def wake(self, session: str) -> int:
        return int(self.ask("POST", f"/sessions/{session}/wake", json={"worker": "host-1"})["epoch"])

    def release(self, session: str, epoch: int) -> None:
        self.ask("POST", f"/sessions/{session}/release", json={"epoch": epoch})

    def append(self, session: str, *events: Event, epoch: int | None = None, who: str = "coder") -> None:
        headers = {} if epoch is None else {"Session-Epoch": str(epoch)}
        self.ask("POST", f"/sessions/{session}/events", who, json={"events": list(events)}, headers=headers)

    def store(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.ask("PUT", f"/artifacts/{sha256}", content=data, headers={"Content-Type": "text/plain"})
        return sha256

    def recall(self, session: str, words: str, epoch: int | None = None) -> list[Event]:
        headers = {} if epoch is None else {"Session-Epoch": str(epoch)}
        body = {"scope": SCOPE, "q": words, "influence": "planning"}
        found = self.ask("POST", f"/sessions/{session}/recall", json=body, headers=headers)
        return list(found["data"])

    def remember(self, session: str, write: Event, epoch: int) -> None:
        self.append(session, write, epoch=epoch)

    def judge(self, session: str, result: Result, evidence: str, sandbox: str, folder: Path) -> None:
        log = self.store(result.stdout.encode())
        attached = {"type": "ds.artifact", "id": "judged", "sha256": log, "name": "log", "role": "test_log"}
        verdict = {
            "type": "ds.evaluation",
            "feature": "total",
            "verdict": "pass" if result.exit_code == 0 else "fail",
            "command": CHECK,
            "exit_code": result.exit_code,
            "files": FEATURE["files"],
            "sandbox": sandbox,
            "refs": [{"rel": "because", "id": "judged"}, {"rel": "because", "id": evidence}],
        }
        self.append(session, attached, verdict, who="judge")

    def fork(self, source: str, new: str, at: int) -> None:
        headers = {"Stream-Forked-From": f"/v1/sessions/{source}", "Stream-Fork-Offset": f"{0:016}_{at:016}"}
        self.ask("PUT", f"/sessions/{new}", json={}, headers=headers)

    def adopt(self, session: str, branch: str) -> None:
        body = {"session": branch, "on_conflict": "theirs"}
        self.ask("POST", f"/sessions/{session}/adopt", json=body)

    def roll_back(self, session: str, write: str, reason: str) -> None:
        self.append(session, {"type": "ds.memory.rolled_back", "write": write, "reason": reason})

    def state(self, session: str) -> Event:
        return dict(self.ask("GET", f"/sessions/{session}/state"))

    def memory(self, at: int | None = None) -> list[Event]:
        given: dict[str, Any] = {"scope": SCOPE} if at is None else {"scope": SCOPE, "at": at}
        return list(self.ask("GET", "/memory", params=given)["data"])

    def history(self) -> list[Event]:
        return list(self.ask("GET", "/memory/log", params={"scope": SCOPE})["data"])

    def graph(self, session: str) -> Event:
        return dict(self.ask("GET", f"/sessions/{session}/graph"))

    def impact(self, session: str, event: str) -> Event:
        return dict(self.ask("GET", f"/sessions/{session}/events/{event}/impact"))

    def dossier(self, session: str, path: Path) -> tuple[Path, Event]:
        address = f"{self._url}/sessions/{session}/dossier?kind=engineering&format="
        path.write_bytes(httpx2.get(f"{address}zip", timeout=PATIENCE_SECONDS).content)
        return path, httpx2.get(f"{address}json", timeout=PATIENCE_SECONDS).json()


class CommandFace:
    """Nothing but ``ds``."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ds = Commands(url)
        self._patch = monkeypatch

    def create(self, session: str) -> None:
        self.append(
            session,
            {"type": "ds.budget.set", "tool_calls": 50},
            {"type": "ds.outcome.defined", "features": [FEATURE]},
            {"type": "ds.fact", "key": "goal", "value": GOAL, "kind": "goal"},
        )

    def wake(self, session: str) -> int:
        return int(self._ds.json("wake", session, "--worker", "host-1", "--principal", "coder")["epoch"])

    def release(self, session: str, epoch: int) -> None:
        self._ds.run("release", session, "--epoch", str(epoch), "--principal", "coder")

    def append(self, session: str, *events: Event, epoch: int | None = None, who: str = "coder") -> None:
        with self._under_lease(session, epoch):
            self._ds.run("append", session, *(json.dumps(one) for one in events), "--principal", who)

    @contextmanager
    def _under_lease(self, session: str, epoch: int | None) -> Iterator[None]:
        """Set what ``ds wake`` gives the commands that it runs."""
        with self._patch.context() as patch:
            if epoch is not None:
                patch.setenv("DURABLE_SESSIONS_EPOCH", str(epoch))
                patch.setenv("DURABLE_SESSIONS_SESSION", session)
            yield

    def store(self, data: bytes) -> str:
        return str(self._ds.run("artifact", "put", "-", given=data).stdout.strip())

    def recall(self, session: str, words: str, epoch: int | None = None) -> list[Event]:
        chosen = ("--query", words, "--influence", "planning", "--principal", "coder")
        with self._under_lease(session, epoch):
            return list(self._ds.json("memory", "recall", session, SCOPE, *chosen)["data"])

    def remember(self, session: str, write: Event, epoch: int) -> None:
        words = ("--why", write["why"], "--kind", write["kind"], "--because", write["refs"][0]["id"])
        who = ("--id", write["id"], "--principal", "coder")
        with self._under_lease(session, epoch):
            self._ds.run(
                "memory", "remember", session, SCOPE, f"{write['key']}={write['value']}", *words, *who
            )

    def judge(self, session: str, result: Result, evidence: str, sandbox: str, folder: Path) -> None:
        with self._patch.context() as patch:
            patch.chdir(folder)
            words = ("--run", "--because", evidence, "--sandbox", sandbox, "--principal", "judge")
            self._ds.run("evaluate", session, "total", *words)

    def fork(self, source: str, new: str, at: int) -> None:
        self._ds.run("fork", source, new, "--at", str(at), "--principal", "coder")

    def adopt(self, session: str, branch: str) -> None:
        self._ds.run("adopt", session, branch, "--on-conflict", "theirs", "--principal", "coder")

    def roll_back(self, session: str, write: str, reason: str) -> None:
        self._ds.run("memory", "roll-back", session, write, "--reason", reason, "--principal", "coder")

    def state(self, session: str) -> Event:
        return dict(self._ds.json("state", session))

    def memory(self, at: int | None = None) -> list[Event]:
        chosen = () if at is None else ("--at", str(at))
        return self._ds.lines("memory", "get", SCOPE, *chosen, "--json")

    def history(self) -> list[Event]:
        return self._ds.lines("memory", "log", SCOPE, "--json")

    def graph(self, session: str) -> Event:
        return dict(self._ds.json("graph", session))

    def impact(self, session: str, event: str) -> Event:
        return dict(self._ds.json("impact", session, event))

    def dossier(self, session: str, path: Path) -> tuple[Path, Event]:
        self._ds.run("dossier", session, "-o", str(path))
        assert "The work: PASSED, complete\n" in self._ds.run("dossier", "verify", str(path)).stdout
        return path, self._ds.json("dossier", session)


@pytest.mark.parametrize("kind", [HttpFace, CommandFace], ids=["over HTTP", "by the command line"])
def test_by_plain_means(
    kind: type[Any],
    running: BackgroundServer,
    repository: Repository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    face = HttpFace(running.url) if kind is HttpFace else CommandFace(running.url, monkeypatch)
    face.create("issue-7")
    epoch = face.wake("issue-7")
    assert face.recall("issue-7", "total", epoch) == []
    state = {"type": "ds.artifact", "sha256": face.store(repository.tree()), "name": "main"}
    face.append("issue-7", {**state, "role": "repo_state"}, epoch=epoch)
    face.append("issue-7", *called("read", {"path": "calc.py"}, "read_only", BROKEN), epoch=epoch)
    start = face.state("issue-7")["event_count"]
    fact = {"type": "ds.fact", "key": "cause", "kind": "decision"}
    face.append("issue-7", {**fact, "value": "the slice leaves out the first item"}, epoch=epoch)
    assert attempt(face, "issue-7", epoch, repository, "first", WRONG).exit_code == 1
    written = {
        "type": "ds.memory.written",
        "id": "remembered",
        "scope": SCOPE,
        "key": "calc.total",
        "value": "The slice leaves out the first item.",
        "why": "failed_attempt",
        "kind": "failure_pattern",
        "refs": [{"rel": "because", "id": "first-test-result"}],
    }
    routed = {"type": "ds.routed", "to": "judge", "reason": "Verify it."}
    face.remember("issue-7", written, epoch)
    face.append("issue-7", routed, epoch=epoch)
    face.release("issue-7", epoch)
    judged(face, "issue-7", repository, "first")
    face.fork("issue-7", "issue-7-again", start)
    epoch = face.wake("issue-7-again")
    assert [one["id"] for one in face.recall("issue-7-again", "slice", epoch)] == ["remembered"]
    assert attempt(face, "issue-7-again", epoch, repository, "second", RIGHT).exit_code == 0
    cause = {**fact, "value": "the slice leaves out the last item, not the first"}
    face.append("issue-7-again", cause, epoch=epoch)
    face.release("issue-7-again", epoch)
    judged(face, "issue-7-again", repository, "second")
    face.adopt("issue-7", "issue-7-again")
    face.roll_back("issue-7", "remembered", "It is the last item.")
    face.recall("issue-7", "slice")
    assert [one["id"] for one in face.memory(at=2)] == ["remembered"]
    assert_told(face.state("issue-7"), face.state("issue-7-again"), face.memory(), face.history())
    assert_explained(face.graph("issue-7"), face.impact("issue-7", "remembered"))
    assert_proved(*face.dossier("issue-7", tmp_path / "out.zip"), running.url)


def called(name: str, given: Mapping[str, Any], effect: str, text: str, **members: Any) -> list[Event]:
    """Return a call and its result; ``prefix`` makes their ids."""
    id = f"{members.pop('prefix', 'plain')}-{name}"  # noqa: A001
    content = [{"type": "text", "text": text}]
    call = {"type": "agent.tool_use", "id": id, "name": name, "input": given, "effect": effect}
    return [
        call,
        {"type": "agent.tool_result", "id": f"{id}-result", "tool_use_id": id, "content": content, **members},
    ]


def attempt(
    face: HttpFace | CommandFace, session: str, epoch: int, repository: Repository, branch: str, text: str
) -> Result:
    """Edit the file and run the test in a sandbox, and let the session tell it."""
    diff = face.store(repository.edit(branch, text).encode())
    effects = [{"kind": "file", "target": "calc.py"}]
    given = {"path": "calc.py", "text": text}
    edited = called("edit", given, "idempotent", "edited", effects=effects, prefix=branch)
    refs = [{"rel": "result_of", "id": f"{branch}-edit"}]
    attached = {"type": "ds.artifact", "sha256": diff, "name": "calc.patch", "role": "diff", "refs": refs}
    face.append(session, *edited, attached, epoch=epoch)
    with backend("local").open(SandboxSpec()) as sandbox:
        placed = {"type": "ds.sandbox", "sandbox": sandbox.id, "backend": "local"}
        face.append(session, {**placed, "status": "ready", **sandbox.described}, epoch=epoch)
        repository.cloned(branch)(sandbox)
        result = sandbox.run(CHECK)
    log = face.store(result.stdout.encode())
    failed = {"is_error": True} if result.exit_code else {}
    tested = called("test", {"command": CHECK}, "read_only", result.stdout[-500:], **failed, prefix=branch)
    refs = [{"rel": "result_of", "id": f"{branch}-test"}]
    attached = {"type": "ds.artifact", "sha256": log, "name": "pytest", "role": "test_log", "refs": refs}
    face.append(session, *tested, attached, {**placed, "status": "released"}, epoch=epoch)
    return result


def judged(face: HttpFace | CommandFace, session: str, repository: Repository, branch: str) -> None:
    """Run the check in a clean sandbox of the judge, and leave the verdict."""
    with backend("local").open(SandboxSpec()) as sandbox:
        repository.cloned(branch)(sandbox)
        placed = {"type": "ds.sandbox", "sandbox": sandbox.id, "backend": "local"}
        face.append(session, {**placed, "status": "ready"}, who="judge")
        result = sandbox.run(CHECK)
        folder = Path(sandbox.described["workdir"])
        face.judge(session, result, f"{branch}-test-result", sandbox.id, folder)
        face.append(session, {**placed, "status": "released"}, who="judge")
