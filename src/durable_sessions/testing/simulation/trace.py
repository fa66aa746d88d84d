"""The trace of a run: always a digest of all steps, and on request the lines."""

import hashlib


class Trace:
    """Takes every step of a run; two runs are the same if their digests are."""

    def __init__(self, *, keep: bool = False) -> None:
        self.lines: list[str] = []
        self.steps = 0
        self._keep = keep
        self._digest = hashlib.blake2b(digest_size=16)

    def note(self, seconds: float, what: str) -> None:
        """Take in one step and the virtual time at which it happened."""
        self.steps += 1
        line = f"{seconds:.6f} {what}"
        self._digest.update(line.encode() + b"\n")
        if self._keep:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """The digest of all steps so far."""
        return self._digest.hexdigest()
