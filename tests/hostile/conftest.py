from collections.abc import Iterator

import httpx2
import pytest

from tests.hostile.arena import LIMITS, SETTINGS, Arena
from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def limits() -> dict[str, float]:
    """What a module's server has for limits beside the usual ones."""
    return {}


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, limits: dict[str, float]) -> Iterator[Arena]:
    data = tmp_path_factory.mktemp("hostile") / "data"
    with ServerProcess(data, *SETTINGS, limits={**LIMITS, **limits}) as server:
        # So that its connection to the process that searches is there before sockets are counted.
        assert httpx2.get(f"{server.url}/v1/search?q=nothing", timeout=PATIENCE_SECONDS).status_code == 200
        yield Arena(server)
        assert server.terminate() == 0
