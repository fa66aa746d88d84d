"""The exported HTML page in a real browser."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.browser.browsing import CHROMIUM, MISSING
from tests.browser.devtools import Chromium
from tests.browser.test_page import AXE, HOSTILE
from tests.unit.exporters.golden import exported, sample

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)


class Browser:
    """A browser that opens one page and goes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, page: str, *options: str) -> "subprocess.CompletedProcess[str]":
        path = self._folder / "page.html"
        path.write_text(page, encoding="utf-8")
        profile = f"--user-data-dir={self._folder / 'profile'}"
        quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", profile)
        command = [str(CHROMIUM), *quiet, "--virtual-time-budget=3000", *options, path.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(tmp_path)


def test_the_pages_script_runs_and_nothing_else(browser: Browser) -> None:
    hostile = {
        "type": "agent.message",
        "content": "<script>document.title='owned'</script><img src=x onerror=1>",
    }
    seen = browser.open(exported("html", [*sample(), json.dumps(hostile).encode()]), "--dump-dom")
    assert '<html lang="en" class="scripted">' in seen.stdout
    assert "<title>Make it &lt;green&gt;</title>" in seen.stdout
    assert "Content Security Policy" not in seen.stderr
    assert "Uncaught" not in seen.stderr


def test_an_injected_script_would_be_refused(browser: Browser) -> None:
    page = exported("html").replace("</main>", "<script>document.title='owned'</script></main>")
    seen = browser.open(page, "--dump-dom")
    assert "<title>Make it &lt;green&gt;</title>" in seen.stdout
    assert "Content Security Policy" in seen.stderr


@pytest.mark.parametrize("size", ["1300,1000", "390,844"])
def test_ten_thousand_events_can_be_looked_at(browser: Browser, tmp_path: Path, size: str) -> None:
    picture = tmp_path / "page.png"
    browser.open(exported("html", sample() * 400), f"--screenshot={picture}", f"--window-size={size}")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 10_000


def test_it_can_be_printed(browser: Browser, tmp_path: Path) -> None:
    browser.open(exported("html"), f"--print-to-pdf={tmp_path / 'page.pdf'}")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_and_a_summary_holds_no_link(
    chromium: Chromium, tmp_path: Path, dark: bool
) -> None:
    path = tmp_path / "page.html"
    path.write_text(exported("html", [*sample(), *hostile_lines()]), encoding="utf-8")
    page = chromium.page(1440, dark=dark).open(path.as_uri())
    page.until("document.querySelector('.scripted')")
    page.run("document.querySelectorAll('details').forEach(one => { one.open = true; }); 1")
    page.run(AXE + "; 1")
    for width in (1440, 900, 375):
        page.resize(width, 900)
        page.frames(2)
        found = page.run(  # how the headings of an agent's words follow each other is the agent's
            "axe.run(document, {resultTypes: ['violations'], rules: {'heading-order': {enabled: false}}}).then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.target.join(' ')).slice(0, 3)]))"
        )
        assert found == [], (width, found)
        assert page.leaving() == []
    assert page.run("document.querySelectorAll('summary :is(a, button, input)').length") == 0


def hostile_lines() -> list[bytes]:
    """Return events with text that wants to be something else."""
    return [json.dumps({"type": "agent.message", "content": text}).encode() for text in HOSTILE]


def test_a_long_page_is_whole_with_the_script_and_without_it(chromium: Chromium, tmp_path: Path) -> None:
    events = [{"type": "agent.message", "content": f"number {at} </noscript> end"} for at in range(1_000)]
    path = tmp_path / "long.html"
    path.write_text(exported("html", [json.dumps(event).encode() for event in events]), encoding="utf-8")
    page = chromium.page().open(path.as_uri() + "#e777")
    page.until(
        "document.getElementById('e777')?.getBoundingClientRect().top < 900", "the entry of the address"
    )
    page.until("document.querySelectorAll('.entry').length === 1000", "what waited")
    assert page.run("document.querySelector('.part > noscript')") is None
    texts = page.run("[...document.querySelectorAll('.entry .prose')].map(one => one.textContent.trim())")
    assert texts == [f"number {at} </noscript> end" for at in range(1_000)]
    assert page.problems == []
    without = chromium.page(script=False).open(path.as_uri())
    without.until(
        "document.querySelectorAll('.part > noscript > .entry').length === 800", "what needs no script"
    )
