"""LangGraph's own tests of its engine, with our saver in the place of the SQLite ones."""

from pathlib import Path

from durable_sessions.testing import BackgroundServer
from tests.adapters import upstream

upstream.needed("langgraph")

FILES = [
    f"tests/test_{name}.py"
    for name in (
        "pregel_async",
        "large_cases_async",
        "time_travel",
        "time_travel_async",
        "subgraph_persistence",
        "subgraph_persistence_async",
    )
]


def test_the_tests_of_the_engine_pass_with_our_saver(shared: BackgroundServer, tmp_path: Path) -> None:
    folder = upstream.sources("langgraph", tmp_path)
    options = ["-k", "sqlite", "-n", "2", "-p", "no:asyncio"]
    passed = upstream.run(folder, FILES, "langgraph", shared.url, expected={}, left_out={}, options=options)
    assert passed >= 300
