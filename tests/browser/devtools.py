"""A browser that tests drive and look into, over the DevTools protocol and a pair of pipes: no library is needed."""

import base64
import contextlib
import fcntl
import itertools
import json
import os
import queue
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from tests.browser.browsing import CHROMIUM
from tests.support.waiting import PATIENCE_SECONDS

_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars=false",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--remote-debugging-pipe",
)


def _pipe() -> tuple[int, int]:
    """Return a pipe whose descriptors are not 3 or 4, which are the browser's ends."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


# Texts that are wider than what they stand in may be cut with an ellipsis or scrolled, but never leave the window.
_LEAVING = """(() => {
  const cuts = (one) => one && one !== document.body && (getComputedStyle(one).overflowX !== 'visible' || cuts(one.parentElement));
  const found = document.documentElement.scrollWidth > innerWidth ? ['the page is wider than its window'] : [];
  for (const one of document.querySelectorAll('body *')) {
    const box = one.getBoundingClientRect();
    if (!box.width || one.closest('.visually-hidden, .skip') || ![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    if ((box.right > innerWidth + 1 || box.left < -1) && !cuts(one)) found.push(one.textContent.trim().slice(0, 60));
  }
  return found;
})()"""


class PageError(AssertionError):
    """A script in the page has failed."""


class Chromium:
    """A running browser; each page is a context of its own, with no cookies of another."""

    def __init__(self, folder: Path, *options: str) -> None:
        ours_read, theirs_write = _pipe()
        theirs_read, ours_write = _pipe()
        command = [str(CHROMIUM), *_OPTIONS, *options, f"--user-data-dir={folder / 'profile'}"]

        def wire() -> None:
            os.dup2(theirs_read, 3)
            os.dup2(theirs_write, 4)

        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=wire,  # noqa: PLW1509  # the browser speaks on descriptors 3 and 4
            close_fds=False,
            start_new_session=True,
        )
        os.close(theirs_read)
        os.close(theirs_write)
        self._write = ours_write
        self._read = ours_read
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._contexts: list[str] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        rest = b""
        while True:
            try:
                chunk = os.read(self._read, 1 << 20)
            except OSError:
                return
            if not chunk:
                return
            *messages, rest = (rest + chunk).split(b"\0")
            for text in messages:
                message = json.loads(text)
                if "id" in message:
                    self._answers.pop(message["id"]).put(message)
                elif (page := self._pages.get(message.get("sessionId", ""))) is not None:
                    page.told(message["method"], message["params"])

    def send(self, method: str, session: str | None = None, **params: Any) -> Any:
        """Send a command and return its result."""
        number = next(self._numbers)
        answer = self._answers[number] = queue.Queue()
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        told = answer.get(timeout=PATIENCE_SECONDS)
        if "error" in told:
            raise PageError(f"{method}: {told['error']['message']}")
        return told["result"]

    def page(
        self, width: int = 1300, height: int = 900, *, dark: bool = False, script: bool = True
    ) -> "Page":
        """Open an empty page in a context of its own."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        self._contexts.append(context)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        page.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        page.send("Emulation.setEmulatedMedia", features=scheme)
        if not script:
            page.send("Emulation.setScriptExecutionDisabled", value=True)
        return page

    def close_pages(self) -> None:
        """Close every page with its context; what is still under way in them ends."""
        self._pages.clear()
        while self._contexts:
            self.send("Target.disposeBrowserContext", browserContextId=self._contexts.pop())

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # the group is this browser's own
        self._process.wait(60)
        os.close(self._write)
        self._thread.join(60)
        os.close(self._read)


class Page:
    """One page. ``problems`` are errors of its scripts and of its policy, ``requests`` what it has asked for."""

    def __init__(self, browser: Chromium, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self.target = target
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []

    def told(self, method: str, params: dict[str, Any]) -> None:
        """Note what the browser tells of the page."""
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(str(details.get("exception", {}).get("description", details["text"])))
        elif method == "Log.entryAdded":
            entry = params["entry"]
            is_status = (
                entry["source"] == "network"
            )  # an answer that is an error, which pages show themselves
            if entry["level"] == "error" and not is_status:
                self.problems.append(entry["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])

    def send(self, method: str, **params: Any) -> Any:
        """Send a command to the page."""
        return self._browser.send(method, self._session, **params)

    def resize(self, width: int, height: int) -> None:
        """Give the page another size."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def open(self, url: str) -> "Page":
        """Go to an address."""
        self.send("Page.navigate", url=url)
        return self

    def run(self, script: str) -> Any:
        """Return the value of an expression; a promise is awaited."""
        told = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            details = told["exceptionDetails"]
            raise PageError(str(details.get("exception", {}).get("description", details["text"])))
        return told["result"].get("value")

    def until(self, script: str, what: str = "") -> Any:
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with contextlib.suppress(PageError):  # the page is going elsewhere
                if value := self.run(f"(found => found instanceof Node ? true : found)({script})"):
                    return value
            if time.monotonic() > deadline:
                seen = self.run("document.body.innerText.slice(0, 2000)")
                raise PageError(f"{what or script} never came; problems: {self.problems}; seen: {seen}")
            time.sleep(0.03)

    def sees(self, text: str) -> None:
        """Wait until a text is in the page."""
        self.until(f"document.body.innerText.includes({json.dumps(text)})", text)

    def click(self, selector: str) -> None:
        """Click the first element that a selector finds, once it is there."""
        self.until(f"document.querySelector({json.dumps(selector)}) !== null", selector)
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoViewIfNeeded?.(); "
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, key: str, *, ctrl: bool = False) -> None:
        """Press a key."""
        codes = {
            "Enter": 13,
            "Tab": 9,
            "Escape": 27,
            "ArrowDown": 40,
            "ArrowUp": 38,
            "ArrowLeft": 37,
            "ArrowRight": 39,
            "Home": 36,
            "End": 35,
        }
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 and not ctrl else "")
        about = {
            "key": key,
            "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper())),
            "modifiers": 2 if ctrl else 0,
        }
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **about)
        self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.send("Input.insertText", text=text)

    def wheel(self, pixels: int, x: int = 300, y: int = 400) -> None:
        """Turn the wheel."""
        self.send("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=pixels)

    def frames(self, count: int = 2) -> None:
        """Wait until so many frames were drawn."""
        self.run(
            f"new Promise(done => {{ let n = {count}; const f = () => n-- > 0 ? requestAnimationFrame(f) : done(1); f() }})"
        )

    def leaving(self) -> list[str]:
        """Return the texts that leave the window."""
        return list(self.run(_LEAVING))

    def picture(self, path: Path) -> None:
        """Take a picture."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def pdf(self) -> bytes:
        """Print the page."""
        return base64.b64decode(self.send("Page.printToPDF", preferCSSPageSize=True)["data"])
