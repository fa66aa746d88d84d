"""An engineering agent and its evidence: an issue, a wrong edit, a rejection, a fork that is right.

Start a server with ``ds serve`` and run this file. It makes a git repository with a bug. The coder reads,
edits and tests in a sandbox; its first edit is wrong, its test fails, and the judge rejects it in a clean
sandbox of its own. What failed is remembered. A fork from before the edit recalls that, does it right, is
passed and adopted. The seven answers and a zip with all evidence follow; ``ds dossier verify`` checks it.

A few answers of a script stand in for the model, so that every run is the same; git, pytest and the sandboxes
are real.
"""

import sys
from typing import Any

from shared.story import (
    SPEC,
    Repository,
    ScriptedModel,
    attach,
    connected,
    digest,
    must_run,
    options,
    tell,
)

from durable_sessions import Client
from durable_sessions.client import CommandRun, Work

SOURCE = "def total(items):\n    return sum(items[1:])\n"
TEST = """\
from calc import total


def test_total():
    assert total([1, 2, 3]) == 6


def test_nothing():
    assert total([]) == 0
"""
ANSWERS = [
    {"text": "I look at calc.py first.", "path": "calc.py"},
    {"text": "The slice is at the wrong end.", "edit": "def total(items):\n    return sum(items[:-1])\n"},
    {"text": "No slice at all.", "edit": "def total(items):\n    return sum(items)\n"},
]
"""What the model says: it reads, edits wrongly, and, in the fork, edits rightly."""
CHECK = f"{sys.executable} -m pytest -q -p no:cacheprovider"
SCOPE = "project:calc"


def first_attempt(
    client: Client, session: str, model: ScriptedModel, repository: Repository
) -> tuple[int, CommandRun]:
    """Research, edit and test; return where the research ended, and the test."""
    with client.wake(session, worker="coder-1") as work:
        work.recall("total", scope=SCOPE, influence="planning")
        work.to("local", SPEC, prepare=repository.cloned("main"))
        attach(client, work, "repo_state", "main", repository.tree())
        path = model.answer(work)["path"]
        with work.tool("read", {"path": path}, effect="read_only") as call:
            call.result(work.sandbox.read(path).decode())
        researched = client.session(session).info().event_count
        tested = edit_and_test(work, model, repository, "first")
        work.fact("calc.total", "The first edit fails its test.", kind="decision")
        work.remember(
            "calc.total",
            "Moving the slice does not help: every slice leaves out an item.",
            scope=SCOPE,
            why="failed_attempt",
            because=[tested.result],
            kind="failure_pattern",
        )
        work.route("judge", reason="Verify the first edit.")
    return researched, tested


def second_attempt(client: Client, branch: str, model: ScriptedModel, repository: Repository) -> CommandRun:
    """Do it again from what was researched, knowing what has failed."""
    with client.wake(branch, worker="coder-2") as work:
        work.recall("slice", scope=SCOPE, influence="planning")
        work.to("local", SPEC, prepare=repository.cloned("main"))
        tested = edit_and_test(work, model, repository, "second")
        work.fact("calc.total", "Summing without a slice passes.", kind="decision")
        work.checkpoint(units=1, next="Have it judged.", instructions="Adopt the branch if it passes.")
        work.route("judge", reason="Verify the second edit.")
    return tested


def edit_and_test(work: Work, model: ScriptedModel, repository: Repository, branch: str) -> CommandRun:
    """Edit the file as the model says, with its patch, and run the tests in the sandbox."""
    text: Any = model.answer(work)["edit"]
    with work.tool("edit", {"path": "calc.py", "text": text}, effect="idempotent", key=branch) as call:
        patch = repository.edit(branch, "calc.py", text)
        work.sandbox.write("calc.py", text)
        call.result("edited", effects=[{"kind": "file", "target": "calc.py"}])
        call.diff(patch)
    return work.run(CHECK, effect="read_only")


def run(coder: Client, judge: Client, session: str, repository: Repository) -> None:
    """Work from the issue to the adopted fork."""
    model = ScriptedModel(ANSWERS)
    issue = coder.session(session)
    researched, failed = first_attempt(coder, session, model, repository)
    print(f"The first edit: exit code {failed.exit_code} in {failed.sandbox}")
    rejected = judge.session(session).validate(
        "total", spec=SPEC, prepare=repository.cloned("first"), evidence=[failed.result]
    )
    print(f"The judge: {rejected.verdict} in {rejected.sandbox}")
    branch = issue.fork(f"{session}-second", at=researched)
    passed = second_attempt(coder, branch.id, model, repository)
    print(f"The second edit, in a fork: exit code {passed.exit_code} in {passed.sandbox}")
    verdict = judge.session(branch.id).validate(
        "total", spec=SPEC, prepare=repository.cloned("second"), evidence=[passed.result]
    )
    print(f"The judge: {verdict.verdict} in {verdict.sandbox}")
    issue.adopt(branch, on_conflict="theirs")


def main() -> None:
    """Run it, or, if it was run before, tell it again."""
    given = options(str(__doc__).splitlines()[0], "engineering")
    with connected(given.url, "coder") as coder, connected(given.url, "judge") as judge:
        feature = {
            "id": "total",
            "text": "total() adds all items.",
            "check": CHECK,
            "files": [digest("test_calc.py", TEST)],
        }
        issue = coder.sessions.create(
            given.session,
            goal="total() leaves out an item. Make it add all of them.",
            outcome=[feature],
            budget={"tool_calls": 100, "usd": 5},
        )
        state = issue.state()
        if must_run(state, finished=state["done"]):
            files = {"calc.py": SOURCE, "test_calc.py": TEST}
            run(coder, judge, given.session, Repository(given.folder, files))
        tell(coder, given.session, "engineering", given.out)


if __name__ == "__main__":
    main()
