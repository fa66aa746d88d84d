"""What tests tell at the end of a run, whichever worker they ran in."""

from collections.abc import Iterable

import pytest

RAN_AGAIN = "ran again, alone"
"""The property of a test that names a test of others that passed the second time only."""
UNSETTLED = "may fail or pass"
"""The property of a test that names a test of others whose result depends on the machine, and this result."""


def properties(reports: Iterable[object]) -> list[str]:
    """Return a line for each property of these two that a test has recorded."""
    return [
        f"{name}: {value}"
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name in (RAN_AGAIN, UNSETTLED)
    ]
