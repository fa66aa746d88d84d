import inspect
import os

import httpx2
import pytest
from hypothesis import settings

from tests.support.skips import told
from tests.support.told import properties
from tests.support.waiting import PATIENCE_SECONDS

# A request of a test waits for its answer as long as it takes: five seconds are short on a busy machine, and
# only a fault would use up this. All requests that name no timeout share the one default object.
_DEFAULT = inspect.signature(httpx2.Client.__init__).parameters["timeout"].default
_DEFAULT.connect = _DEFAULT.read = _DEFAULT.write = _DEFAULT.pool = PATIENCE_SECONDS

# Every run of one commit tries the same cases, so that it passes or fails for everybody. New cases are for
# `make soak`, where somebody is there to look at what they find.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("new", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_CASES", "same"))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test named after an address in memory: the workers of one run must collect the same names."""
    for item in items:
        assert " at 0x" not in item.nodeid, f"give the cases of {item.nodeid} ids of their own"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end what was skipped in all workers, which command would enable it, and what ran again."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = [
        str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in reports
    ]
    if reasons:
        terminalreporter.section("not tested", sep="-")
        for line in told(reasons):
            terminalreporter.write_line(line)
    lines = [line for found in terminalreporter.stats.values() for line in properties(found)]
    if lines:
        terminalreporter.section("tests of others", sep="-")
        for line in sorted(lines):
            terminalreporter.write_line(line)
