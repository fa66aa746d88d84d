"""What every log has to show, as cases that an implementation of ``durable_sessions.log.Log`` passes.

Derive a harness from :class:`LogHarness`, which says how your log is opened and how it is made to fail, and
run every case on a new one, for example with pytest and anyio::

    @pytest.mark.parametrize("case", log_suite.CASES, ids=str)
    async def test_my_log(case: log_suite.LogCase) -> None:
        await case.check(MyHarness())

A case that cannot apply to a log is named in ``LogHarness.inapplicable`` with the reason; none is left out
silently.
"""

from durable_sessions.testing.log_suite.cases import CASES
from durable_sessions.testing.log_suite.harness import LogCase, LogHarness, LogSuiteError

__all__ = ["CASES", "LogCase", "LogHarness", "LogSuiteError"]
