"""Every example in the pages on adapters runs, twice, if its framework is installed."""

import re
from pathlib import Path

import pytest

from durable_sessions.testing import BackgroundServer
from tests.adapters import upstream
from tests.integration.test_sdk_docs import FENCED, NOT_RUN, run

DOCS = Path(__file__).parents[2] / "docs"
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
