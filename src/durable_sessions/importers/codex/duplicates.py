"""Duplicates: a text that comes as a response item, as an event and as a turn item becomes one event.

It may be said several times in a turn, so it is counted: if one channel has it twice and another has it three
times, it was said three times.
"""

from hashlib import blake2b


class Duplicates:
    """Detects new text: text that a channel has brought more often than any other channel so far."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, bytes], int] = {}
        self._told: dict[bytes, int] = {}

    def is_new(self, channel: str, words: str) -> bool:
        """Count a text of a channel, and say whether it is new."""
        digest = blake2b(words.strip().encode(errors="surrogatepass"), digest_size=8).digest()
        said = self._said[channel, digest] = self._said.get((channel, digest), 0) + 1
        if said <= self._told.get(digest, 0):
            return False
        self._told[digest] = said
        return True

    def forget(self) -> None:
        """Begin a new turn."""
        self._said.clear()
        self._told.clear()
