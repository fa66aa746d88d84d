from pathlib import Path

import pytest

from tests.support.shim import Shim, compile_shim
from tests.support.trial import plans

SECONDS = 2.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every trial its plan: one by default, many in a soak."""
    if "plan" in metafunc.fixturenames:
        metafunc.parametrize("plan", plans(SECONDS), ids=lambda plan: f"seed{plan.seed}")


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def shim(shim_library: Path, tmp_path: Path) -> Shim:
    """Faults in the data directory ``tmp_path / "data"``."""
    return Shim(shim_library, tmp_path / "control", tmp_path / "data")
