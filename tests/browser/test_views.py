"""The other views of the page in a real browser: approvals, state, compare, graph, memory, dossier, administration."""

import json
from collections.abc import Iterator

import httpx2
import pytest

from tests.browser.browsing import CHROMIUM, MISSING
from tests.browser.conftest import OpenPage
from tests.browser.devtools import Chromium, Page
from tests.browser.page_sessions import Event, call, result, store, talk
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
    for _ in range(12):
        if page.run("document.activeElement.matches('.decision input[name=name]')"):
            break
        page.press("Tab")
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


def test_a_call_that_asks_before_it_runs_is_decided_in_the_inbox(
    opened: OpenPage, client: httpx2.Client
) -> None:
    asking = {**call("danger", "drop table"), "evaluated_permission": "ask"}
    idle = {
        "type": "session.status_idle",
        "stop_reason": {"type": "requires_action", "event_ids": ["danger"]},
    }
    client.post("/v1/sessions/held/events", json=[asking, idle], headers={"Session-Principal": "coder"})
    page = opened("/approvals")
    page.sees("May bash be called?")
    page.sees("asked by coder, and does not run before")
    card = "[...document.querySelectorAll('.decision')].find(one => one.innerText.includes('drop table'))"
    page.run(
        f"[...{card}.querySelectorAll('.choices button')].find(one => one.innerText === 'Reject').click()"
    )
    page.until("document.querySelector('.decision form')")
    clean(page)
    page.run("document.querySelector('.decision input[name=name]').focus()")
    page.type("ann")
    page.run("document.querySelector('.decision textarea').focus()")
    page.type("Not that table.")
    page.click(".decision form button")
    page.until(f"!{card}")
    said = client.get("/v1/sessions/held/events").json()["data"][-1]
    assert (said["type"], said["tool_use_id"], said["result"]) == ("user.tool_confirmation", "danger", "deny")
    assert said["deny_message"] == "Not that table."


def test_what_was_remembered_is_taken_back_with_a_reason(opened: OpenPage, client: httpx2.Client) -> None:
    written = {
        "type": "ds.memory.written",
        "id": "w",
        "scope": "project:page",
        "key": "answer",
        "value": "41",
    }
    refs = [{"rel": "because", "id": "seen"}]
    events = [{"type": "note", "id": "seen"}, {**written, "why": "tool_result", "refs": refs}]
    answer = client.post("/v1/sessions/learned/events", json=events, headers={"Session-Principal": "coder"})
    assert answer.status_code == 204, answer.text
    store(client, "reader", [])
    recalled = {"scope": "project:page", "influence": "planning"}
    assert client.post("/v1/sessions/reader/recall", json=recalled).status_code == 200
    page = opened("/memory")
    page.until("document.querySelector('a[href*=\"project%3Apage\"]')")
    page.click('a[href*="project%3Apage"]')
    page.sees("1 read")
    page.click(".entry-key")
    page.sees("Who has read it, and for what")
    page.until("document.querySelector('.entry-more a[href*=\"/sessions/reader\"]')")
    page.run("[...document.querySelectorAll('.entry-more button')].at(-1).click()")
    page.sees("One read has returned it")
    clean(page)
    page.run("document.querySelector('.entry-more input[name=name]').focus()")
    page.type("ann@b")
    page.run("document.querySelector('.entry-more textarea').focus()")
    page.type("It is 42.")
    page.click(".entry-more form button")
    page.sees("Nothing is remembered here")
    desk = client.get("/v1/sessions/desk:ann@40b/events").json()["data"]
    assert [(one["type"], one["write"], one["reason"]) for one in desk] == [
        ("ds.memory.rolled_back", "w", "It is 42.")
    ]
    page.open(page.run("location.origin") + "/memory?scope=project:page&at=1")
    page.sees("This is how it was at position 1")
    page.sees("41")


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


def test_an_event_leads_both_ways_and_is_shown_as_it_is_stored(
    opened: OpenPage, client: httpx2.Client
) -> None:
    seen: Event = {"type": "note", "id": "seen", "text": "  two  spaces"}
    fact: Event = {"type": "ds.fact", "id": "learned", "key": "k", "value": 1, "kind": "fact"}
    refs = [{"rel": "because", "id": "seen"}]
    lines = result("c", "\n".join(f"line {number}" for number in range(90)))
    events = [seen, {**fact, "refs": refs}, call("c", "seq 90"), lines]
    store(client, "both-ways", events)
    page = opened("/sessions/both-ways?event=learned&panel=event&show=quiet")
    page.until("document.querySelector('.refs a[href*=\"event=seen\"]')")
    page.click('.refs a[href*="event=seen"]')
    page.until("document.querySelector('.from-others a[href*=\"event=learned\"]')")
    assert "because" in page.run("document.querySelector('.from-others').innerText")
    page.run("[...document.querySelectorAll('[role=tab]')].at(-1).click()")
    page.until("location.search.includes('panel=raw')")
    stored = client.get("/v1/sessions/both-ways/events/seen").text
    page.until(f"document.querySelector('.panel pre')?.textContent === {json.dumps(stored)}")
    clean(page)
    page.press("i")
    page.press("j")
    page.press("j")
    page.press("Enter")
    page.until("document.querySelector('.opened .result .block > button')?.innerText === 'All 90 lines'")
    page.click(".opened .result .block > button")
    page.sees("line 89")
    assert page.problems == []


def test_a_session_is_marked_where_it_is_read(opened: OpenPage, family: None) -> None:
    page = opened("/sessions/first-try")
    page.until("document.querySelector('.row:not([aria-busy])')")
    page.press("m")
    page.until("document.querySelector('.head .chip')?.innerText === 'marked'")
    page.click(".back")
    page.until("document.querySelector('a.session.marked[data-id=first-try]')")
    page.click("a.session[data-id=second-try]")
    page.until(
        "location.pathname === '/sessions/second-try' && document.querySelector('.row:not([aria-busy])')"
    )
    page.press("=")
    page.until("location.search === '?a=first-try&b=second-try'")


def test_the_seventh_thread_and_those_behind_it_share_a_lane(opened: OpenPage, client: httpx2.Client) -> None:
    events = [
        {"type": "agent.message", "content": f"I am {at}.", "session_thread_id": f"thread-{at}"}
        for at in range(8)
    ]
    store(client, "lanes", events)
    page = opened("/sessions/lanes")
    page.until("document.querySelectorAll('.row .thread').length === 8")
    lanes = page.run("[...document.querySelectorAll('.row .thread')].map((one) => one.className.slice(-1))")
    assert lanes == ["1", "2", "3", "4", "5", "6", "7", "7"]
    assert page.run("[...document.querySelectorAll('.row .thread')].at(-1).innerText").startswith("+2 ")


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
    page.click(".pair.differs button.sign")
    page.until("document.querySelectorAll('.apart').length === 2")
    apart = "[...document.querySelectorAll('.apart mark')].map(one => one.innerText.trim())"
    assert page.run(apart) == ["+ 1"], "only the words that one of them has"
    page.run("[...document.querySelectorAll('.pair button.sign')].at(-1).click()")
    page.until("document.querySelectorAll('.apart').length === 4")
    assert page.run(apart) == ["+ 1", "failed", "passed"], "equal calls with other results, too"


def test_long_runs_open_at_their_first_difference(opened: OpenPage, client: httpx2.Client) -> None:
    for name, word in (("long-a", "one"), ("long-b", "another")):
        events = [
            event
            for at in range(400)
            for event in (
                call(f"c{at}", f"make {word if at in (150, 151, 390) else 'it'} {at}"),
                result(f"c{at}", "ok"),
            )
        ]
        store(client, name, events)
    page = opened("/compare?a=long-a&b=long-b", 1300, 500)
    here = "document.querySelector('.pair.here')"
    page.until(f"{here}?.innerText.includes('make one 150')")
    box = page.run(f"(box => [box.top, box.bottom])({here}.getBoundingClientRect())")
    assert 0 < box[0] < box[1] < 500, "the first difference is what is seen"
    page.sees("difference 1 of 3")
    folds = "[...document.querySelectorAll('.pair-fold')].map((one) => one.innerText)"
    assert page.run(folds) == ["148 equal steps", "234 equal steps", "7 equal steps"]
    page.until("!document.querySelector('.step .bar')")
    assert sum("/events?" in url for url in page.requests) <= 6, (
        "steps that lie near each other are read together"
    )
    for key, step, text in (
        ("n", 2, "one 151"),
        ("n", 3, "one 390"),
        ("n", 3, "one 390"),
        ("N", 2, "one 151"),
    ):
        page.press(key)
        page.until(f"{here}?.innerText.includes('make {text}') && location.search.includes('step={step}')")
        page.sees(f"difference {step} of 3")
        page.until(f"document.activeElement === {here}")
    page = opened("/compare?a=long-a&b=long-b&step=3&same=hide", 1300, 500)
    page.until(f"{here}?.innerText.includes('make one 390')")
    assert page.run(folds) == ["150 equal steps", "238 equal steps", "9 equal steps"]
    page.click(".pair-fold:last-child button")
    page.until(
        f"{folds.replace('map', 'filter')}.length === 2 && document.querySelectorAll('.pair.same').length === 9"
    )
    assert page.problems == []


def test_threads_are_compared_with_those_of_their_name(opened: OpenPage, client: httpx2.Client) -> None:
    def events(order: str) -> list[dict[str, object]]:
        made: list[dict[str, object]] = [
            {"type": "session.thread_created", "session_thread_id": f"{name}-{order}", "agent_name": name}
            for name in order.split("-")
        ]
        said = [(name, number) for number in range(3) for name in order.split("-")]
        return made + [
            {"type": "agent.message", "content": f"{name} {number}", "session_thread_id": f"{name}-{order}"}
            for name, number in said
        ]

    store(client, "threads-a", events("ann-bob"))
    store(client, "threads-b", events("bob-ann"))
    page = opened("/compare?a=threads-a&b=threads-b")
    page.sees("no step differs")
    page.until("!document.querySelector('.step .bar')")
    assert page.run("[...document.querySelectorAll('.pairs-thread')].map((one) => one.innerText)") == [
        "thread ann",
        "thread bob",
    ]
    assert page.problems == []


def clean(page: Page) -> None:
    """Hold a page against the rules of axe."""
    page.run(AXE + "; 1")
    found = page.run(
        "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.target.join(' ')).slice(0, 3)]))"
    )
    assert found == []
    assert page.problems == []


def test_a_session_is_forked_from_the_selected_event(
    opened: OpenPage, family: None, client: httpx2.Client
) -> None:
    page = opened("/sessions/first-try?event=e1", dark=True)
    page.until("document.querySelector('.row.selected:not([aria-busy])')")
    page.press("F")
    page.sees("the events up to #3")
    clean(page)
    page.run("document.querySelector('dialog input').select()")
    page.type("third-try")
    page.press("Enter")
    page.until("location.pathname === '/sessions/third-try'")
    page.sees("fork of first-try")
    made = client.get("/v1/sessions/third-try").json()
    assert (made["event_count"], made["forked_from"]["position"]) == (4, 4)


def test_a_session_is_paused_and_deleted_only_by_its_id(opened: OpenPage, client: httpx2.Client) -> None:
    store(client, "unwanted", [call("c", "sleep 9")])
    page = opened("/sessions/unwanted")
    choose = (
        "[...document.querySelectorAll('[role=menuitem]')].find(one => one.innerText === %r)?.click() ?? true"
    )
    page.click(".menu > button")
    page.until("document.activeElement.matches('[role=menuitem]')")
    clean(page)
    page.run(choose % "Pause")
    page.until("document.querySelector('dialog textarea')")
    page.run("document.querySelector('dialog textarea').focus()")
    page.type("Wait.")
    page.click("dialog form button")
    page.until("!document.querySelector('dialog')")
    assert client.get("/v1/sessions/unwanted").json()["lifecycle"] == "paused"
    page.press("r")
    page.sees("1 call has no result")
    clean(page)
    page.press("Escape")
    page.until("!document.querySelector('dialog')")
    page.click(".menu > button")
    page.until("document.activeElement.matches('[role=menuitem]')")
    page.run(choose % "Delete")
    page.until("document.querySelector('dialog form button')?.disabled")
    page.run("document.querySelector('dialog input').focus()")
    page.type("unwanted")
    page.until("!document.querySelector('dialog form button').disabled")
    page.press("Enter")
    page.until("location.pathname === '/'")
    assert client.get("/v1/sessions/unwanted").status_code == 404


def test_two_marked_sessions_are_compared_and_neighbours_reached(opened: OpenPage, family: None) -> None:
    page = opened("/?q=-try&sort=created_at")
    page.until("document.querySelectorAll('a.session').length >= 2")
    page.run("document.querySelector('a.session[data-id=first-try]').focus()")
    page.press(" ")
    page.sees("1 marked")
    page.run("document.querySelector('a.session[data-id=second-try]').focus()")
    page.press(" ")
    page.sees("Compare the two that are marked")
    page.press("=")
    page.until("location.search.includes('a=first-try') && location.search.includes('b=second-try')")
    page.run("history.back()")
    page.until("document.querySelectorAll('a.session').length >= 2")
    order = page.run("[...document.querySelectorAll('a.session')].map(one => one.dataset.id)")
    page.click(f"a.session[data-id={order[0]}]")
    page.until("document.querySelector('.row:not([aria-busy])')")
    page.press("]")
    page.until(f"location.pathname === '/sessions/{order[1]}'")
    page.until(f"document.title.startsWith('{order[1]}')")  # until then, keys belong to the session before
    page.press("[")
    page.until(f"location.pathname === '/sessions/{order[0]}'")


def test_a_link_into_a_long_session_lands_below_its_lens(opened: OpenPage, client: httpx2.Client) -> None:
    store(client, "lens", talk(10_500))
    event = client.get("/v1/sessions/lens/events", params={"from": 6_000, "limit": 9}).json()["data"]
    name = next(one["id"] for one in event if one["type"] != "agent.tool_result")
    page = opened(f"/sessions/lens?event={name}", 390)
    page.until("document.querySelector('.row.selected:not([aria-busy])')")
    page.until("document.querySelector('.lens canvas')")
    page.run("new Promise(done => setTimeout(done, 500))")
    row = "document.querySelector('.row.selected').getBoundingClientRect().top"
    error = page.run(
        f"(list => {row} - list.top - Math.round(list.height * 0.3))(document.querySelector('.list').getBoundingClientRect())"
    )
    assert abs(error) < 1
    clean(page)


def test_everything_is_found_by_its_name(opened: OpenPage, family: None) -> None:
    page = opened("/approvals")
    page.sees("Approvals")
    page.until("document.querySelector('.jump')")
    page.press("k", ctrl=True)
    page.until("document.activeElement.matches('.palette input')")
    clean(page)
    page.type("second-try")
    page.until("document.querySelector('.palette li')?.innerText.includes('second-try')")
    page.press("Enter")
    page.until("location.pathname === '/sessions/second-try'")


def test_the_strip_goes_by_time_and_a_range_is_chosen_on_it(opened: OpenPage, client: httpx2.Client) -> None:
    day = "2026-01-02T0{}:00:00Z"
    events = [{"type": "agent.message", "content": f"number {at}"} for at in range(40)]
    for at, event in enumerate(events):
        event["processed_at"] = day.format(1 + at // 20)
    store(client, "timed", events)
    page = opened("/sessions/timed?at=0")
    page.until("document.querySelector('.row:not([aria-busy])')")
    page.press("t")
    page.until("document.querySelector('.strip')?.ariaLabel.startsWith('Place in the session, by')")
    page.press("t")
    box = page.run(
        "(r => [r.left, r.top, r.width])(document.querySelector('.strip').getBoundingClientRect())"
    )
    shift = {"button": "left", "modifiers": 8, "clickCount": 1}
    for kind, share in (("mousePressed", 0.26), ("mouseMoved", 0.4), ("mouseReleased", 0.49)):
        x = box[0] + share * box[2]
        page.send("Input.dispatchMouseEvent", type=kind, x=x, y=box[1] + 20, **shift)
    page.until("new URLSearchParams(location.search).get('only')?.startsWith('range:')")
    first, _, last = page.run("new URLSearchParams(location.search).get('only')")[6:].partition("-")
    assert 9 <= int(first) <= 11
    assert 15 <= int(last) <= 20
    page.sees("Not all is shown.")
    page.until("!document.body.innerText.includes('number 30')")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/sessions/first-try?panel=tools", "Median"),
        ("/sessions/first-try/usage", "Results by tool"),
        ("/sessions/second-try/graph", "forked from first-try at #3"),
        ("/sessions/first-try/dossier?kind=engineering", "ds dossier verify first-try.zip"),
        ("/sessions/first-try/graph?node=event%3Afirst-try%2Fe1", "What led to it"),
        ("/compare", "Compare two sessions"),
        ("/sessions/first-try?panel=usage", "No model request was recorded."),
        ("/sessions/first-try?panel=raw", "The newest events"),
        ("/sessions/first-try?panel=state", "as of the selected event"),
        ("/sessions/first-try?panel=threads", "no threads beside the primary one"),
        ("/approvals?state=decided", "Approvals"),
        ("/sessions/no-such-session", "Not there"),
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
        page = opened(path, 1440, dark=dark)
        page.sees(text)
        page.run("new Promise(done => setTimeout(done, 200))")
        for width in (1440, 900, 375):
            page.resize(width, 900)
            page.frames(2)
            clean(page)
            assert page.leaving() == []


def test_the_family_is_walked_and_zoomed_by_the_keyboard(opened: OpenPage, family: None) -> None:
    page = opened("/sessions/second-try/graph")
    page.until("document.querySelector('.family')")
    box = "document.querySelector('.family').getAttribute('viewBox').split(' ').map(Number)"
    whole = page.run(box)
    page.run("document.querySelector('.scroll-x').focus()")
    page.press("ArrowRight")
    page.until("location.search.includes('node=') && document.querySelector('.family .chosen')")
    first = page.run("location.search")
    assert "second-try" in first
    page.press("ArrowRight")
    page.until(f"location.search !== {json.dumps(first)}")
    page.press("ArrowUp")
    page.until("location.search.includes('first-try')")
    page.press("+")
    page.until(f"{box}[2] < {whole[2]}")
    page.press("0")
    page.until(f"{box}.join() === {json.dumps(','.join(f'{one:g}' for one in whole))}")
    page.sees("What led to it")
    clean(page)
