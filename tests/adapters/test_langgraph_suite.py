"""LangGraph's own tests of its engine, with our saver in the place of the SQLite ones."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from durable_sessions.testing import BackgroundServer
from tests.adapters import upstream

upstream.needed("langgraph")

SYNC = ("pregel", "large_cases", "time_travel", "subgraph_persistence")
ASYNC = tuple(f"{name}_async" for name in SYNC)

VECTORS = "ranks by embeddings, and ours by words"
NAMES = "wants names refused that would be SQL: here they are names"
BLOCKS = "wants sync calls refused in an event loop: these block it, as any sync client"
STORE_FAILING = {
    **dict.fromkeys(
        (
            "tests/test_async_store.py::test_embed_with_path",
            "tests/test_async_store.py::test_vector_store_initialization",
            "tests/test_store.py::test_embed_with_path[cosine]",
            "tests/test_store.py::test_embed_with_path_operation_config[cosine]",
            "tests/test_store.py::test_vector_search_with_filters[cosine]",
            "tests/test_store.py::test_vector_store_initialization",
            *(
                f"tests/test_store.py::test_scores[{place}-{query}]"
                for place in ("file", "memory")
                for query in ("aaa", "abcd", "bbb", "ccc", "poisson")
            ),
        ),
        VECTORS,
    ),
    "tests/test_async_store.py::test_no_running_loop[file]": BLOCKS,
    "tests/test_async_store.py::test_no_running_loop[memory]": BLOCKS,
    "tests/test_store.py::test_nonnull_migrations": "looks into the SQL of migrations",
    "tests/test_store.py::test_sql_injection_vulnerability[file]": NAMES,
    "tests/test_store.py::test_sql_injection_vulnerability[memory]": NAMES,
}
STORE_LEFT_OUT = {
    "tests/test_async_store.py::test_large_batches_async": (
        "5,000 calls at once, which theirs joins into one; these are 5,000 requests"
    )
}


@pytest.mark.parametrize(("names", "passing"), [(SYNC, 425), (ASYNC, 199)], ids=["sync", "async"])
def test_the_tests_of_the_engine_pass_with_our_saver(
    names: tuple[str, ...],
    passing: int,
    shared: BackgroundServer,
    tmp_path: Path,
    record_property: upstream.Record,
) -> None:
    suite = upstream.Suite(upstream.sources("langgraph", tmp_path), "langgraph", shared.url, record_property)
    files = [f"tests/test_{name}.py" for name in names]
    suite.check(files, passing=passing, failing={}, options=["-k", "sqlite", "-n", "2", "-p", "no:asyncio"])


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


def test_the_tests_of_the_sqlite_stores_pass_with_our_store(
    shared: BackgroundServer, tmp_path: Path, record_property: upstream.Record
) -> None:
    folder = upstream.sources("langgraph-checkpoint-sqlite", tmp_path)
    upstream.Suite(folder, "langgraph_store", shared.url, record_property).check(
        STORE_FILES,
        passing=119,
        failing=STORE_FAILING,
        left_out=STORE_LEFT_OUT,
        options=["-p", "no:anyio", "-o", "asyncio_mode=auto"],
    )
