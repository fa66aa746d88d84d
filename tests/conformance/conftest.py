"""Outside witnesses: the public conformance suite and the official clients, unmodified."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.npm import installed
from tests.support.process import ServerProcess

HERE = Path(__file__).parent / "node"


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Return a folder with the pinned packages, the suite and the client."""
    programs = ("server.test.mjs", "vitest.config.mjs", "client.mjs")
    return installed(HERE, "conformance", *programs, missing="the public conformance suite")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", "--long-poll-seconds", "1") as running:
        yield running
