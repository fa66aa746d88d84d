"""A real browser, and a site of somebody else for it to visit: what its pages find out, they report there."""

import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# The shell without windows first: a page costs it a fifth of the time that a whole browser takes.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
MISSING = (
    "NO CHROMIUM: no page was tried in a browser. Install it, with apt-get install chromium-headless-shell or "
    "brew install --cask chromium, and run pytest tests/browser."
)
REPORT_SECONDS_MAX = 180.0
_QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-popup-blocking",
)


class Browser:
    """Opens pages; names are made to mean this machine, as an attacker's name server would."""

    def __init__(self, folder: Path, *names: str) -> None:
        self._folder = folder
        self._rules = ", ".join(f"MAP {name} 127.0.0.1" for name in names) or "MAP nowhere.invalid 127.0.0.1"
        self._profiles = 0

    def _command(self, *options: str) -> list[str]:
        self._profiles += 1
        profile = self._folder / f"profile-{self._profiles}"
        rules = f"--host-resolver-rules={self._rules}"
        return [str(CHROMIUM), *_QUIET, rules, f"--user-data-dir={profile}", *options]

    def shown(self, url: str) -> str:
        """Return the document that a person sees in the end who types this address."""
        command = self._command("--virtual-time-budget=10000", "--dump-dom", url)
        deadline = time.monotonic() + REPORT_SECONDS_MAX
        while True:
            seen = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=REPORT_SECONDS_MAX
            )
            # Nothing at all is what Chromium shows while it goes from one page to the next.
            if seen.stdout or time.monotonic() > deadline:
                return seen.stdout

    @contextmanager
    def visiting(self, url: str) -> Iterator[None]:
        """Have a page open."""
        process = subprocess.Popen(
            self._command("--remote-debugging-port=0", url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the group is this browser's own
            process.wait(60)


class Site:
    """Serves pages on a port of its own, and takes reports at ``/report``."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, str]] = {}
        self.reports: queue.Queue[Any] = queue.Queue()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/report":
                    site.reports.put(self.path.partition("?")[2])
                kind, text = site.pages.get(path, ("text/plain", ""))
                self._answer(kind, text)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/report":
                    site.reports.put(json.loads(body))
                self._answer("text/plain", "")

            def _answer(self, kind: str, text: str) -> None:
                data = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class has it
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def report(self) -> Any:
        """Wait for what a page reports."""
        return self.reports.get(timeout=REPORT_SECONDS_MAX)

    def __enter__(self) -> "Site":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
