"""Why tests were skipped, and the one command that enables each: in one place, at the end of the run."""

import re
from collections import Counter
from collections.abc import Iterable

_ENABLE = "; to enable: "
_REASON = re.compile(
    r"^(?:Skipped: )?(?P<why>.*?)(?:" + re.escape(_ENABLE) + r"(?P<command>.*))?$", re.DOTALL
)
NODE = "apt-get install nodejs npm  # Node.js 20 or later"
UNKNOWN = "(no command is known)"


def disabled(why: str, command: str) -> str:
    """Return the reason of a skip: what is missing, and the command that enables the test."""
    return f"{why}{_ENABLE}{command}"


def told(reasons: Iterable[str]) -> list[str]:
    """Return the lines that say what was skipped: each reason once, with its command below."""
    counted = Counter(reason.strip() for reason in reasons)
    lines: list[str] = []
    for reason, count in counted.most_common():
        match = _REASON.match(reason)
        assert match is not None
        lines.append(f"{count} skipped: {' '.join(match['why'].split())}")
        lines.append(f"    to enable: {match['command'] or UNKNOWN}")
    return lines
