"""One browser and one server for all tests of the page; each test has a page and sessions of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.browser.browsing import CHROMIUM
from tests.browser.devtools import Chromium, Page
from tests.support.process import ServerProcess

OpenPage = Callable[..., Page]


@pytest.fixture(scope="package")
def running_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    assert CHROMIUM is not None, "tests of pages are skipped without a browser"
    browser = Chromium(tmp_path_factory.mktemp("chromium"))
    try:
        yield browser
    finally:
        browser.close()


@pytest.fixture
def chromium(running_browser: Chromium) -> Iterator[Chromium]:
    """The browser; its pages are closed after the test, since each open one costs two processes."""
    yield running_browser
    running_browser.close_pages()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, timeout=120) as opened:
        yield opened


@pytest.fixture
def opened(chromium: Chromium, server: ServerProcess) -> OpenPage:
    """Open an address of the server in a new page."""

    def open_page(path: str, width: int = 1300, height: int = 900, *, dark: bool = False) -> Page:
        return chromium.page(width, height, dark=dark).open(server.url + path)

    return open_page


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
