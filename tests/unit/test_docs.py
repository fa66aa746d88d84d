"""Documented or red: the reference is what the code says, and nothing names what does not exist."""

import re
from pathlib import Path

import pytest
from tools import reference

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
    for target in re.findall(r"`((?:src|tests|docs|bench|tools)/[\w./-]+)`", page.read_text()):
        assert (ROOT / target).exists(), target
