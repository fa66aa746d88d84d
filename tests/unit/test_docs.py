"""Documented or red: the reference is what the code says, and nothing names what does not exist."""

import ast
import re
from pathlib import Path

import pytest
from tools import client_events, reference

from durable_sessions import settings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "durable_sessions"
PAGES = [
    *ROOT.glob("*.md"),
    *(page for folder in ("docs", "examples", "deploy", "bench") for page in ROOT.glob(f"{folder}/**/*.md")),
]
WRITTEN = [page for page in PAGES if page.parent.name != "reference"]
PROSE_COLUMNS_MAX = 120


REFERENCES = ["api.md", "errors.md", "events.md", "limits.md", "metrics.md", "settings.md"]


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_pages_are_current(name: str) -> None:
    assert (reference.FOLDER / name).read_text() == reference.pages()[name], "run: python -m tools.reference"


def test_the_types_of_events_for_the_client_are_current() -> None:
    assert client_events.MODULE.read_text() == client_events.client_module(), "run: python -m tools.reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_tests_that_pages_name_exist(page: Path) -> None:
    for target in re.findall(r"`((?:src|tests|docs|bench|tools|examples)/[\w./-]+)`", page.read_text()):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_metrics_that_pages_name_exist(page: Path) -> None:
    known = set(re.findall(r"`(durable_sessions_\w+)`", reference.pages()["metrics.md"]))
    for name in re.findall(r"\bdurable_sessions_\w+", page.read_text()):
        assert re.sub(r"_(bucket|count|sum)$", "", name) in known, name


def test_settings_that_pages_show_are_taken(tmp_path: Path) -> None:
    shown = [text for page in PAGES for text in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)]
    assert len(shown) > 2
    for number, text in enumerate(shown):
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        settings.load({}, {}, file)


def test_the_six_figures_that_open_the_benchmarks_are_from_the_report_below() -> None:
    opening, _, rest = (ROOT / "docs" / "benchmarks.md").read_text().partition("<!-- report:")
    report = rest.partition("<!-- end of the report -->")[0]
    table = opening[: opening.index("\n## ")]
    rows = re.findall(r"^\| (How .+) \|$", table, re.MULTILINE)
    assert len(rows) == 6
    for row in rows:
        assert re.search(r"\| \*\*[\d,.]+\*\* \S+", row), row
        for figure in re.findall(r"\d[\d,]*\.\d+|\d+,[\d,]*\d", row):
            assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d,]|\.\d)", report), figure


def prose(page: Path) -> list[str]:
    """Return the lines of a page that people read as text: no code, no table, no comment, no report."""
    text = re.sub(r"<!-- report:.*?<!-- end of the report -->", "", page.read_text(), flags=re.DOTALL)
    text = re.sub(r"^ *```.*?^ *```$|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for line in text.splitlines() if not line.startswith("|")]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_is_wrapped(page: Path) -> None:
    assert [line for line in prose(page) if len(line) > PROSE_COLUMNS_MAX] == []


def test_messages_of_errors_are_wrapped() -> None:
    lines = (SOURCE / "errors.py").read_text().splitlines()
    assert [line for line in lines if len(line) > PROSE_COLUMNS_MAX] == []


def defined(module: Path, name: str) -> bool:
    """Say whether a module defines a function, or a class a method, of this name."""
    body = ast.parse(module.read_text()).body
    *outer, function = name.split(".")
    for part in outer:
        body = next((one.body for one in body if isinstance(one, ast.ClassDef) and one.name == part), [])
    return any(
        isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.name == function for one in body
    )


def test_behaviours_are_where_the_guide_for_contributors_says() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text.partition("## Where to find it\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 31
    for row in rows:
        places = re.findall(r"`([\w/]+\.py)`: `([\w.]+)`", row)
        assert places, row
        for file, function in places:
            assert defined(SOURCE / file, function), f"{file}: {function}"


def test_the_guide_for_contributors_names_every_package() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text.partition("## The rooms")[2].partition("\n## ")[0]
    named = {
        name.partition("/")[0]
        for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
        for name in re.findall(r"`([\w/]+)`", row)
    }
    packages = {file.parent.name for file in SOURCE.glob("*/__init__.py")}
    assert packages <= named, packages - named
    for name in named:
        assert (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").exists(), name


def test_a_place_that_is_gone_is_found() -> None:
    assert defined(SOURCE / "storage" / "turns.py", "Turn.rest")
    assert not defined(SOURCE / "storage" / "turns.py", "Turn.gone")
    assert not defined(SOURCE / "storage" / "turns.py", "rest")
