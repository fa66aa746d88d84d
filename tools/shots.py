"""Draws the web page: ``make shots``. It needs Chromium.

Two pictures are those of the README. All views, in both themes and three widths, are drawn into ``build/shots``: a person
looks at them before a release, and at those that a change touches.
"""

import itertools
import random
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
from tests.browser.devtools import Chromium, Page
from tests.browser.page_sessions import call, result, store
from tests.support.process import ServerProcess

_HERE = Path(__file__).parents[1]
PICTURES = _HERE / "docs" / "pictures"
LOOKED_AT = _HERE / "build" / "shots"
IN_README = (("reading", "/sessions/run-0?panel=state", 720), ("sessions", "/", 330))
WIDTHS = (1440, 900, 375)
VIEWS = {
    "sessions": "/",
    "no-match": "/?q=nothing",
    "search": "/search?q=order",
    "reading": "/sessions/run-0?at=120",
    **{
        f"panel-{name}": f"/sessions/run-0?panel={name}"
        for name in ("event", "state", "tools", "usage", "threads")
    },
    "approvals": "/approvals",
    "compare": "/compare?a=run-0&b=run-0-again",
    "graph": "/sessions/run-0/graph",
    "usage": "/sessions/run-0/usage",
    "dossier": "/sessions/run-0/dossier",
    "memory": "/memory?scope=project:importer",
    "health": "/admin/health",
    "keys": "/admin/keys",
    "gone": "/sessions/nothing",
    "sign-in": "/login",
    "plain": "/?plain=1",
    "plain-reading": "/sessions/run-0?plain=1",
}
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
    moment = datetime(2026, 11, 18, 9, 12, tzinfo=UTC)
    for event in events:
        moment += timedelta(seconds=chance.uniform(0.3, 6))
        event["processed_at"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return events


def fill(client: httpx2.Client) -> None:
    """Store a few sessions: one with an outcome, a budget and a question, and a fork of it."""
    titles = (
        "Fix the flaky importer",
        "Nightly upgrade of pandas",
        "Map the auth module",
        "Add input validation",
        "Find the slow query",
    )
    for at, title in enumerate(titles):
        store(client, f"run-{at}", work(60 - 11 * at, at), title=title, metadata={"source": "claude-code"})
    wanted = [
        {"id": "tests", "text": "The test passes fifty times.", "check": "pytest --count 50"},
        {"id": "docs", "text": "The order is documented."},
    ]
    asked = {"question": "May I push the fix to main?", "options": ["approve", "reject"]}
    fact = {"kind": "goal", "key": "goal", "value": "Make the importer test reliable."}
    remembered = {"scope": "project:importer", "key": "order", "value": "A set has no order."}
    learned = {"why": "tool_result", "refs": [{"rel": "because", "id": "r-t0"}]}
    source = {"Stream-Forked-From": "/v1/sessions/run-0", "Stream-Fork-Offset": f"{0:016d}_{200:016d}"}
    client.put("/v1/sessions/run-0-again", headers=source, json={"title": "Fix the flaky importer, again"})
    store(client, "run-0-again", work(5, 9), title="Fix the flaky importer, again")
    for event in (
        {"type": "ds.fact", **fact},
        {"type": "ds.outcome.defined", "features": wanted},
        {"type": "ds.budget.set", "usd": 5, "tool_calls": 400},
        {"type": "ds.memory.written", **remembered, **learned},
        {"type": "ds.approval.requested", **asked},
    ):
        coder = {"Session-Principal": "coder"}
        client.post("/v1/sessions/run-0/events", json=event, headers=coder).raise_for_status()
    for at in range(len(titles)):  # the list counts failures of sessions that have an outline
        client.get(f"/v1/sessions/run-{at}/outline").raise_for_status()


def shown(browser: Chromium, address: str, width: int, height: int, *, dark: bool = False) -> Page:
    """Open a view, and wait until it is drawn."""
    page = browser.page(width, height, dark=dark).open(address)
    page.until("document.querySelector('.row:not([aria-busy]), a.session, main h1, main h2, .state')")
    page.run("new Promise(done => setTimeout(done, 1000))")
    return page


def looked_at(browser: Chromium, url: str) -> Iterator[str]:
    """Draw all views, and yield the texts that leave the window."""
    for (name, path), dark in itertools.product(VIEWS.items(), (False, True)):
        page = shown(browser, url + path, WIDTHS[0], 900, dark=dark)
        for width in WIDTHS:
            picture = LOOKED_AT / f"{name}-{width}-{'dark' if dark else 'light'}.png"
            page.resize(width, 900)
            page.run("new Promise(done => setTimeout(done, 300))")
            page.picture(picture)
            yield from (f"{picture.name}: {text}" for text in page.leaving())
        browser.close_pages()


def main() -> None:
    """Start a server with a few sessions, and draw its views: two for the README, all of them to be looked at."""
    PICTURES.mkdir(exist_ok=True)
    LOOKED_AT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        browser = Chromium(Path(folder))
        try:
            with (
                ServerProcess(Path(folder) / "data") as server,
                httpx2.Client(base_url=server.url, timeout=60) as client,
            ):
                fill(client)
                for name, path, height in IN_README:
                    shown(browser, server.url + path, 1280, height).picture(PICTURES / f"{name}.png")
                wrong = list(looked_at(browser, server.url))
        finally:
            browser.close()
    sys.stdout.write(
        f"Look at the pictures in {LOOKED_AT}: what do you see first, what is cut off, what would you press?\n"
    )
    if wrong:
        raise SystemExit("Texts leave the window:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
