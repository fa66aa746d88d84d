"""Python as it is where only some requirements of the package are installed."""

import functools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

_HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    """Return which distributions a module is from."""
    return metadata.packages_distributions()


def run_with(extras: Iterable[str], code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code that sees nothing but the package, what it requires, and what these extras require."""
    wanted = [*PROJECT["dependencies"], *(one for name in extras for one in EXTRAS[name])]
    visible = {"durable_sessions", *modules_of(distributions_of(wanted))}
    hidden = sorted(set(_owners()) - visible)
    return subprocess.run(
        [sys.executable, "-c", f"HIDDEN = {hidden!r}\n{_HIDE}\n{code}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("DURABLE_SESSIONS")},
    )


def distributions_of(requirements: Iterable[str]) -> set[str]:
    """Return the names of the distributions that requirements lead to on this machine."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(one) for one in requirements]
    while waiting:
        one = waiting.pop()
        for extra in ("", *one.extras):
            name = _plain(one.name)
            if (name, extra) in found:
                continue
            found.add((name, extra))
            if name == _plain(PROJECT["name"]):
                waiting += map(Requirement, EXTRAS.get(extra, []))
                continue
            try:
                needed = metadata.requires(name) or []
            except metadata.PackageNotFoundError:
                continue
            waiting += [
                other
                for other in map(Requirement, needed)
                if other.marker is None or other.marker.evaluate({"extra": extra})
            ]
    return {name for name, _ in found}


def modules_of(distributions: set[str]) -> set[str]:
    """Return the names by which Python imports distributions."""
    return {
        module for module, owners in _owners().items() if not distributions.isdisjoint(map(_plain, owners))
    }


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
