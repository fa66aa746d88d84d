"""The versions of frameworks that the adapters were tested with, and how an installed one compares."""

import re
from importlib import metadata

TESTED: dict[str, tuple[str, str | None]] = {
    "agent-framework-core": ("1.23", "2"),
    "claude-agent-sdk": ("0.1.68", None),
    "google-adk": ("2.5", "3"),
    "langgraph-checkpoint": ("4.2", "5"),
    "openai-agents": ("0.20", "1"),
    "pydantic-ai-slim": ("2.66", "2.67"),
}
"""From which version on, and below which one; those that the extras of this package admit."""
_RELEASE = re.compile(r"\d+(?:\.\d+)*", re.ASCII)


def described(package: str) -> str:
    """Return a package with its version, and what was tested if that is another one."""
    try:
        installed = metadata.version(package)
    except metadata.PackageNotFoundError:
        return f"{package} (not installed)"
    least, below = TESTED[package]
    if _release(least) <= _release(installed) and (below is None or _release(installed) < _release(below)):
        return f"{package} {installed}"
    bounds = f"{least} or later" if below is None else f"from {least} on, below {below}"
    return f"{package} {installed} (not tested: the adapter is for versions {bounds})"


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without zeros at the end: 5 is 5.0."""
    found = _RELEASE.match(version)
    numbers = [int(one) for one in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
