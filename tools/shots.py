"""Draws the pictures of the web page in the README: ``make shots``. It needs Chromium."""

import random
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from tests.browser.devtools import Chromium
from tests.browser.page_sessions import call, result, store
from tests.support.process import ServerProcess

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
_FILES = ("importer.py", "queue.py", "retry.py", "tests/test_importer.py", "pyproject.toml")


def _edit(name: str, path: str, old: str, new: str) -> dict[str, Any]:
    given = {"file_path": path, "old_string": old, "new_string": new}
    return {"type": "agent.tool_use", "id": name, "name": "Edit", "input": given}


def work(rounds: int, seed: int) -> list[dict[str, Any]]:
    """Return the events of an agent that mends a flaky test."""
    chance = random.Random(seed)
    events: list[dict[str, Any]] = [
        {
            "type": "user.message",
            "content": "The importer test fails about one time in ten. Find out why, and mend it.",
        },
        {"type": "agent.message", "content": "I will run it in a loop first, to see **how** it fails."},
    ]
    for at in range(rounds):
        path = chance.choice(_FILES)
        tokens = {
            "input_tokens": 300,
            "cache_read_input_tokens": 9_000 + 2_400 * (at % 40),
            "output_tokens": 350,
        }
        failed = chance.random() < 0.18
        said = (
            "FAILED tests/test_importer.py::test_order - assert [2, 1] == [1, 2]"
            if failed
            else f"{40 + at % 9} passed in 3.1s"
        )
        events += [
            {"type": "span.model_request_end", "model": "claude-opus-4-5", "model_usage": tokens},
            call(f"r{at}", f"sed -n 1,80p {path}"),
            result(f"r{at}", f"from collections import deque\n# {path}\n"),
            _edit(
                f"e{at}",
                path,
                "for one in pending:\n    send(one)",
                "for one in sorted(pending, key=place):\n    send(one)",
            ),
            result(f"e{at}", f"The file {path} has been updated."),
            call(f"t{at}", "pytest -q tests/test_importer.py --count 50"),
            result(f"t{at}", said, failed=failed),
        ]
        if at % 3 == 0:
            events.append(
                {
                    "type": "agent.message",
                    "content": f"`{path}` sends in the order of a **set**, which differs from run to run. I will sort it by its place, and run the test fifty times again.",
                }
            )
        if at % 14 == 13:
            events += [{"type": "user.message", "content": "Good. Now look for the same mistake elsewhere."}]
        if at % 25 == 24:
            events.append(
                {"type": "agent.thread_context_compacted", "summary": "The order of a set was relied on."}
            )
    return events


def main() -> None:
    """Start a server with a few sessions, and draw two of its views."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        browser = Chromium(Path(folder))
        try:
            with (
                ServerProcess(Path(folder) / "data") as server,
                httpx2.Client(base_url=server.url, timeout=60) as client,
            ):
                titles = (
                    "Fix the flaky importer",
                    "Nightly upgrade of pandas",
                    "Map the auth module",
                    "Add input validation",
                    "Find the slow query",
                )
                for at, title in enumerate(titles):
                    store(
                        client,
                        f"run-{at}",
                        work(60 - 11 * at, at),
                        title=title,
                        metadata={"source": "claude-code"},
                    )
                wanted = [
                    {"id": "tests", "text": "The test passes fifty times.", "check": "pytest --count 50"},
                    {"id": "docs", "text": "The order is documented."},
                ]
                work_events = [
                    {
                        "type": "ds.fact",
                        "kind": "goal",
                        "key": "goal",
                        "value": "Make the importer test reliable.",
                    },
                    {"type": "ds.outcome.defined", "features": wanted},
                    {"type": "ds.budget.set", "usd": 5, "tool_calls": 400},
                    {
                        "type": "ds.approval.requested",
                        "question": "May I push the fix to main?",
                        "options": ["approve", "reject"],
                    },
                ]
                for event in work_events:
                    client.post(
                        "/v1/sessions/run-0/events", json=event, headers={"Session-Principal": "coder"}
                    )
                views = (("reading", "/sessions/run-0?panel=state", 720), ("sessions", "/", 330))
                for name, path, height in views:
                    page = browser.page(1280, height)
                    page.open(server.url + path)
                    page.until("document.querySelector('.row:not([aria-busy]), a.session')")
                    page.run("new Promise(done => setTimeout(done, 1500))")
                    page.picture(PICTURES / f"{name}.png")
        finally:
            browser.close()


if __name__ == "__main__":
    main()
