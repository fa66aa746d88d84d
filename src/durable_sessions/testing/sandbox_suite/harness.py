"""The harness that connects a backend to the suite, and the cases that are checked with it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from durable_sessions.sandbox import Sandbox, SandboxError, SandboxSpec


class SandboxSuiteError(AssertionError):
    """A backend failed a case, or its harness lacks what the case needs."""


class SandboxHarness:
    """Opens sandboxes of one backend. ``inapplicable`` maps the names of cases that cannot apply to reasons.

    ``can_suspend`` says whether its sandboxes can be suspended.
    """

    inapplicable: ClassVar[Mapping[str, str]] = {}
    can_suspend: ClassVar[bool] = False

    def open(self, spec: SandboxSpec) -> Sandbox:
        """Open a sandbox."""
        raise NotImplementedError

    def lose(self, sandbox: Sandbox) -> None:
        """Make a sandbox disappear behind the back of its owner."""
        raise NotImplementedError

    def close(self) -> None:
        """Release all resources of the harness itself."""


@dataclass(frozen=True, slots=True)
class SandboxCase:
    """One property that a backend must have."""

    name: str
    run: Callable[["SandboxTrial"], None]

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    def check(self, harness: SandboxHarness) -> str | None:
        """Return None if the backend passes, or why the case cannot apply; raise if it fails."""
        reason = harness.inapplicable.get(self.name)
        trial = SandboxTrial(harness)
        try:
            if reason is None:
                self.run(trial)
            elif not reason.strip():
                raise SandboxSuiteError(f"{self.name} was declared not to apply without a reason")
        except SandboxError as error:
            raise SandboxSuiteError(
                f"{self.name} ended with an error that it does not expect: {error!r}"
            ) from error
        finally:
            trial.end()
            harness.close()
        return reason


class SandboxTrial:
    """Opens the sandboxes of one case, and closes them at its end."""

    def __init__(self, harness: SandboxHarness) -> None:
        self.harness = harness
        self._opened: list[Sandbox] = []

    def open(self, **members: Any) -> Sandbox:
        """Open a sandbox with these members of its spec."""
        opened = self.harness.open(SandboxSpec(**members))
        self._opened.append(opened)
        return opened

    def end(self) -> None:
        """Close what was opened."""
        for opened in self._opened:
            opened.close()


def require(shown: object, problem: str) -> None:
    """Fail the case with ``problem`` unless ``shown`` is true."""
    if not shown:
        raise SandboxSuiteError(problem)


@contextmanager
def required_error(kind: type[Exception], problem: str) -> Iterator[None]:
    """Fail the case with ``problem`` unless the block raises an error of this kind."""
    try:
        yield
    except kind:
        return
    raise SandboxSuiteError(problem)
