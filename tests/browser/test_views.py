"""The other views of the page in a real browser: approvals, state, compare, graph, memory, dossier, administration."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.browser.browsing import CHROMIUM, MISSING
from tests.browser.conftest import OpenPage
from tests.browser.devtools import Chromium, Page
from tests.browser.page_sessions import call, result, store
from tests.browser.test_page import AXE
from tests.support.keys import BOOTSTRAP, bearer
from tests.support.process import ServerProcess

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

ASKED = {
    "type": "ds.approval.requested",
    "id": "ask",
    "question": "May I deploy?",
    "options": ["approve", "reject"],
}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Start a server that needs keys."""
    data = tmp_path_factory.mktemp("views") / "data"
    with ServerProcess(data, environment={"DURABLE_SESSIONS_API_KEY": BOOTSTRAP}) as running:
        yield running


def signed_in(chromium: Chromium, server: ServerProcess, secret: str, path: str) -> Page:
    """Open an address, and sign in with a key."""
    page = chromium.page().open(server.url + path)
    page.until("document.querySelector('input[name=key]')")
    page.run("document.querySelector('input[name=key]').focus()")
    page.type(secret)
    page.press("Enter")
    page.until("!document.querySelector('input[name=key]')")
    return page


def test_by_the_keyboard_alone_from_the_list_to_a_decided_approval(
    opened: OpenPage, client: httpx2.Client
) -> None:
    coder = {"Session-Principal": "coder"}
    client.post(
        "/v1/sessions/deploy/events",
        json=[{"type": "user.message", "content": "Ship it."}, call("ship", "ship"), ASKED],
        headers=coder,
    )
    page = opened("/")
    page.until("document.querySelector('a.session[href$=\"/deploy\"]')")
    page.press("/")
    page.type("deploy")
    page.until("document.querySelectorAll('a.session').length === 1")
    for _ in range(12):
        page.press("Tab")
        if page.run("document.activeElement.matches('a.session')"):
            break
    page.press("Enter")
    page.until("document.querySelector('.row:not([aria-busy])')")
    page.press("s")
    page.until("document.querySelector('.inspector .decision button')")
    for _ in range(60):
        if page.run("document.activeElement.innerText === 'Approve'"):
            break
        page.press("Tab")
    page.press("Enter")
    page.until("document.querySelector('.decision form')")
    assert client.get("/v1/sessions/deploy/state").json()["approvals"]["pending"], "one key decides nothing"
    page.run("document.querySelector('.decision input[name=name]').focus()")
    page.type("ann")
    page.press("Tab")
    page.type("Looks right.")
    page.press("Tab")
    page.press("Enter")
    page.until("!document.querySelector('.decision')")
    decided = client.get("/v1/sessions/deploy/state").json()["approvals"]["decided"]
    assert [one["decision"] for one in decided] == ["approve"]


def test_whoever_may_not_decide_is_told_why(chromium: Chromium, keyed: ServerProcess) -> None:
    with httpx2.Client(base_url=keyed.url, headers=bearer(BOOTSTRAP), timeout=60) as client:
        secrets = {
            role: client.post("/v1/keys", json={"principal": role, "role": role}).json()["secret"]
            for role in ("writer", "evaluator")
        }
        client.post(
            "/v1/sessions/asks/events", json=[call("c", "ship"), ASKED], headers=bearer(secrets["writer"])
        )
        page = signed_in(chromium, keyed, secrets["writer"], "/approvals")
        page.sees("This needs a key with the role evaluator or admin")
        page = signed_in(chromium, keyed, secrets["evaluator"], "/approvals")
        page.sees("May I deploy?")
        page.click(".choices button + button")
        page.run("document.querySelector('textarea[name=reason]').focus()")
        page.type("Not today.")
        page.click(".decision form button")
        page.sees("Nothing waits for you")
        decided = client.get("/v1/sessions/asks/state").json()["approvals"]["decided"]
        assert [(one["decision"]) for one in decided] == ["reject"]


def test_a_key_is_made_shown_once_and_revoked(chromium: Chromium, keyed: ServerProcess) -> None:
    page = signed_in(chromium, keyed, BOOTSTRAP, "/admin/keys")
    page.until("document.querySelector('input[name=principal]')")
    page.run("document.querySelector('input[name=principal]').focus()")
    page.type("visitor")
    page.press("Enter")
    page.until("document.querySelector('.secret')?.innerText.startsWith('dsk_')")
    page.click(".decision .quiet-button + .quiet-button")
    page.until("!document.body.innerText.includes('dsk_')")
    page.open(keyed.url + "/admin/audit")
    page.sees("key.created")


@pytest.fixture(scope="module")
def family(server: ServerProcess) -> None:
    """Store a session and a fork that goes another way."""
    with httpx2.Client(base_url=server.url, timeout=60) as client:
        shared = [
            {"type": "user.message", "content": "Fix calc.py."},
            call("r1", "cat calc.py"),
            result("r1", "range(1, n)"),
        ]
        store(
            client,
            "first-try",
            [
                *shared,
                call("e1", "edit n"),
                result("e1", "ok"),
                call("t1", "pytest -q"),
                result("t1", "1 failed", failed=True),
            ],
        )
        client.put(
            "/v1/sessions/second-try",
            headers={
                "Stream-Forked-From": "/v1/sessions/first-try",
                "Stream-Fork-Offset": "0000000000000000_0000000000000003",
            },
        )
        store(
            client,
            "second-try",
            [call("e2", "edit n + 1"), result("e2", "ok"), call("t2", "pytest -q"), result("t2", "1 passed")],
        )


def test_two_runs_are_compared_from_where_they_parted(opened: OpenPage, family: None) -> None:
    page = opened("/compare?a=first-try&b=second-try")
    page.sees("3 events in common, then 4 and 4 events")
    page.until("document.querySelectorAll('.pair').length === 2 && !document.querySelector('.step .bar')")
    assert page.run(
        "[...document.querySelectorAll('.pair')].map(one => one.querySelector('.sign').innerText)"
    ) == ["≠", "≠"]
    page.sees("first difference")
    page.press("n")
    page.until("document.activeElement.matches('.pair.differs')")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/sessions/second-try/graph", "forked from first-try at #3"),
        ("/sessions/first-try/dossier?kind=engineering", "Missing:"),
        ("/sessions/first-try?panel=usage", "No model request was recorded."),
        ("/sessions/first-try?panel=state", "as of the selected event"),
        ("/memory", "Memory"),
        ("/approvals", "Approvals"),
        ("/compare?a=first-try&b=second-try", "in common"),
        ("/admin/health", "ready"),
        ("/admin/keys", "There are no keys"),
        ("/admin/audit", "Audit"),
    ],
)
def test_every_view_opens_and_axe_finds_nothing(opened: OpenPage, family: None, path: str, text: str) -> None:
    for dark in (False, True):
        page = opened(path, 390 if dark else 1300, dark=dark)
        page.sees(text)
        page.run("new Promise(done => setTimeout(done, 200))")
        page.run(AXE + "; 1")
        found = page.run(
            "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.target.join(' ')).slice(0, 3)]))"
        )
        assert found == [], (path, found)
        assert page.problems == []
