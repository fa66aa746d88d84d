"""The frame of the page in a real browser: sign-in, the list, search, hostile text, no script, access."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from durable_sessions.rendering.entries import entry_of
from durable_sessions.rendering.events import decode
from durable_sessions.sessions.event_lenses import with_lens
from tests.browser.browsing import CHROMIUM, MISSING
from tests.browser.conftest import OpenPage
from tests.browser.devtools import Chromium
from tests.browser.page_sessions import Event, call, result, store, talk
from tests.support.keys import BOOTSTRAP, bearer
from tests.support.process import ServerProcess
from tests.unit.exporters.golden import sample

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

AXE = Path(__file__).with_name("axe-core-4.14.0.min.js").read_text()
HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "[click](javascript:alert(1)) ![x](http://evil.invalid/x.png) <http://evil.invalid> [a](//evil.invalid)",
    "[https://bank.example](https://evil.invalid/)",
    ">" * 6_000,
    "\u202egnp.exe \u200b\u2060 \U000e0068\U000e0069",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J",
    "a" + "\u0301" * 500,
    "</article></div><h1>out</h1>",
    "`" * 3_000 + "*" * 3_000 + "[" * 3_000,
]


def test_the_first_session_takes_the_place_of_how_to_begin(chromium: Chromium, tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data") as server,
        httpx2.Client(base_url=server.url, timeout=60) as client,
    ):
        for dark in (False, True):
            page = chromium.page(390 if dark else 1300, 900, dark=dark).open(server.url + "/")
            page.sees("No sessions yet")
            page.sees(f"ds import claude-code --url {server.url}")
            assert page.run("document.documentElement.scrollWidth <= innerWidth")
            page.run(AXE + "; 1")
            assert page.run("axe.run().then(found => found.violations.map(one => one.id))") == []
        client.post("/v1/sessions/first/events", json={"type": "user.message", "content": "Hello."})
        page.until("document.querySelector('a.session[data-id=first]')")
        assert not page.problems


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Start a server that needs keys."""
    data = tmp_path_factory.mktemp("keyed") / "data"
    with ServerProcess(data, environment={"DURABLE_SESSIONS_API_KEY": BOOTSTRAP}) as running:
        yield running


def test_a_newcomer_is_told_how_to_begin(chromium: Chromium, keyed: ServerProcess) -> None:
    page = chromium.page().open(keyed.url + "/?q=")
    page.sees("This server needs a key.")
    page.run("document.querySelector('input[name=key]').focus()")
    page.type("dsk_wrong")
    page.press("Enter")
    page.sees("The key is not known, was revoked, or has expired.")
    page.run("document.querySelector('input[name=key]').value = ''")
    page.type(BOOTSTRAP)
    page.press("Enter")
    page.sees("No sessions yet")
    assert BOOTSTRAP not in page.run(
        "document.cookie + JSON.stringify(localStorage) + document.documentElement.outerHTML"
    )
    assert page.run("document.cookie") == "", "no script can read it"
    page.open(keyed.url + "/search")
    page.sees("Search all sessions")
    with httpx2.Client(base_url=keyed.url, headers=bearer(BOOTSTRAP)) as client:
        keys = client.get("/v1/keys").json()["data"]
        assert [(key["parent"], key["principal"]) for key in keys] == [("bootstrap", "bootstrap")]
        acts = [act["type"] for act in client.get("/v1/audit").json()["data"]]
        assert "browser.signed_in" in acts
    page.click(".who + button")
    page.sees("This server needs a key.")
    assert page.run("fetch('/v1/whoami').then(answer => answer.status)") == 401


def test_a_revoked_sign_in_ends_at_once_and_the_page_stays(chromium: Chromium, keyed: ServerProcess) -> None:
    with httpx2.Client(base_url=keyed.url, headers=bearer(BOOTSTRAP), timeout=60) as client:
        store(client, "revoked", talk(30))
        made = client.post("/v1/keys", json={"principal": "ann", "role": "reader"}).json()
        page = chromium.page().open(keyed.url + "/sessions/revoked")
        page.until("document.querySelector('input[name=key]')")
        page.run("document.querySelector('input[name=key]').focus()")
        page.type(made["secret"])
        page.press("Enter")
        page.until("document.querySelector('.live.live') && document.querySelector('.row')")
        assert (
            page.run(
                "fetch('/v1/sessions/revoked', {method: 'DELETE', headers: {'X-DS-Page': '1'}}).then(a => a.status)"
            )
            == 403
        )
        assert page.run("fetch('/v1/login', {method: 'DELETE'}).then(answer => answer.status)") == 401, (
            "no header"
        )
        client.delete(f"/v1/keys/{made['id']}")
        page.until("document.querySelector('.live.ended, .live.waiting, .live.reconnecting')")
        assert page.run("document.querySelectorAll('.row').length") > 3
        assert page.run("fetch('/v1/whoami').then(answer => answer.status)") == 401


def test_the_list_follows_what_changes(opened: OpenPage, client: httpx2.Client) -> None:
    store(client, "listed", talk(10), title="Fix the flaky importer")
    page = opened("/?q=flaky")
    page.sees("Fix the flaky importer")
    page.sees("1 session")
    client.post("/v1/sessions/listed", json={"title": "Fix the flaky exporter"})
    page.sees("Fix the flaky exporter")
    store(client, "listed-2", talk(3), title="Another flaky one")
    page.until("document.querySelector('.pill')?.innerText.includes('new')")
    page.click(".pill")
    page.sees("Another flaky one")
    page.press("/")
    page.type(" one")
    page.sees("1 session")
    page.run("document.querySelector('a.session').focus()")
    page.press("Enter")
    page.until("location.pathname === '/sessions/listed-2' && document.querySelector('.row')")
    assert not page.problems


def test_a_hit_opens_its_event(opened: OpenPage, client: httpx2.Client) -> None:
    store(
        client,
        "searched",
        [*talk(50), call("needle", "find /haystack -name quokka"), result("needle", "no quokka here")],
    )
    page = opened("/search?q=quokka")
    page.sees("2 hits in 1 session")
    page.until("document.querySelector('.group h2').innerText.includes('2 hits ·')")
    said = [{"type": "agent.message", "content": f"A numbat, {at} of 7."} for at in range(7)]
    store(client, "searched-more", [*said, {"type": "user.message", "content": "No numbat for the user."}])
    more = opened("/search?q=numbat&role=agent")
    more.until("document.querySelector('.group h2')?.innerText.includes('3 of 7 hits ·')")
    page.click(".group li a")
    page.until("document.querySelector('.row.selected')?.innerText.includes('quokka')")
    assert "event=" in page.run("location.search")


def test_hostile_text_runs_nothing_and_asks_nobody(opened: OpenPage, client: httpx2.Client) -> None:
    events: list[Event] = []
    for at, text in enumerate(HOSTILE):
        events += [
            {"type": "user.message", "content": text},
            {"type": "agent.message", "content": text},
            {
                "type": "agent.tool_use",
                "id": f"h{at}",
                "name": text[:500],
                "input": {"command": text, text[:100]: text},
            },
            {"type": "agent.tool_result", "tool_use_id": f"h{at}", "content": text, "is_error": True},
            {"type": f"own.{at} <b>", "text": text, "session_thread_id": text[:100]},
        ]
    store(client, "hostile", events, title=HOSTILE[0], metadata={"x": HOSTILE[1]})
    client.post("/v1/sessions/hostile/close")
    for path in ("/", "/search?q=evil", "/sessions/hostile", "/sessions/hostile?at=0&panel=event&show=quiet"):
        page = opened(path)
        page.until("document.querySelector('.row, .session, .group, .state')")
        if "sessions/" in path:
            for _ in range(25):
                page.press("j")
                page.press("Enter")
            page.frames(3)
            if "panel" in path:
                page.sees("hidden text")
        links = page.run("[...document.querySelectorAll('.list a[target]')].map(a => [a.protocol, a.rel])")
        assert all(
            one == ["https:", "noopener noreferrer nofollow"] or one[0] in ("http:", "mailto:")
            for one in links
        )
        assert page.problems == []
        assert page.dialogs == []
        assert not [url for url in page.requests if "127.0.0.1" not in url and not url.startswith("blob:")]
        assert page.run("document.querySelectorAll('.list h1, .list script, .list img').length") == 0


def test_python_and_the_page_read_events_alike(opened: OpenPage) -> None:
    lines = [*sample(), *(json.dumps(event).encode() for event in talk(60))]
    lines += [
        json.dumps({"type": kind, "content": text}).encode()
        for kind in ("user.message", "agent.message", "mine")
        for text in HOSTILE
    ]
    items = [
        {"role": "user", "content": "Is it **green**?"},
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command":"make"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "no"},
        {"type": "of tomorrow"},
    ]
    adapters = [{"type": "openai.item", "raw_format": "openai.item/1", "raw": item} for item in items]
    lines += [with_lens(json.dumps(event).encode()) for event in adapters]
    events = [decode(line) for line in lines]
    wanted = [[e.role.value, e.title, e.line, e.failed, e.quiet] for e in map(entry_of, events)]
    page = opened("/search")
    page.until("document.querySelector('main h1')")
    found = page.run(
        "import([...document.scripts].find(s => s.type === 'module').src.replace('app.js', 'reading/entry.js')).then(m => "
        f"{json.dumps(events)}.map(m.entryOf).map(e => [e.role, e.title, e.line, e.failed, e.quiet]))"
    )
    assert [one for one in zip(wanted, found, strict=True) if one[0] != one[1]] == []


def test_what_adapters_store_is_shown_as_what_it_means(opened: OpenPage, client: httpx2.Client) -> None:
    def item(raw: dict[str, str]) -> Event:
        return {"type": "openai.item", "raw_format": "openai.item/1", "raw": raw}

    store(client, "adapter", [item({"role": "user", "content": "Is it green?"})])
    page = opened("/sessions/adapter")
    page.sees("Is it green?")
    client.post("/v1/sessions/adapter/events", json=item({"role": "assistant", "content": "It is by now."}))
    page.sees("It is by now.")
    assert "raw_format" not in page.run("document.querySelector('.list').textContent")
    assert page.problems == []


@pytest.mark.parametrize("path", ["/", "/sessions/plain", "/memory"])
def test_every_page_is_readable_without_script(
    chromium: Chromium, server: ServerProcess, client: httpx2.Client, path: str
) -> None:
    store(client, "plain", talk(1200), title="A <b>plain</b> one")
    page = chromium.page(script=False).open(server.url + path)
    page.until("location.search.includes('plain=1') && document.querySelector('main')")
    if path == "/sessions/plain":
        page.sees("Events 0 to 499 of 1,200")
        page.sees("Do step 10.")
        page.click('a[rel="next"]')
        page.sees("Events 500 to 999 of 1,200")
    else:
        page.sees("A <b>plain</b> one")
        needs_script = page.run("document.body.innerText.includes('needs script')")
        assert needs_script is (path != "/")
    assert page.problems == []


def test_without_script_an_address_keeps_what_it_asks_for(
    chromium: Chromium, server: ServerProcess, client: httpx2.Client
) -> None:
    asked = {
        "type": "ds.approval.requested",
        "id": "drop",
        "question": "Drop the <b>table</b>?",
        "options": ["approve", "reject"],
    }
    store(client, "asks-plainly", [{"type": "user.message", "content": "The wombat's <i>table</i>."}])
    said = {"Session-Principal": "coder"}
    assert client.post("/v1/sessions/asks-plainly/events", json=asked, headers=said).status_code == 204
    page = chromium.page(script=False).open(server.url + "/search?q=wombat%27s+%22%3Ci%3Etable%22&role=user")
    words = json.dumps('wombat\'s "<i>table"')
    page.until(f"new URLSearchParams(location.search).get('q') === {words}")
    page.sees("1 hits in 1 sessions.")
    page.sees("The wombat's <i>table</i>.")
    page.click("td a")
    page.sees("Events 0 to 2 of 3.")
    page.open(server.url + "/approvals?state=pending")
    page.sees("Drop the <b>table</b>?")
    decided = {
        "type": "ds.approval.decided",
        "request": "drop",
        "decision": "reject",
        "reason": "It is <u>needed</u>.",
    }
    answer = client.post(
        "/v1/sessions/asks-plainly/events", json=decided, headers={"Session-Principal": "ann"}
    )
    assert answer.status_code == 204, answer.text
    page.click("main p a")
    page.sees("It is <u>needed</u>.")
    assert page.problems == []


def test_a_browser_without_script_signs_in_with_a_form(chromium: Chromium, keyed: ServerProcess) -> None:
    page = chromium.page(script=False).open(keyed.url + "/?plain=1")
    page.until("document.querySelector('input[name=key]')")
    page.run("document.querySelector('input[name=key]').focus()")
    page.type(BOOTSTRAP)
    page.press("Enter")
    page.sees("Last activity")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing(opened: OpenPage, client: httpx2.Client, dark: bool) -> None:
    store(
        client,
        "axe",
        [*talk(60), {"type": "session.error", "error": {"message": "It broke."}}],
        title="For axe",
    )
    for path in ("/", "/search?q=step", "/sessions/axe?at=20&panel=event", "/login"):
        for width in (1300, 900, 390):
            page = opened(path, width, dark=dark)
            page.until("document.querySelector('.row:not([aria-busy]), .session, .group, .sign-in')")
            if "axe" in path:
                page.press("j")
                page.press("Enter")
                page.frames(3)
            page.run(AXE + "; 1")
            found = page.run(
                "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).slice(0, 3)]))"
            )
            assert found == [], (path, width, found)


def test_it_can_be_printed(opened: OpenPage, client: httpx2.Client) -> None:
    store(client, "printed", talk(40))
    page = opened("/sessions/printed")
    page.until("document.querySelector('.row:not([aria-busy])')")
    pages = page.pdf().count(b"/Type /Page\n")
    assert pages > 1, "all rows that are drawn are on paper, not only those of the window"
