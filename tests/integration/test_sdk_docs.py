"""Every example in the pages on the client and on placement runs."""

import asyncio
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durable_sessions.testing import BackgroundServer, server

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "sdk.md", DOCS / "placement.md"]
FENCED = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"<!-- not run: .*-->\n$")


def examples() -> Iterator[Any]:
    for page in PAGES:
        text = page.read_text()
        for match in FENCED.finditer(text):
            if NOT_RUN.search(text[: match.start()]):
                continue
            line = text[: match.start(1)].count("\n")
            yield pytest.param(match[1], page, line, id=f"{page.stem}-line{line}")


EXAMPLES = list(examples())


README = DOCS.parent / "README.md"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    """A server on which the example of the README was run before."""
    with server(tmp_path_factory.mktemp("data")) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DURABLE_SESSIONS_URL", running.url)
        run(readme_example(), tmp_path_factory.mktemp("readme"))
        yield running


def readme_example() -> str:
    example = FENCED.search(README.read_text())
    assert example is not None
    return example[1]


def run(example: str, folder: Path, page: Path = README, line: int = 0) -> None:
    """Run an example, and the tests that it defines."""
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile("\n" * line + example, str(page), "exec"), names)
    for name, value in list(names.items()):
        if name.startswith("test_"):
            outcome = value(folder)
            if inspect.iscoroutine(outcome):
                asyncio.run(outcome)


def test_the_example_of_the_readme_may_run_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with server(tmp_path) as alone:
        monkeypatch.setenv("DURABLE_SESSIONS_URL", alone.url)
        for _ in range(2):
            run(readme_example(), tmp_path)
            shown = [line for line in capsys.readouterr().out.splitlines() if "message" in line]
            assert shown == ["user.message Make it green.", "agent.message On it."]


@pytest.mark.parametrize(("example", "page", "line"), EXAMPLES)
def test_example_runs_after_that_of_the_readme_and_again(
    example: str,
    page: Path,
    line: int,
    running: BackgroundServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DURABLE_SESSIONS_URL", running.url)
    for time in ("first", "second"):
        folder = tmp_path / time
        folder.mkdir()
        run(example, folder, page, line)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 10
