"""Test cases that every implementation of ``durable_sessions.log.Log`` must pass.

Derive a harness from :class:`LogHarness` that opens your log and makes it fail on request, and run every
case with a new instance of it, for example with pytest and anyio::

    @pytest.mark.parametrize("case", log_suite.CASES, ids=str)
    async def test_my_log(case: log_suite.LogCase) -> None:
        await case.check(MyHarness())

Name a case that cannot apply to your log in ``LogHarness.inapplicable``, with the reason; no case is
skipped silently.
"""

from durable_sessions.testing.log_suite.cases import CASES
from durable_sessions.testing.log_suite.harness import LogCase, LogHarness, LogSuiteError

__all__ = ["CASES", "LogCase", "LogHarness", "LogSuiteError"]
