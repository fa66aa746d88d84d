"""A page of the documentation as its reader works through it: every block, in order, in one place.

Blocks of ``sh``, ``python`` and ``sql`` are run; others are text. What is special about a block stands
above it, in comments that a reader of the page does not see:

``<!-- shows: one | another -->``      its output has these texts
``<!-- shows the first time: one -->``  the same, unless the page was worked through before
``<!-- file: agent.py -->``            it is the content of a file
``<!-- runs until interrupted -->``    it is interrupted when it has shown that
``<!-- runs beside the next block -->``  the same, and the next block runs meanwhile
``<!-- runs until the page ends -->``  the same, and all blocks below it run meanwhile
``<!-- not run: why -->``

``make serve`` starts the server, on a port of its own, which is put in the place of the usual one, 4437. A
page that begins otherwise finds a server that runs, and ``ds`` and ``python`` on its path. A second server,
if a page wants one, is on a port from 4438 to 4442: each page has its own, which its reader may leave on.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from tests.support.process import ServerProcess, free_port

ROOT = Path(__file__).parents[2]
BLOCK_SECONDS_MAX = 120.0

_FENCED = re.compile(
    r"^(?P<remarks>(?:<!--.*?-->\n)*)```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
_REMARK = re.compile(r"<!-- (.*?) -->")
_BESIDE, _FOLLOWS, _NOT_RUN = "runs beside the next block", "runs until interrupted", "not run: "
_TO_THE_END = "runs until the page ends"
_SHOWS, _SHOWS_FIRST, _FILE = "shows: ", "shows the first time: ", "file: "
_KEEPS_VARIABLES = """\
set -euo pipefail
curl() { command curl --silent --show-error --fail-with-body "$@"; }
if [ -f .shell ]; then . ./.shell; fi
set -a
cd "$WALK"
"""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and what is said of it above."""

    page: Path
    line: int
    language: str
    text: str
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.name}, line {self.line}"

    @property
    def shows(self) -> list[str]:
        """Texts that its output must have."""
        return self._texts(_SHOWS)

    @property
    def shows_first(self) -> list[str]:
        """Texts that its output must have when the page is worked through for the first time."""
        return self._texts(_SHOWS_FIRST)

    def _texts(self, prefix: str) -> list[str]:
        said = self._said(prefix)
        return [] if said is None else [text.strip() for text in said.split(" | ")]

    @property
    def file(self) -> str | None:
        """Name of the file that it is the content of."""
        return self._said(_FILE)

    @property
    def is_run(self) -> bool:
        """Whether a reader of the page runs it."""
        runs = self.language in ("sh", "python", "sql")
        return runs and self.file is None and self._said(_NOT_RUN) is None

    @property
    def starts_server(self) -> bool:
        """Whether it is the server's own."""
        return self.text.strip() == "make serve"

    @property
    def is_beside(self) -> bool:
        """Whether it runs while the next block does."""
        return _BESIDE in self.remarks

    @property
    def is_beside_all(self) -> bool:
        """Whether it runs while all the blocks below it do."""
        return _TO_THE_END in self.remarks

    @property
    def is_endless(self) -> bool:
        """Whether somebody has to interrupt it."""
        return self.is_beside or self.is_beside_all or _FOLLOWS in self.remarks

    def _said(self, prefix: str) -> str | None:
        return next((said.removeprefix(prefix) for said in self.remarks if said.startswith(prefix)), None)


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page, in order; refuse a remark that means nothing."""
    text = page.read_text()
    for match in _FENCED.finditer(text):
        remarks = tuple(_REMARK.findall(match["remarks"]))
        for said in remarks:
            means = said in (_BESIDE, _TO_THE_END, _FOLLOWS)
            assert means or said.startswith((_SHOWS, _SHOWS_FIRST, _FILE, _NOT_RUN)), said
        line = text[: match.start("text")].count("\n")
        yield Block(page, line, match["language"], match["text"], remarks)


class Walk:
    """A folder with a virtual environment, a home, a server, and what the blocks so far have left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.server = ServerProcess(folder / "data")
        self._more_ports = {port: free_port() for port in ("4438", "4439", "4440", "4441", "4442")}
        self._programs = folder / ".venv" / "bin"
        self._is_set_up = True
        self._is_repeat = False
        self._pages: set[Path] = set()
        self._aside: tuple[Block, subprocess.Popen[bytes], Path] | None = None
        self._page_processes: list[subprocess.Popen[bytes]] = []
        self._database = duckdb.connect()
        self._database.execute(f"set file_search_path = '{folder}'")
        self._install()
        self._own = {"data", "data.stderr", *(path.name for path in folder.iterdir())}

    @property
    def left(self) -> list[str]:
        """Names of what the reader's work has left in the clone, beside the data of the server."""
        names = (path.name + "/" * path.is_dir() for path in self.folder.iterdir())
        return sorted(name for name in names if name.strip("/") not in self._own and name[0] != ".")

    def run(self, page: Path) -> int:
        """Do what a page says, and return how many blocks were run."""
        count = 0
        self._is_repeat = page in self._pages
        self._pages.add(page)
        every = list(blocks(page))
        first = next((block for block in every if block.is_run), None)
        self._is_set_up = first is None or not first.starts_server
        self._serve(begins=True)
        try:
            for block in every:
                if block.file is not None:
                    (self.folder / block.file).write_text(self._here(block.text))
                    if block.language != "python":  # of a service: a reader has it in another place
                        self._own.add(block.file)
                elif block.is_run:
                    if not (block is first and block.starts_server):
                        self._run(block)
                    count += 1
        finally:
            self._end_page_processes()
        assert self._aside is None, f"{self._aside}: there is no next block"
        return count

    def _run(self, block: Block) -> None:
        if block.starts_server:
            self._serve(begins=False)
            return
        if block.language == "sql":
            self._check(block, str(self._database.sql(block.text)))
            return
        if block.is_endless:
            aside = (block, *self._spawn(block))
            if block.is_beside_all:
                self._page_processes.append(aside[1])
                self._wait_until_shown(*aside)
            elif block.is_beside:
                assert self._aside is None, f"{block}: two at a time"
                self._aside = aside
            else:
                self._finish(*aside)
            return
        process, output = self._spawn(block)
        try:
            status = process.wait(BLOCK_SECONDS_MAX)
        finally:
            _end(process)
        assert status == 0, f"{block} ended with {status}:\n{output.read_text()}"
        self._check(block, output.read_text())
        if self._aside is not None:
            aside, self._aside = self._aside, None
            self._finish(*aside)

    def _serve(self, *, begins: bool) -> None:
        """Start the server; at the beginning of a page it may be running, later a block has ended it."""
        process = self.server.process
        if process is not None and begins and process.poll() is None:
            return
        if process is not None:
            process.wait(BLOCK_SECONDS_MAX)
        self.server.start()

    def _spawn(self, block: Block) -> tuple["subprocess.Popen[bytes]", Path]:
        script = self.folder / f".{block.page.stem}-{block.line}"
        output = script.with_name(script.name + ".output")
        text = self._here(block.text)
        if block.language == "sh":
            keep = "" if block.is_endless else "\nexport -p > .shell\n"
            script.write_text(_KEEPS_VARIABLES + text + keep)
        else:
            script.write_text(text)
        program = "bash" if block.language == "sh" else str(self._programs / "python")
        with output.open("wb") as out:
            process = subprocess.Popen(
                [program, str(script)],
                cwd=self.folder,
                env=self._variables,
                stdout=out,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        return process, output

    def _finish(self, block: Block, process: "subprocess.Popen[bytes]", output: Path) -> None:
        """Wait until an endless block has shown what it should, and interrupt it."""
        try:
            self._wait_until_shown(block, process, output)
        finally:
            _end(process)

    def _wait_until_shown(self, block: Block, process: "subprocess.Popen[bytes]", output: Path) -> None:
        deadline = time.monotonic() + BLOCK_SECONDS_MAX
        while True:
            may_go_on = process.poll() is None and time.monotonic() < deadline
            shown = output.read_text()
            if all(self._here(text) in shown for text in block.shows):
                return
            assert may_go_on, f"{block} shows only:\n{shown}"
            time.sleep(0.02)

    def _end_page_processes(self) -> None:
        while self._page_processes:
            _end(self._page_processes.pop())

    def _check(self, block: Block, output: str) -> None:
        for text in [*block.shows, *([] if self._is_repeat else block.shows_first)]:
            assert text in output, f"{block} does not show {text!r} but:\n{output}"

    def _here(self, text: str) -> str:
        ports = {"4437": self.server.port, **self._more_ports}
        return re.sub(r"\b(?:443[789]|444[012])\b", lambda port: str(ports[port[0]]), text)

    def _install(self) -> None:
        self._programs.mkdir(parents=True)
        for name, options in {
            "python": "",
            "ds": "-m durable_sessions",
            "durable-sessions": "-m durable_sessions",
        }.items():
            program = self._programs / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} {options} "$@"\n')
            program.chmod(0o755)
        shutil.copytree(
            ROOT / "examples", self.folder / "examples", ignore=shutil.ignore_patterns("__pycache__")
        )

    @property
    def _variables(self) -> dict[str, str]:
        """The environment of somebody who has just logged in."""
        search = (str(self._programs), os.environ["PATH"]) if self._is_set_up else (os.environ["PATH"],)
        return {
            "HOME": str(self.home),
            "WALK": str(self.folder),
            "PATH": os.pathsep.join(search),
            "PYTHONPATH": str(ROOT / "src"),
            "LANG": "C.UTF-8",
            "DURABLE_SESSIONS_URL": self.server.url,
        }

    def __enter__(self) -> "Walk":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        if self._aside is not None:
            _end(self._aside[1])
        self._end_page_processes()
        self.server.__exit__()


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a block and all that it has started."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue
    process.wait(5)
