"""Every example in the pages on adapters runs, twice, if its framework is installed."""

import re
from pathlib import Path

import pytest

from durable_sessions import Client
from durable_sessions.testing import BackgroundServer
from tests.adapters import upstream
from tests.integration.test_sdk_docs import FENCED, NOT_RUN, run
from tests.support.installed import EXTRAS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGES = {
    "claude": "claude-agent-sdk",
    "langgraph": "langgraph-checkpoint",
    "openai": "openai-agents",
    "pydantic-ai": "pydantic-ai-slim",
    "adk": "google-adk",
    "agent-framework": "agent-framework-core",
}
PAGES = sorted(DOCS.glob("adapters/*.md"))


def test_every_adapter_has_a_page_in_the_overview() -> None:
    overview = (DOCS / "adapters.md").read_text()
    assert {page.stem for page in PAGES} == set(PACKAGES)
    assert set(re.findall(r"\(adapters/([\w-]+)\.md\)", overview)) == set(PACKAGES)


def test_the_table_of_releases_says_what_is_admitted_and_tested() -> None:
    table, lock = (DOCS / "adapters.md").read_text(), (ROOT / "requirements-adapters.lock").read_text()
    said = re.findall(r"^\| `([\w-]+)` \| `([^`]+)` \| ([\d.]+) \|$", table, re.MULTILINE)
    pins = dict(re.findall(r"^([\w-]+)==([\d.]+)", lock, re.MULTILINE))
    assert {package for package, _, _ in said} == set(PACKAGES.values())
    admitted = {"claude-agent-sdk": ">=0.1.68"}  # it has no extra, since nothing of it is imported
    for one in (requirement for extra in EXTRAS.values() for requirement in extra):
        package, sign, release = one.partition(">=")
        admitted[package] = sign + release
    for package, releases, tested in said:
        assert (releases, tested) == (admitted[package], pins[package]), package


def test_an_activity_that_is_tried_again_stores_nothing_twice(
    shared: BackgroundServer, sdk: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = DOCS / "adapters.md"
    monkeypatch.setenv("DURABLE_SESSIONS_URL", shared.url)
    text = page.read_text()
    [example] = FENCED.finditer(text)
    run(example[1], tmp_path, page, text[: example.start(1)].count("\n"))
    assert [event.text for event in sdk.session("refund-42").events()] == ["I have drafted the answer."]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(
    page: Path, shared: BackgroundServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.needed(PACKAGES[page.stem])
    monkeypatch.setenv("DURABLE_SESSIONS_URL", shared.url)
    text = page.read_text()
    examples = [match for match in FENCED.finditer(text) if not NOT_RUN.search(text[: match.start()])]
    assert examples
    for _ in range(2):
        for match in examples:
            run(match[1], tmp_path, page, text[: match.start(1)].count("\n"))
