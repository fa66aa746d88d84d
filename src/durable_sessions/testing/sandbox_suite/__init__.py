"""Test cases that every implementation of ``durable_sessions.sandbox.Backend`` must pass.

Derive a harness from :class:`SandboxHarness` that opens sandboxes and can make one disappear, and run every
case with a new instance of it, for example with pytest::

    @pytest.mark.parametrize("case", sandbox_suite.CASES, ids=str)
    def test_my_backend(case: sandbox_suite.SandboxCase) -> None:
        case.check(MyHarness())

Name a case that cannot apply to your backend in ``SandboxHarness.inapplicable``, with the reason; no case is
skipped silently. The commands of the cases need a POSIX shell on Linux.
"""

from durable_sessions.testing.sandbox_suite.cases import CASES
from durable_sessions.testing.sandbox_suite.harness import SandboxCase, SandboxHarness, SandboxSuiteError

__all__ = ["CASES", "SandboxCase", "SandboxHarness", "SandboxSuiteError"]
