"""The web page in a real browser: how soon it is there, how steadily it scrolls, and what it costs.

``python -m bench.page [events …]`` fills sessions of so many events (50,000 and 200,000), opens each five
times in Chromium, and prints a table, with the HTML export of the first one. It wants a quiet machine.
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
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx2
from tests.browser.devtools import Chromium, Page
from tests.browser.page_sessions import append, store, talk
from tests.support.process import ServerProcess

EVENTS = (50_000, 200_000)
ROUNDS = 5
FRAMES = 120
JUMPS = 20
LIVE_SECONDS = 10
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
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_ELEMENTS = "document.querySelectorAll('*').length"
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


def main() -> None:
    """Measure, and print the table."""
    counts = [int(one.replace(",", "")) for one in sys.argv[1:]] or list(EVENTS)
    with tempfile.TemporaryDirectory() as folder:
        browser = Chromium(Path(folder))
        try:
            with (
                ServerProcess(Path(folder) / "data") as server,
                httpx2.Client(base_url=server.url, timeout=300) as client,
            ):
                for count in counts:
                    _fill(client, f"long-{count}", count)
                print(
                    f"load {os.getloadavg()[0]:.1f}, medians of {ROUNDS}\n\n| measure | result |\n|---|---|"
                )
                for name, result in _rows(browser, server, client, counts, Path(folder)):
                    print(f"| {name} | {result} |", flush=True)
        finally:
            browser.close()


def _rows(
    browser: Chromium, server: ServerProcess, client: httpx2.Client, counts: list[int], folder: Path
) -> Iterator[tuple[str, str]]:
    yield "all assets, gzipped", f"{_assets() / 1000:.0f} kB"
    paints = [_opened(browser, server, "/", "document.querySelector('a.session')")[1] for _ in range(ROUNDS)]
    yield "first paint of the list", f"{statistics.median(paints):.0f} ms"
    for count in counts:
        # Once before: the outline is made when a session is opened first.
        rounds = [_session(browser, server, f"long-{count}") for _ in range(ROUNDS + 1)][1:]
        shown, size = (statistics.median(values) for values in zip(*rounds, strict=True))
        yield (
            f"{count:,} events, until rows are read; bytes of the API",
            f"{shown:.0f} ms; {size / 1000:.0f} kB",
        )
    session = f"long-{counts[-1]}"
    yield (
        f"`?event=` in the middle of {counts[-1]:,}, error",
        f"{max(_errors(browser, server, client, session, counts[-1])):.1f} px",
    )
    page = browser.page()
    page.send("Performance.enable", timeDomain="threadTicks")
    page.open(f"{server.url}/sessions/{session}?at={counts[-1] // 2}")
    page.until(_READABLE)
    for pixels in (120, 900):
        yield f"wheel, {pixels} px a step", _frames(page, pixels)
    yield "strip clicked anywhere, until text, p95", _p95(_jumps(page))
    yield "next failure, p95", _p95(_failures(page))
    page.run("window.gc?.(); 1")
    heap = page.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    yield "elements; heap", f"{page.run(_ELEMENTS):,}; {heap:.0f} MB"
    yield f"live at 100 events/s for {LIVE_SECONDS} s", _live(browser, server, client)
    yield from _export(browser, server, f"long-{counts[0]}", folder, counts[0])


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


def _frames(page: Page, pixels: int) -> str:
    before = _task_seconds(page)
    page.run(_RECORD)
    for _ in range(FRAMES):
        page.wheel(pixels)
    frames = page.run(_RECORDED)
    busy = (_task_seconds(page) - before) * 1_000 / max(1, len(frames))
    return f"frame p95 {_quantile(frames):.1f} ms; main thread {busy:.1f} ms a frame"


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


def _live(browser: Chromium, server: ServerProcess, client: httpx2.Client) -> str:
    """Append a hundred events a second while the page follows, and say how late it is and how busy."""
    store(client, "live", talk(200))
    page = browser.page()
    page.send("Performance.enable", timeDomain="threadTicks")
    page.open(f"{server.url}/sessions/live?follow=1")
    page.until("document.querySelector('.live.live')")
    done = threading.Event()

    def feed() -> None:
        with httpx2.Client(base_url=server.url, timeout=60) as own:
            for number in range(LIVE_SECONDS * 20):
                begin = time.monotonic()
                append(own, "live", [{"type": "agent.message", "content": f"News {number}."}] * 5)
                time.sleep(max(0.0, 0.05 - (time.monotonic() - begin)))
        done.set()

    before = _task_seconds(page)
    thread = threading.Thread(target=feed)
    thread.start()
    lags: list[float] = []
    while not done.wait(0.1):
        told = page.run("/live (\\d+) ms/.exec(document.querySelector('.live').innerText)?.[1]")
        lags += [] if told is None else [float(told)]
    thread.join()
    busy = (_task_seconds(page) - before) / LIVE_SECONDS
    return f"lag p95 {_quantile(lags):.0f} ms; main thread {busy:.0%}"


def _export(
    browser: Chromium, server: ServerProcess, session: str, folder: Path, count: int
) -> Iterator[tuple[str, str]]:
    path = folder / "export.html"
    program = Path(sys.executable).with_name("ds")
    found = subprocess.run(
        [program, "export", session, "--format", "html", "--output", path, "--url", server.url],
        capture_output=True,
        text=True,
        check=False,
        timeout=EXPORT_SECONDS_MAX,
    )
    if found.returncode:
        yield f"HTML export of {count:,} events", f"failed: {found.stderr.strip()}"
        return
    page = browser.page()
    begin = time.monotonic()
    page.open(path.as_uri())
    page.until("document.readyState === 'complete'")
    opened = time.monotonic() - begin
    elements = page.run(_ELEMENTS)
    page.until("!document.querySelector('.part > noscript')", "the rest of the export")
    yield (
        f"HTML export of {count:,} events",
        f"{path.stat().st_size / 1e6:.0f} MB, {opened:.1f} s with {elements:,} elements, whole after "
        f"{time.monotonic() - begin:.1f} s with {page.run(_ELEMENTS):,}",
    )


def _quantile(values: list[float], part: float = 0.95) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def _p95(values: list[float]) -> str:
    return f"{_quantile(values):.0f} ms (median {statistics.median(values):.0f})"


if __name__ == "__main__":
    main()
