"""The randomness seam: unguessable identifiers come from here."""

import secrets
from typing import Protocol


class Ids(Protocol):
    """Makes identifiers; tests hand in a source that repeats itself."""

    def token(self, prefix: str) -> str:
        """Return ``prefix`` followed by 128 random bits in hexadecimal."""
        ...

    def fraction(self) -> float:
        """Return a number in [0, 1), for jitter."""
        ...


class RandomIds:
    """Identifiers from the operating system's entropy."""

    def token(self, prefix: str) -> str:
        """Return ``prefix`` followed by 128 random bits in hexadecimal."""
        return prefix + secrets.token_hex(16)

    def fraction(self) -> float:
        """Return a number in [0, 1), for jitter."""
        return secrets.randbelow(1 << 30) / (1 << 30)
