"""LangGraph's own tests of its engine, with our saver in the place of the SQLite ones."""

import json
import os
import subprocess
import sys
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

VECTORS = "ranks by embeddings, and ours by words"
STORE_EXPECTED = {
    **dict.fromkeys(
        (
            "test_vector_store_initialization",
            "test_vector_search_with_filters",
            "test_embed_with_path",
            "test_embed_with_path_operation_config",
            "test_scores",
        ),
        VECTORS,
    ),
    "test_nonnull_migrations": "looks into the SQL of migrations",
    "test_sql_injection_vulnerability": "wants names refused that would be SQL: here they are names",
    "test_no_running_loop": "wants sync calls refused in an event loop: these block it, as any sync client",
}
STORE_LEFT_OUT = {
    "test_async_store.py::test_large_batches_async": "5,000 calls at once, which theirs joins into one"
}


def test_the_tests_of_the_engine_pass_with_our_saver(shared: BackgroundServer, tmp_path: Path) -> None:
    folder = upstream.sources("langgraph", tmp_path)
    options = ["-k", "sqlite", "-n", "2", "-p", "no:asyncio"]
    passed = upstream.run(folder, FILES, "langgraph", shared.url, expected={}, left_out={}, options=options)
    assert passed >= 300


def test_the_suite_for_checkpointers_passes_as_it_is_in_their_repository(
    shared: BackgroundServer, tmp_path: Path
) -> None:
    """It has tests of delta channels there, which no release of the suite has yet."""
    folder = upstream.commit("langchain-ai/langgraph", "libs/checkpoint-conformance", tmp_path)
    program = Path(__file__).parent / "plugins" / "langgraph_suite.py"
    environment = {**os.environ, "PYTHONPATH": str(folder), "ADAPTER_SERVER": shared.url}
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    report = json.loads(done.stdout)
    assert report["from"].startswith(str(folder))
    assert report["failures"] == []
    assert report["passed"] == 89


STORE_FILES = ["tests/test_store.py", "tests/test_async_store.py"]


def test_the_tests_of_the_sqlite_stores_pass_with_our_store(shared: BackgroundServer, tmp_path: Path) -> None:
    folder = upstream.sources("langgraph-checkpoint-sqlite", tmp_path)
    passed = upstream.run(
        folder,
        STORE_FILES,
        "langgraph_store",
        shared.url,
        expected=STORE_EXPECTED,
        left_out=STORE_LEFT_OUT,
        options=["-p", "no:anyio", "-o", "asyncio_mode=auto"],
    )
    assert passed >= 60
