"""Reading a session in a real browser: nothing moves by itself, and every place has an address."""

import json

import httpx2
import pytest

from tests.browser.browsing import CHROMIUM, MISSING
from tests.browser.conftest import OpenPage
from tests.browser.devtools import Chromium, Page
from tests.browser.page_sessions import append, call, result, store, talk
from tests.support.process import ServerProcess

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)

READY = "document.querySelector('.list .row') && !document.querySelector('.list [aria-busy]')"
TOP = """(position) => {
  const row = document.querySelector(`.row[data-position="${position}"]`), list = document.querySelector('.list');
  return row && row.getBoundingClientRect().top - list.getBoundingClientRect().top;
}"""
# Where the selected row was in each frame.
WATCHED = """
globalThis.places = new Set();
globalThis.framesSeen = 0;
(function look() {
  const row = document.querySelector('.row.selected'), list = document.querySelector('.list');
  if (row) { globalThis.framesSeen++; globalThis.places.add(row.getBoundingClientRect().top - list.getBoundingClientRect().top); }
  requestAnimationFrame(look);
})();
"""
# Rows of many heights that are only known once they are drawn, as many as one likes: the laws of the list at any length.
MANY_ROWS = """
async (count, seed) => {
  const path = [...document.scripts].find((one) => one.type === 'module').src.replace('app.js', 'list/scroller.js');
  const { Scroller } = await import(path);
  const random = (n) => { const x = Math.sin(n * 12.9898 + seed) * 43758.5453; return x - Math.floor(x); };
  const real = (n) => 20 + Math.floor(random(n) * 260), guess = 60, known = new Map();
  const item = (n) => (n >= 0 && n < count ? { block: 0, index: n, position: n, span: 1, isGap: false } : null);
  let extra = 0;
  const rows = {
    first: () => item(0), last: () => item(count - 1), next: (one) => item(one.position + 1),
    previous: (one) => item(one.position - 1), height: (one) => known.get(one.position) ?? guess,
    measured: (one, height) => { if (known.get(one.position) === height) return false; extra += height - (known.get(one.position) ?? guess); known.set(one.position, height); return true; },
    total: () => count * guess + extra, of: () => ({}), reset: () => {},
    top: (one) => { let y = one.position * guess; for (const [n, h] of known) if (n < one.position) y += h - guess; return y; },
    at: (y) => ({ item: item(Math.max(0, Math.min(count - 1, Math.floor(y / (rows.total() / count))))), into: 0 }),
  };
  document.querySelector('.list')?.remove();
  const view = document.body.appendChild(document.createElement('div'));
  view.className = 'list';
  view.style.cssText = 'position:fixed;left:0;top:0;width:800px;height:700px;z-index:99';
  globalThis.scroller = new Scroller(view, rows, {
    draw: (element, one) => { element.style.height = `${real(one.position)}px`; element.dataset.position = one.position; element.textContent = one.position; },
    drop: () => {}, shown: () => {}, moved: () => {},
  });
  globalThis.topOf = (n) => document.querySelector(`[data-position="${n}"]`)?.getBoundingClientRect().top ?? null;
  globalThis.rowsMade = item;
}
"""


@pytest.fixture(scope="module")
def long_session(server: ServerProcess) -> str:
    """Store a session of three blocks and a bit."""
    with httpx2.Client(base_url=server.url, timeout=120) as client:
        store(client, "long", talk(13_000), title="A long session")
        client.post("/v1/sessions/long/close")
    return "long"


def top(page: Page, position: int) -> float:
    """Return where the row of an event is, in pixels from the top of the list."""
    return float(page.run(f"({TOP})({position})"))


def steady(page: Page) -> None:
    """Wait until everything that is drawn was fetched and measured."""
    page.until(READY, "rows")
    page.frames(3)
    page.until(READY, "rows")


@pytest.mark.parametrize(("event", "width"), [("c5008", 1300), ("u8002", 800), ("m3", 390)])
def test_a_link_to_an_event_lands_exactly(
    opened: OpenPage, long_session: str, client: httpx2.Client, event: str, width: int
) -> None:
    position = client.get(f"/v1/sessions/long/events?around={event}&window=0").json()["first"]
    page = opened(f"/sessions/long?event={event}", width)
    steady(page)
    height = page.run("document.querySelector('.list').clientHeight")
    wanted = round(height * 0.3)
    if event == "m3":  # so near to the start that it cannot be there
        assert 0 <= top(page, position) <= wanted
    else:
        assert top(page, position) == wanted
    assert page.run(
        f"document.querySelector('.row[data-position=\"{position}\"]').classList.contains('selected')"
    )
    assert not page.problems


def test_what_is_read_never_moves_by_itself(opened: OpenPage, long_session: str) -> None:
    page = opened("/search")
    page.until("document.querySelector('main h1')")
    # From the first frame in which it is drawn, while nothing around it has been fetched or measured.
    page.send("Page.addScriptToEvaluateOnNewDocument", source=WATCHED)
    page.open(page.run("location.origin") + "/sessions/long?at=6500")
    steady(page)
    page.run("new Promise(done => setTimeout(done, 400))")  # the scrollbar has followed by then
    places = page.run("[...globalThis.places]")
    assert places == [round(page.run("document.querySelector('.list').clientHeight") * 0.3)]
    assert page.run("globalThis.framesSeen") > 10
    assert page.run("document.querySelector('.list').scrollTop") > 0


def test_a_wheel_step_moves_rows_by_exactly_as_many_pixels(opened: OpenPage, long_session: str) -> None:
    page = opened("/sessions/long?at=6500")
    steady(page)
    for pixels in (120, 120, -240, 360, -120):
        position = page.run(
            "[...document.querySelectorAll('.row')].find(row => row.getBoundingClientRect().top > 400).dataset.position"
        )
        before = top(page, position)
        page.wheel(pixels)
        page.until(f"({TOP})({position}) === {before} - {pixels}", f"{before} - {pixels}")
        page.run("new Promise(done => setTimeout(done, 250))")
        assert top(page, position) == before - pixels, "and stays there when the scrollbar follows"


def test_opening_a_row_moves_nothing_above_it(opened: OpenPage, long_session: str) -> None:
    page = opened("/sessions/long?at=6500")
    steady(page)
    above = page.run(
        "[...document.querySelectorAll('.row')].filter(row => row.getBoundingClientRect().top > 200 && "
        "row.querySelector('.line.tool')).map(row => Number(row.dataset.position)).slice(0, 3)"
    )
    places = [top(page, one) for one in above]
    page.click(f'.row[data-position="{above[-1]}"] .head')
    page.until(f"document.querySelector('.row[data-position=\"{above[-1]}\"] .opened')")
    assert [top(page, one) for one in above] == places
    page.press("Enter")
    page.until(f"!document.querySelector('.row[data-position=\"{above[-1]}\"] .opened')")
    assert [top(page, one) for one in above] == places


@pytest.mark.parametrize(("count", "seed"), [(400, 1), (1_000_000, 3)])
def test_the_laws_of_the_list_hold_at_any_length(opened: OpenPage, count: int, seed: int) -> None:
    page = opened("/search")
    page.until("document.querySelector('main h1')")
    page.run(f"({MANY_ROWS})({count}, {seed})")
    for part in (0.5, 0.31, 0.93, 0.07):
        target = int(count * part)
        page.run(f"scroller.go(rowsMade({target}))")
        page.frames(2)
        page.run("new Promise(done => setTimeout(done, 200))")
        assert page.run(f"topOf({target})") == 210, "30 % of the height, after all was measured"
        for pixels in (120, -300, 90):
            before = page.run(f"topOf({target})")
            page.wheel(pixels)
            page.until(f"topOf({target}) === {before - pixels}", f"{before} - {pixels}")
        page.run("new Promise(done => setTimeout(done, 200))")
        assert page.run(f"topOf({target})") == 210 + 90, "the scrollbar has followed, and nothing has moved"
        assert page.run("document.querySelectorAll('.list *').length") < 700
    page.run("scroller.toEnd()")
    page.frames(2)
    assert (
        page.run(f"document.querySelector('[data-position=\"{count - 1}\"]').getBoundingClientRect().bottom")
        == 700
    )
    page.run("scroller.toStart()")
    page.frames(2)
    assert page.run("topOf(0)") == 0


def test_opening_costs_the_same_at_any_length(
    opened: OpenPage, long_session: str, client: httpx2.Client
) -> None:
    store(client, "short", talk(300))
    client.post("/v1/sessions/short/close")

    def asked(session: str) -> int:
        page = opened(f"/sessions/{session}?at=150")
        steady(page)
        assert page.run("document.querySelectorAll('.list *').length") < 700
        return sum("/v1/" in url for url in page.requests)

    assert asked("long") <= asked("short") + 2


def test_failures_are_found_one_after_the_other(opened: OpenPage, long_session: str) -> None:
    page = opened("/sessions/long")
    steady(page)
    seen: list[str] = []
    for _ in range(3):
        page.press("e")
        page.until(f"!{json.dumps(seen)}.includes(document.querySelector('.row.selected')?.dataset.position)")
        seen.append(page.run("document.querySelector('.row.selected').dataset.position"))
        page.until("document.querySelector('.row.selected .is-failed')")
    page.press("E")
    page.until(f"document.querySelector('.row.selected').dataset.position === '{seen[1]}'")


def test_find_counts_and_goes_from_hit_to_hit(opened: OpenPage, long_session: str) -> None:
    page = opened("/sessions/long")
    steady(page)
    page.press("/")
    page.type("step-4000")
    page.press("Enter")
    page.until("document.querySelector('.hits')?.innerText.includes('1')")
    page.until("document.querySelector('.row.selected')?.innerText.includes('step-4000')")
    assert "q=step-4000" in page.run("location.search")


def test_back_restores_the_same_row_at_the_same_pixel(opened: OpenPage, long_session: str) -> None:
    page = opened("/")
    page.click('a.session[href$="/long"]')
    steady(page)
    page.press("j")
    page.wheel(1_530)
    page.run("new Promise(done => setTimeout(done, 700))")
    position = page.run(
        "[...document.querySelectorAll('.row')].find(row => row.getBoundingClientRect().top > 300).dataset.position"
    )
    before = top(page, position)
    page.click(".back")
    page.until("document.querySelector('.sessions')")
    page.run("history.back()")
    steady(page)
    page.until(f"({TOP})({position}) === {before}", f"row {position} at {before}")


def test_back_returns_from_a_jump_to_the_same_row_at_the_same_pixel(
    opened: OpenPage, long_session: str
) -> None:
    page = opened("/sessions/long?at=2000")
    steady(page)
    page.wheel(130)
    page.run("new Promise(done => setTimeout(done, 700))")
    places = []
    box = page.run(
        "(r => [r.left, r.top, r.width])(document.querySelector('.strip').getBoundingClientRect())"
    )
    for jump in ("G", "strip", "gg", "find"):
        entries = page.run("history.length")
        position = page.run(
            "[...document.querySelectorAll('.row')].find(row => row.getBoundingClientRect().top > 300).dataset.position"
        )
        places.append((position, top(page, position)))
        if jump == "strip":
            for kind in ("mousePressed", "mouseReleased"):
                page.send(
                    "Input.dispatchMouseEvent",
                    type=kind,
                    x=box[0] + box[2] * 0.6,
                    y=box[1] + 20,
                    button="left",
                    clickCount=1,
                )
        elif jump == "find":
            page.press("/")
            page.type("step-4000")
            page.press("Enter")
        else:
            for key in jump:
                page.press(key)
        page.until(
            f"history.length === {entries + 1} && !document.querySelector('.row[data-position=\"{position}\"]')"
        )
        steady(page)
        page.run("new Promise(done => setTimeout(done, 500))")
    for position, before in reversed(places):
        page.run("history.back()")
        page.until(f"({TOP})({position}) === {before}", f"row {position} at {before}")
        steady(page)
        page.run("new Promise(done => setTimeout(done, 500))")
        assert top(page, position) == before, "and it stays there"
    assert page.problems == []


def test_the_address_says_that_a_session_is_followed(opened: OpenPage, client: httpx2.Client) -> None:
    store(client, "followed", talk(400))
    page = opened("/sessions/followed?at=20")
    steady(page)
    assert "follow" not in page.run("location.search")
    page.until("document.querySelector('.live.live')")
    page.press("f")
    page.until("location.search.includes('follow=1')")
    page.send("Page.reload")
    page.until("Number([...document.querySelectorAll('.row')].at(-1)?.dataset.position) > 395")
    append(client, "followed", [{"type": "agent.message", "content": "Here is news."}])
    page.sees("Here is news.")
    page.wheel(-3_000)
    page.until("!location.search.includes('follow')")


def test_filters_are_in_the_address_and_say_that_not_all_is_shown(
    opened: OpenPage, long_session: str
) -> None:
    page = opened("/sessions/long?only=failed")
    steady(page)
    assert page.run(
        "[...document.querySelectorAll('.row .line')].every(one => one.classList.contains('is-failed'))"
    )
    page.sees("Not all is shown")
    page.click(".note button")
    page.until("!location.search.includes('only') && document.querySelector('.line.spoken')")


def test_equal_calls_are_one_row_until_it_is_unfolded(opened: OpenPage, client: httpx2.Client) -> None:
    events = [
        event
        for at in range(5)
        for event in (call(f"c{at}", "make"), result(f"c{at}", "bad" if at == 2 else "ok", failed=at == 2))
    ]
    store(client, "equal", [{"type": "user.message", "content": "Go."}, *events])
    page = opened("/sessions/equal")
    steady(page)
    page.sees("×5 the same, 1 failed")
    assert page.run("document.querySelectorAll('.row').length") == 2


def test_an_event_that_is_not_there_is_said(opened: OpenPage, long_session: str) -> None:
    page = opened("/sessions/long?event=nothing")
    page.sees("There is no event nothing")
    opened("/sessions/no-such-session").sees("Not there")


def test_live_events_come_at_the_end_and_move_nobody_who_reads(
    opened: OpenPage, client: httpx2.Client
) -> None:
    store(client, "live", talk(400))
    page = opened("/sessions/live")
    steady(page)
    page.until("document.querySelector('.live.live')")
    append(client, "live", [{"type": "agent.message", "content": "Here is news."}])
    page.sees("Here is news.")
    append(client, "live", [call("late", "sleep 1")])
    page.until("[...document.querySelectorAll('.row')].at(-1).innerText.includes('running')")
    append(client, "live", [result("late", "slept well")])
    page.until("[...document.querySelectorAll('.row')].at(-1).innerText.includes('slept well')")
    page.wheel(-2_000)
    page.until(
        "document.querySelector('.list').scrollTop + document.querySelector('.list').clientHeight < document.querySelector('.list').scrollHeight - 500"
    )
    page.run("new Promise(done => setTimeout(done, 300))")
    steady(page)
    position = page.run(
        "[...document.querySelectorAll('.row')].find(row => row.getBoundingClientRect().top > 300).dataset.position"
    )
    before = top(page, position)
    append(client, "live", [{"type": "agent.message", "content": "More news."}] * 7)
    page.until("document.querySelector('.pill')?.innerText.includes('7 new')")
    assert top(page, position) == before
    page.click(".pill")
    page.until("[...document.querySelectorAll('.row')].at(-1).innerText.includes('More news.')")


def test_a_server_that_is_killed_loses_and_repeats_nothing(
    chromium: Chromium, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with (
        ServerProcess(tmp_path_factory.mktemp("killed") / "data") as server,
        httpx2.Client(base_url=server.url, timeout=120) as client,
    ):
        store(client, "killed", [{"type": "agent.message", "content": "number 0"}])
        page = chromium.page().open(server.url + "/sessions/killed")
        page.sees("number 0")
        page.until("document.querySelector('.live.live')")
        append(client, "killed", [{"type": "agent.message", "content": "number 1"}])
        page.sees("number 1")
        server.kill()
        page.until("document.querySelector('.live.waiting, .live.reconnecting')")
        page.sees("number 1")
        server.start()
        append(client, "killed", [{"type": "agent.message", "content": f"number {at}"} for at in (2, 3)])
        page.sees("number 3")
        texts = page.run("[...document.querySelectorAll('.row .said')].map(one => one.innerText.trim())")
        assert texts == [f"number {at}" for at in range(4)]


def test_another_session_that_gets_the_id_is_not_read_as_this_one(
    opened: OpenPage, client: httpx2.Client
) -> None:
    store(client, "twice", talk(20))
    page = opened("/sessions/twice")
    page.until("document.querySelector('.live.live') && document.querySelector('.row:not([aria-busy])')")
    client.delete("/v1/sessions/twice")
    store(client, "twice", [{"type": "user.message", "content": "another life"}] * 40)
    page.until("document.querySelector('.live.ended')?.innerText === 'deleted'")
    assert "20 events" in page.run("document.querySelector('.about').innerText")
    assert "another life" not in page.run("document.body.innerText")
