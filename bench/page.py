"""The web page in a real browser: how soon it is there, how steadily it scrolls, and what it costs.

``python -m bench.page [events …]`` fills sessions of so many events (50,000, 200,000 and 1,000,000), opens
each five times in Chromium, and prints a table, with the HTML export of the first one. It wants a quiet
machine. With ``--long`` it scrolls for five minutes and follows for ten.
"""

import gzip
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx2
from tests.browser.devtools import Chromium, Page
from tests.browser.page_sessions import append, store, talk
from tests.support.process import ServerProcess

EVENTS = (50_000, 200_000, 1_000_000)
ROUNDS = 5
FRAMES = 120
JUMPS = 20
SESSIONS = 10_000
SCROLL_SECONDS = 20
LIVE_SECONDS = 10
LONG_SCROLL_SECONDS = 300
LONG_LIVE_SECONDS = 600
EXPORT_SECONDS_MAX = 300.0
_READABLE = (
    "document.querySelector('.row:not([aria-busy])') && !document.querySelector('.row[aria-busy=true]')"
)
_WATCH = f"""new Promise(done => {{
  const look = () => requestAnimationFrame(({_READABLE}) ? () => done(performance.now()) : look);
  look();
}})"""
_BYTES = """performance.getEntriesByType('resource').filter(one => one.name.includes('/v1/'))
  .reduce((sum, one) => sum + one.transferSize, 0)"""
_ASSET_BYTES = _BYTES.replace("/v1/", "/ui/")
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_ELEMENTS = "document.querySelectorAll('*').length"
_TYPED = """(typed) => new Promise((done) => {
  const field = document.querySelector('input[type=search]'), began = performance.now();
  const look = () => {
    const titles = [...document.querySelectorAll('a.session bdi')].map((one) => one.innerText);
    const shown = titles.filter((title) => title.startsWith('Session number'));
    if (shown.length && shown.every((title) => title.includes(typed))) done(performance.now() - began);
    else requestAnimationFrame(look);
  };
  field.value = typed;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  requestAnimationFrame(look);
})"""
_RECORD = """(() => {
  window.frames_ = [];
  let before = null;
  const step = (now) => {
    if (before !== null) frames_.push(now - before);
    before = now;
    if (window.frames_) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})()"""
_RECORDED = "(frames => { window.frames_ = null; return frames })(window.frames_)"


@dataclass(frozen=True)
class Figure:
    """What was measured, and what it must be at most and aims at."""

    name: str
    value: float
    unit: str
    must: float | None = None
    aim: float | None = None
    digits: int = 0

    def row(self) -> str:
        """Return the row of the table."""
        must, aim = (
            "–" if limit is None else f"{limit:,g} {self.unit}".strip() for limit in (self.must, self.aim)
        )
        value = f"{self.value:,.{self.digits}f} {self.unit}".strip()
        return f"| {self.name} | {must} | {aim} | {value} | {self._verdict()} |"

    def _verdict(self) -> str:
        if self.must is None:
            return "for comparison"
        if self.value > self.must:
            return "**missed**"
        return "met, aim too" if self.aim is not None and self.value <= self.aim else "met"


def main() -> None:
    """Measure, and print the table."""
    is_long = "--long" in sys.argv
    counts = [int(one.replace(",", "")) for one in sys.argv[1:] if one != "--long"] or list(EVENTS)
    with tempfile.TemporaryDirectory() as folder:
        browser = Chromium(Path(folder))
        try:
            with (
                ServerProcess(Path(folder) / "data") as server,
                httpx2.Client(base_url=server.url, timeout=300) as client,
            ):
                for count in counts:
                    _fill(client, f"long-{count}", count)
                for number in range(SESSIONS):
                    client.put(f"/v1/sessions/one-{number}", json={"title": f"Session number {number}"})
                print(f"load {os.getloadavg()[0]:.1f}, medians of {ROUNDS}\n")
                print("| measure | must | aim | result | verdict |\n|---|---|---|---|---|")
                for figure in _figures(browser, server, client, counts, Path(folder), is_long=is_long):
                    print(figure.row(), flush=True)
        finally:
            browser.close()


def _figures(
    browser: Chromium,
    server: ServerProcess,
    client: httpx2.Client,
    counts: list[int],
    folder: Path,
    *,
    is_long: bool,
) -> Iterator[Figure]:
    yield Figure("all assets, gzipped", _assets() / 1000, "kB", 120, 90)
    paints = [_opened(browser, server, "/", "document.querySelector('a.session')")[1] for _ in range(ROUNDS)]
    yield Figure("first paint of the list", statistics.median(paints), "ms", 500, 200)
    page = _opened(browser, server, f"/sessions/long-{counts[0]}", _READABLE)[0]
    yield Figure("assets that a session takes to open, gzipped", page.run(_ASSET_BYTES) / 1000, "kB")
    yield Figure(
        f"filter {SESSIONS:,} sessions, a key press, p95",
        _quantile(_filtered(browser, server)),
        "ms",
        100,
        50,
    )
    browser.close_pages()
    for count in counts:
        # Once before: the outline is made when a session is opened first.
        rounds = [_session(browser, server, f"long-{count}") for _ in range(ROUNDS + 1)][1:]
        shown, size = (statistics.median(values) for values in zip(*rounds, strict=True))
        yield Figure(f"{count:,} events, until rows are read", shown, "ms", 600, 300)
        yield Figure(f"{count:,} events, bytes of the API", size / 1000, "kB", 500, 250)
        browser.close_pages()
    session, most = f"long-{counts[-1]}", counts[-1]
    yield Figure(
        f"`?event=` in the middle of {most:,}, error",
        max(_errors(browser, server, client, session, most)),
        "px",
        0,
        0,
    )
    browser.close_pages()
    page = browser.page()
    page.send("Performance.enable", timeDomain="threadTicks")
    page.open(f"{server.url}/sessions/{session}?at={most // 2}")
    page.until(_READABLE)
    for pixels, frame_must, frame_aim, busy_must, busy_aim in ((120, 20, 17, 6, 4), (900, 34, 20, 10, 7)):
        frame, busy = _frames(page, pixels)
        yield Figure(f"wheel, {pixels} px a step, frame p95", frame, "ms", frame_must, frame_aim, 1)
        yield Figure(f"wheel, {pixels} px a step, main thread a frame", busy, "ms", busy_must, busy_aim, 1)
    yield Figure("strip clicked anywhere, until text, p95", _quantile(_jumps(page)), "ms", 300, 150)
    yield Figure("next failure, p95", _quantile(_failures(page)), "ms", 150, 60)
    seconds = LONG_SCROLL_SECONDS if is_long else SCROLL_SECONDS
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        page.wheel(900)
    yield Figure(f"elements after {seconds} s of scrolling {most:,}", page.run(_ELEMENTS), "", 1500, 800)
    yield Figure(f"heap after {seconds} s of scrolling {most:,}", _heap(page), "MB", 60, 40)
    browser.close_pages()
    yield from _live(browser, server, client, LONG_LIVE_SECONDS if is_long else LIVE_SECONDS)
    browser.close_pages()
    yield from _export(browser, server, f"long-{counts[0]}", folder, counts[0])


def _heap(page: Page) -> float:
    page.send("HeapProfiler.collectGarbage")
    return float(page.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


def _filtered(browser: Chromium, server: ServerProcess) -> list[float]:
    """Return how long after each key the list shows what was typed, and nothing else."""
    page = browser.page().open(server.url + "/")
    page.until("document.querySelectorAll('a.session').length > 10")
    keys = (str(number % 9 + 1) * (number % 3 + 1) for number in range(JUMPS))
    return [float(page.run(f"({_TYPED})('{key}')")) for key in keys]


def _fill(client: httpx2.Client, session: str, count: int) -> None:
    events = talk(10_000)
    store(client, session, [])
    for start in range(0, count, len(events)):
        some = [_renamed(event, start) for event in events[: count - start]]
        for at in range(0, len(some), 1_000):
            append(client, session, some[at : at + 1_000])


def _renamed(event: dict[str, Any], start: int) -> dict[str, Any]:
    """Return an event with other ids, as an event of a longer session."""
    names: dict[str, str] = {
        name: f"{event[name]}-{start}" for name in ("id", "tool_use_id") if name in event
    }
    return {**event, **names}


def _assets() -> int:
    """Return the size of all modules and styles as they are sent."""
    root = files("durable_sessions").joinpath("ui")
    paths = [path for path in Path(str(root)).rglob("*") if path.suffix in (".js", ".mjs", ".css", ".svg")]
    return sum(len(gzip.compress(path.read_bytes())) for path in paths)


def _opened(browser: Chromium, server: ServerProcess, path: str, there: str) -> tuple[Page, float]:
    page = browser.page().open(server.url + path)
    page.until(there)
    return page, float(page.until(_PAINT))


def _session(browser: Chromium, server: ServerProcess, session: str) -> tuple[float, float]:
    """Return after how many milliseconds rows can be read, and how many bytes that took."""
    page = browser.page()
    page.send("Page.addScriptToEvaluateOnNewDocument", source=f"window.readable = {_WATCH}")
    page.open(f"{server.url}/sessions/{session}")
    page.until("window.readable !== undefined")
    return float(page.run("window.readable")), float(page.run(_BYTES))


def _errors(
    browser: Chromium, server: ServerProcess, client: httpx2.Client, session: str, count: int
) -> Iterator[float]:
    """Yield how far rows are from where a link promises them: at three tenths of the height."""
    chance = random.Random(7)
    for _ in range(6):
        place = chance.randrange(count // 4, 3 * count // 4)
        events = client.get(f"/v1/sessions/{session}/events", params={"from": place, "limit": 8}).json()[
            "data"
        ]
        event = next(one for one in events if one["type"] != "agent.tool_result")["id"]
        page = browser.page().open(f"{server.url}/sessions/{session}?event={event}")
        page.until("document.querySelector('.row.selected:not([aria-busy])')")
        page.run("new Promise(done => setTimeout(done, 400))")
        yield abs(
            page.run(
                "(list => document.querySelector('.row.selected').getBoundingClientRect().top - list.top "
                "- Math.round(list.height * 0.3))(document.querySelector('.list').getBoundingClientRect())"
            )
        )


def _task_seconds(page: Page) -> float:
    metrics = page.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def _frames(page: Page, pixels: int) -> tuple[float, float]:
    """Return the 95th of a hundred frames, and the time of the main thread in each, in milliseconds."""
    before = _task_seconds(page)
    page.run(_RECORD)
    for _ in range(FRAMES):
        page.wheel(pixels)
    frames = page.run(_RECORDED)
    busy = (_task_seconds(page) - before) * 1_000 / max(1, len(frames))
    return _quantile(frames), busy


def _timed(page: Page, act: Callable[[], object]) -> float:
    page.run("window.began = performance.now()")
    act()
    return float(page.run(f"{_WATCH}.then(now => now - window.began)"))


def _jumps(page: Page) -> list[float]:
    chance = random.Random(11)
    box = page.run(
        "(r => [r.left, r.top, r.width])(document.querySelector('.strip').getBoundingClientRect())"
    )

    def click() -> None:
        x = box[0] + chance.random() * box[2]
        for kind in ("mousePressed", "mouseReleased"):
            page.send("Input.dispatchMouseEvent", type=kind, x=x, y=box[1] + 20, button="left", clickCount=1)

    return [_timed(page, click) for _ in range(JUMPS)]


def _failures(page: Page) -> list[float]:
    return [_timed(page, lambda: page.press("e")) for _ in range(JUMPS)]


def _live(browser: Chromium, server: ServerProcess, client: httpx2.Client, seconds: int) -> Iterator[Figure]:
    """Append a hundred events a second while the page follows, and say how late it is and how busy."""
    store(client, "live", talk(200))
    page = browser.page()
    page.send("Performance.enable", timeDomain="threadTicks")
    page.open(f"{server.url}/sessions/live?follow=1")
    page.until("document.querySelector('.live.live')")
    done = threading.Event()

    def feed() -> None:
        with httpx2.Client(base_url=server.url, timeout=60) as own:
            for number in range(seconds * 20):
                begin = time.monotonic()
                append(own, "live", [{"type": "agent.message", "content": f"News {number}."}] * 5)
                time.sleep(max(0.0, 0.05 - (time.monotonic() - begin)))
        done.set()

    heap, before = _heap(page), _task_seconds(page)
    page.run(_RECORD)
    thread = threading.Thread(target=feed)
    thread.start()
    lags: list[float] = []
    while not done.wait(0.1):
        told = page.run("/live (\\d+) ms/.exec(document.querySelector('.live').innerText)?.[1]")
        lags += [] if told is None else [float(told)]
    thread.join()
    frames = page.run(_RECORDED)
    busy = (_task_seconds(page) - before) / seconds
    name = f"live at 100 events/s for {seconds} s"
    yield Figure(f"{name}, frame p95", _quantile(frames), "ms", 20, 17, 1)
    yield Figure(f"{name}, lag p95", _quantile(lags), "ms", 150, 120)
    yield Figure(f"{name}, main thread", busy * 100, "%", 25, 12, 1)
    yield Figure(f"{name}, heap growth", _heap(page) - heap, "MB", 20, 5, 1)


def _export(
    browser: Chromium, server: ServerProcess, session: str, folder: Path, count: int
) -> Iterator[Figure]:
    path = folder / "export.html"
    program = Path(sys.executable).with_name("ds")
    subprocess.run(
        [program, "export", session, "--format", "html", "--output", path, "--url", server.url],
        check=True,
        timeout=EXPORT_SECONDS_MAX,
    )
    page = browser.page()
    begin = time.monotonic()
    page.open(path.as_uri())
    page.until("document.readyState === 'complete'")
    name = f"HTML export of {count:,} events"
    yield Figure(f"{name}, bytes", path.stat().st_size / 1e6, "MB")
    yield Figure(f"{name}, until it is open", time.monotonic() - begin, "s", digits=1)
    yield Figure(f"{name}, elements by then", page.run(_ELEMENTS), "")
    page.until("!document.querySelector('.part > noscript')", "the rest of the export")
    yield Figure(f"{name}, until it is whole", time.monotonic() - begin, "s", digits=1)
    yield Figure(f"{name}, elements in the end", page.run(_ELEMENTS), "")


def _quantile(values: list[float], part: float = 0.95) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


if __name__ == "__main__":
    main()
