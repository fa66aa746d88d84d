"""Patterns over stream paths: ``*`` is exactly one segment, ``**`` any number of them, also none.

Everything else, a ``*`` inside a longer segment included, stands for itself.
"""

from itertools import takewhile

ONE = "*"
ANY = "**"


class Glob:
    """A pattern made ready for matching many paths; all of them begin with ``prefix``."""

    __slots__ = ("_segments", "pattern", "prefix")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._segments = pattern.split("/")
        self.prefix = "/".join(takewhile(lambda segment: segment not in (ONE, ANY), self._segments))

    def matches(self, path: str) -> bool:
        """Say whether the whole path fits, in at most segments-of-pattern times segments-of-path steps."""
        if not path.startswith(self.prefix):  # settles most paths, at little cost
            return False
        pattern, segments = self._segments, path.split("/")
        at = matched = 0
        # Only the last ** is ever widened: what an earlier one could still take in, the last
        # one can too. So there is one place to go back to, and no tree of attempts.
        retry_at, retry_matched = -1, 0
        while matched < len(segments):
            if at < len(pattern) and pattern[at] == ANY:
                retry_at, retry_matched = at, matched
                at += 1
            elif at < len(pattern) and pattern[at] in (ONE, segments[matched]):
                at += 1
                matched += 1
            elif retry_at >= 0:
                retry_matched += 1
                at, matched = retry_at + 1, retry_matched
            else:
                return False
        return all(segment == ANY for segment in pattern[at:])
