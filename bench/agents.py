"""What agents write: a repeatable mix of messages, tool calls and results, about as compressible as text."""

import json
import random
from collections.abc import Iterator
from itertools import accumulate

_MIX = (
    # type, how often, characters of text: least and most
    ("user.message", 1, 40, 400),
    ("agent.message", 6, 60, 900),
    ("agent.tool_use", 6, 80, 500),
    ("agent.tool_result", 6, 100, 3800),
    ("session.status", 1, 10, 40),
)
_SYLLABLES = (
    "ta",
    "re",
    "mi",
    "so",
    "la",
    "ku",
    "ne",
    "vo",
    "di",
    "pa",
    "ro",
    "li",
    "fe",
    "sha",
    "ton",
    "ver",
    "ing",
)
_WORDS_MAX = 4_000


class Agents:
    """Writes events; two with the same seed write the same."""

    def __init__(self, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        self._words = [self._word() for _ in range(_WORDS_MAX)]
        # Few words are frequent and many are rare, as in any text.
        self._weights = list(accumulate(1 / rank for rank in range(1, _WORDS_MAX + 1)))
        self._number = 0

    def events(self, count: int) -> list[bytes]:
        """Return events of the mix, about 900 bytes each on average."""
        kinds = self._chance.choices(_MIX, [share for _, share, _, _ in _MIX], k=count)
        return [self._event(kind, self._chance.randint(least, most)) for kind, _, least, most in kinds]

    def messages(self, count: int, characters: int) -> list[bytes]:
        """Return events of one kind and of about the same size."""
        return [self._event("agent.message", characters) for _ in range(count)]

    def _event(self, kind: str, characters: int) -> bytes:
        self._number += 1
        identity = f"evt_{self._chance.getrandbits(64):016x}"
        event = {"type": kind, "id": identity, "seq": self._number, "text": "".join(self._text(characters))}
        return json.dumps(event, separators=(",", ":")).encode()

    def _text(self, characters: int) -> Iterator[str]:
        words = self._chance.choices(self._words, cum_weights=self._weights, k=characters // 4 + 1)
        for word in words:
            if characters <= 0:
                return
            piece = word if self._chance.random() < 0.9 else f"{self._chance.randint(0, 9999)}"
            yield piece[:characters] + " "
            characters -= len(piece) + 1

    def _word(self) -> str:
        return "".join(self._chance.choices(_SYLLABLES, k=self._chance.randint(1, 4)))


def batched(events: list[bytes], per_request: int) -> Iterator[bytes]:
    """Yield the events as bodies of requests."""
    for begin in range(0, len(events), per_request):
        yield b"[" + b",".join(events[begin : begin + per_request]) + b"]"
