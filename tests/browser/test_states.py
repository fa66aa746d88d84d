"""What stands where something cannot be shown, many tabs, a proxy below a path, and paper, in a real browser."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from tests.browser.browsing import CHROMIUM, MISSING
from tests.browser.conftest import OpenPage
from tests.browser.devtools import Chromium
from tests.browser.page_sessions import append, call, store, talk
from tests.support.keys import BOOTSTRAP, bearer
from tests.support.process import ServerProcess, free_port

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

# Four other tabs of this browser that follow.
TAKE_ALL_PLACES = """Promise.all([1, 2, 3, 4].map((number) => new Promise((taken) =>
  navigator.locks.request(`ds-stream-${number}`, () => { taken(); return new Promise((done) => { globalThis[`leave${number}`] = done; }); }))))"""
OF_ANOTHER_VERSION = """(() => {
  const real = fetch;
  globalThis.fetch = (url, options) => (String(url).includes("/v1/whoami")
    ? real(url, options).then((answer) => answer.json()).then((who) => Response.json({ ...who, version: "9.9.9" })) : real(url, options));
})()"""


def test_no_match_says_which_filter_to_drop(opened: OpenPage, client: httpx2.Client) -> None:
    store(client, "matched", talk(3), title="Matched by its title")
    page = opened("/?q=nothing-has-this-title&lifecycle=closed")
    page.sees("No session matches")
    assert page.run("[...document.querySelectorAll('.state button')].map((one) => one.innerText)") == [
        "q",
        "lifecycle",
    ]
    page.click(".state button + button")
    page.until("!location.search.includes('lifecycle')")
    page.click(".state button")
    page.sees("Matched by its title")
    page.open(page.run("location.origin") + "/search?q=zzzqqqxxx")
    page.sees("No hits")


def test_a_session_that_waits_has_its_title_at_every_width(opened: OpenPage, client: httpx2.Client) -> None:
    asked = {"type": "ds.approval.requested", "question": "Ship it?", "options": ["approve", "reject"]}
    store(client, "waiting", [*talk(20), asked], title="A title that is long enough to be cut off somewhere")
    store(client, "idle", talk(20), title="A title that is long enough to be cut off elsewhere")
    for width in (1440, 900, 390, 320):
        page = opened("/?q=long enough to be cut", width)
        page.until(
            "document.querySelectorAll('a.session').length === 2 && document.querySelector('.dot.waits')"
        )
        rows = page.run(
            "[...document.querySelectorAll('a.session')].map((row) => [...row.querySelectorAll('.dot, .title, time')]"
            ".flatMap((one) => [one.offsetLeft, one.offsetLeft + one.offsetWidth]))"
        )
        assert rows[0] == rows[1], "what a session waits for moves no column"
        dot, title, time = rows[0][:2], rows[0][2:4], rows[0][4:]
        assert dot[1] - dot[0] == 10
        assert title[1] - title[0] >= 130
        assert title[1] <= time[0]


def test_every_line_of_a_state_leads_to_its_event(opened: OpenPage, client: httpx2.Client) -> None:
    outcome = {
        "type": "ds.outcome.defined",
        "features": [{"id": "f1", "text": "It is green.", "check": "make test"}],
    }
    again = {**outcome, "id": "again", "features": [{"id": "f1", "text": "It is green.", "check": "true"}]}
    budget = {"type": "ds.budget.set", "id": "limit", "tool_calls": 9}
    goal = {"type": "ds.fact", "kind": "goal", "key": "goal", "value": "Make it green."}
    for event in (outcome, again, budget, goal):
        answer = client.post(
            "/v1/sessions/leads/events", json=event, headers={"Session-Principal": "planner"}
        )
        assert answer.status_code == 204, answer.text
    page = opened("/sessions/leads?panel=state")
    page.sees("0 of 9 tool calls")
    links = "[...document.querySelectorAll('.panel %s a')].map((one) => new URL(one.href).searchParams.get('event'))"
    assert page.run(links % ".limit") == ["limit"]
    assert page.run(links % ".warn-text") == ["again", "again"], "beside its feature, and among the warnings"
    assert "Facts" not in page.run("document.querySelector('.panel').innerText"), "the goal is no other fact"


def test_what_was_erased_is_said_in_its_place(opened: OpenPage, client: httpx2.Client) -> None:
    store(client, "erased", [{"type": "user.message", "id": "secret", "content": "The password is 1234."}])
    answer = client.post("/v1/sessions/erased/redact", json={"events": ["secret"], "reason": "A secret."})
    assert answer.status_code == 200, answer.text
    page = opened("/sessions/erased")
    page.until("document.querySelector('.row:not([aria-busy])')")
    page.sees("erased")
    assert "1234" not in page.run("document.body.innerText")


def test_a_server_that_is_away_leaves_the_page_and_says_when_it_is_another_one(
    chromium: Chromium, tmp_path: Path
) -> None:
    with (
        ServerProcess(tmp_path / "data") as server,
        httpx2.Client(base_url=server.url, timeout=60) as client,
    ):
        store(client, "stays", talk(30))
        page = chromium.page().open(server.url + "/sessions/stays?at=5")
        page.until("document.querySelector('.live.live') && document.querySelector('.row:not([aria-busy])')")
        page.run(OF_ANOTHER_VERSION)
        server.kill()
        page.press("s")
        page.sees("The server cannot be reached since")
        assert page.run("document.querySelectorAll('.row').length") > 3
        server.start()
        page.sees("The server is version 9.9.9 now")
        assert "cannot be reached" not in page.run("document.querySelector('.banner').innerText")
        assert "event=c4" in page.run("location.search"), "the place is kept"


def test_a_fifth_tab_that_follows_looks_now_and_then(opened: OpenPage, client: httpx2.Client) -> None:
    store(client, "tabs", [{"type": "agent.message", "content": "number 0"}])
    page = opened("/search")
    page.until("document.querySelector('main h1')")
    page.run(TAKE_ALL_PLACES)
    page.run(
        "(() => { const link = document.querySelector('main').appendChild(document.createElement('a')); "
        "link.href = '/sessions/tabs'; link.click(); })()"
    )
    page.until("document.querySelector('.live.looking')")
    append(client, "tabs", [{"type": "agent.message", "content": "number 1"}])
    page.sees("number 1")
    append(client, "tabs", [{"type": "agent.message", "content": "number 2"}])
    page.sees("number 2")
    page.run("leave3()")
    page.until("document.querySelector('.live.live')", "the place that another tab has left")
    append(client, "tabs", [{"type": "agent.message", "content": "number 3"}])
    page.sees("number 3")
    texts = page.run("[...document.querySelectorAll('.row .said')].map(one => one.innerText.trim())")
    assert texts == [f"number {at}" for at in range(4)]


def test_threads_of_one_name_are_told_apart(opened: OpenPage, client: httpx2.Client) -> None:
    events: list[dict[str, object]] = [
        {"type": "session.thread_created", "session_thread_id": name, "agent_name": "helper"}
        for name in ("one", "two")
    ]
    events += [
        {"type": "agent.message", "content": f"I am {name}.", "session_thread_id": name}
        for name in ("one", "two")
    ]
    request = {"type": "span.model_request_end", "session_thread_id": "two"}
    events += [{**request, "model_usage": {"input_tokens": 1200, "output_tokens": 340}}]
    store(client, "threaded", [{"type": "user.message", "content": "Share this."}, *events])
    page = opened("/sessions/threaded?panel=threads")
    page.until("document.querySelectorAll('.row .thread').length === 4")
    names = "[...document.querySelectorAll('.row .thread')].map(one => one.innerText)"
    assert page.run(names) == ["helper 1", "helper 2"] * 2
    page.until("document.querySelectorAll('.panel tbody tr').length === 3")
    cells = "[...document.querySelectorAll('.panel tr:last-child td')].map(one => one.innerText)"
    assert page.run(cells) == ["helper 2", "3", "–", "1.2k", "340", "#2"]
    page.click(".panel tr:last-child button")
    page.sees("Not all is shown.")
    page.until("!document.body.innerText.includes('I am one.')")


def test_nobody_decides_twice_or_on_own_work(opened: OpenPage, client: httpx2.Client) -> None:
    asked = {"type": "ds.approval.requested", "question": "Drop the table?", "options": ["approve", "reject"]}
    answer = client.post(
        "/v1/sessions/raced/events", json=[call("c", "psql"), asked], headers={"Session-Principal": "coder"}
    )
    assert answer.status_code == 204, answer.text
    page = opened("/sessions/raced?panel=state")

    def decide(name: str) -> None:
        page.click(".decision .choices button")
        page.until("document.querySelector('.decision form')")
        page.run("document.querySelector('.decision input[name=name]').select()")
        page.type(name)
        page.run("document.querySelector('.decision textarea').focus()")
        page.type("It is time.")
        page.click(".decision form button")

    decide("coder")
    page.sees("coder has generated here: nobody approves own work")
    assert client.get("/v1/sessions/raced/state").json()["approvals"]["pending"]
    page = opened("/sessions/raced?panel=state")
    page.until("document.querySelector('.decision .choices')")
    page.run(
        "globalThis.realFetch = fetch; globalThis.fetch = (url, options) => (String(url).includes('/state') ? new Promise(() => {}) : realFetch(url, options))"
    )
    request = client.get("/v1/sessions/raced/state").json()["approvals"]["pending"][0]["id"]
    decision = {"type": "ds.approval.decided", "request": request, "decision": "reject", "reason": "No."}
    faster = client.post("/v1/sessions/raced/events", json=decision, headers={"Session-Principal": "bob"})
    assert faster.status_code == 204, faster.text
    decide("ann")
    page.sees("Somebody was faster")


def test_paper_says_what_is_not_on_it(opened: OpenPage, client: httpx2.Client) -> None:
    store(client, "on-paper", talk(400))
    page = opened("/sessions/on-paper?at=200")
    page.until("document.querySelector('.row:not([aria-busy])')")
    assert page.run("getComputedStyle(document.querySelector('.on-paper')).display") == "none"
    page.send("Emulation.setEmulatedMedia", media="print")
    page.until("getComputedStyle(document.querySelector('.on-paper')).display === 'block'")
    said = page.run("document.querySelector('.on-paper').innerText")
    assert "of 400. All of them: http" in said
    assert "/sessions/on-paper?plain=1" in said
    assert page.run("getComputedStyle(document.querySelector('.bar')).display") == "none"


@contextmanager
def proxy(port: int, target: str, *, strips: bool) -> Iterator[str]:
    """Serve another server below /ds, as a small proxy does: with the path as it came, or without its first part."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass_on()

        def do_POST(self) -> None:
            self._pass_on()

        def _pass_on(self) -> None:
            if not self.path.startswith("/ds"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            path = self.path.removeprefix("/ds") if strips else self.path
            with httpx2.stream(
                self.command, target + path, content=body, headers=headers, timeout=60
            ) as answer:
                self.send_response(answer.status_code)
                for name, value in answer.headers.multi_items():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                if answer.headers.get("content-type", "").startswith("text/event-stream"):
                    return  # this proxy holds no connection open
                for chunk in answer.iter_raw():
                    self.wfile.write(chunk)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class has it
            pass

    running = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    running.daemon_threads = True
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/ds"
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


@pytest.mark.parametrize("strips", [True, False], ids=["strips", "keeps"])
def test_it_works_below_a_path_of_a_proxy(chromium: Chromium, tmp_path: Path, strips: bool) -> None:
    port = free_port()
    options = ("--public-url", f"http://127.0.0.1:{port}/ds")
    environment = {"DURABLE_SESSIONS_API_KEY": BOOTSTRAP}
    with (
        ServerProcess(tmp_path / "data", *options, environment=environment) as server,
        httpx2.Client(base_url=server.url, headers=bearer(BOOTSTRAP), timeout=60) as client,
        proxy(port, server.url, strips=strips) as url,
    ):
        store(client, "below", talk(20), title="Below a path")
        page = chromium.page().open(url + "/search")
        page.until("document.querySelector('input[name=key]')")
        page.run("document.querySelector('input[name=key]').focus()")
        page.type(BOOTSTRAP)
        page.press("Enter")
        page.sees("Search all sessions")
        page.open(url + "/")
        page.click("a.session")
        page.until(
            "location.pathname === '/ds/sessions/below' && document.querySelector('.row:not([aria-busy])')"
        )
        assert not [one for one in page.requests if one.startswith("http") and not one.startswith(url)]
        assert page.problems == []
