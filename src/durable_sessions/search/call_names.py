"""The names of tools by their calls, for results that do not repeat them: ``name:bash`` finds both.

The latest calls are remembered; the others are looked up in the index, which has a term for each call.
"""

from collections import OrderedDict

CALLS_REMEMBERED_MAX = 20_000
"""About 10 MB with the longest ids and names that there are."""
_APART = "\x1f"
_UNIQUE = "sevt_"


def key_of(stream: int, call: str) -> str:
    """Return what names a call: ids of the server in all streams, so that a fork finds what it inherits."""
    return call if call.startswith(_UNIQUE) else f"{stream}{_APART}{call}"


def beginning(key: str) -> str:
    """Return how the term of a call begins."""
    return f"{key}{_APART}"


def term(key: str, name: str) -> str:
    """Return the term of a call in the index."""
    return beginning(key) + name


class RecentCalls:
    """The names of the latest calls, of all workspaces."""

    def __init__(self) -> None:
        self._names: OrderedDict[tuple[str, str], str] = OrderedDict()

    def note(self, workspace: str, key: str, name: str) -> None:
        """Remember a call; the oldest one is forgotten for it if there are many."""
        self._names[workspace, key] = name
        self._names.move_to_end((workspace, key))
        if len(self._names) > CALLS_REMEMBERED_MAX:
            self._names.popitem(last=False)

    def find(self, workspace: str, key: str) -> str | None:
        """Return the name of a call that is remembered."""
        return self._names.get((workspace, key))
