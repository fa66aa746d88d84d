"""Documented or red: the reference is what the code says, and nothing names what does not exist."""

import re
from pathlib import Path

import pytest
from tools import reference

from durable_sessions import settings

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


@pytest.mark.parametrize("name", ["api.md", "errors.md", "limits.md", "metrics.md", "settings.md"])
def test_reference_pages_are_current(name: str) -> None:
    assert (reference.FOLDER / name).read_text() == reference.pages()[name], "run: python -m tools.reference"


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
