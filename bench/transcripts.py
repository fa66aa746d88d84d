"""What many agents write: words as frequent as in real text, and names and paths that belong to a session.

A word's frequency falls with its rank, as in any language: a few words are in most events, most words in a
few. Every session has functions, files and hosts of its own. Any piece of any session can be made again.
"""

import random
from collections.abc import Iterator
from functools import cache
from itertools import accumulate

from durable_sessions.search.text import searchable

SESSIONS = 2_000
EVENTS_PER_SESSION = 475
LONG_EVENTS = 50_000
EVENTS_PER_PIECE = 100
LONG = "long"

_WORDS = 60_000
_RANK_SHIFT = 2.7
"""Keeps the few most frequent words from being too frequent (Mandelbrot's correction)."""
_COMMON_RANKS = range(20, 200)
_VERY_COMMON_RANKS = range(4, 40)
_RARE_RANKS = range(_WORDS // 3, _WORDS)
_OWN_NAMES = 60
_OWN_EVERY, _NUMBER_EVERY = 12, 31
"""One word in so many is a name of the session, or a number."""
_KINDS = (
    # type, how often, words: least and most
    ("user.message", 1, 6, 40),
    ("agent.message", 6, 6, 54),
    ("agent.tool_use", 6, 5, 20),
    ("agent.tool_result", 6, 10, 80),
    ("session.status", 1, 2, 6),
)
_TOOLS = ("bash", "read_file", "edit_file", "grep", "web_search")
_ONSETS = ("b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "ch")
_VOWELS = ("a", "e", "i", "o", "u", "ea", "ou")
_CODAS = ("", "", "n", "r", "s", "t", "l", "nd", "ng")


class Transcripts:
    """All sessions of one size of corpus; two of the same size are the same."""

    def __init__(self, sessions: int = SESSIONS, long_events: int = LONG_EVENTS) -> None:
        self.names = [LONG, *(f"s{number}" for number in range(sessions))]
        self._lengths = dict.fromkeys(self.names, EVENTS_PER_SESSION) | {LONG: long_events}
        self.events = sum(self._lengths.values())
        self._words = _vocabulary(random.Random("vocabulary"))
        self._weights = list(accumulate(1 / (rank + _RANK_SHIFT) for rank in range(1, _WORDS + 1)))

    def length(self, name: str) -> int:
        """Return how many events a session has."""
        return self._lengths[name]

    def pieces(self, name: str) -> int:
        """Return how many pieces a session has."""
        return -(-self._lengths[name] // EVENTS_PER_PIECE)

    def in_turn(self) -> Iterator[tuple[str, int]]:
        """Yield all pieces as sessions that run side by side write them, the long one all the time."""
        long_pieces = iter(range(self.pieces(LONG)))
        others = [(name, piece) for piece in range(self.pieces(self.names[1])) for name in self.names[1:]]
        every = max(1, len(others) // self.pieces(LONG))
        for number, other in enumerate(others):
            if number % every == 0 and (piece := next(long_pieces, None)) is not None:
                yield LONG, piece
            yield other
        yield from ((LONG, piece) for piece in long_pieces)

    def piece(self, name: str, number: int) -> list[bytes]:
        """Return the events of one piece of a session."""
        chance = random.Random(f"{name} {number}")
        count = min(EVENTS_PER_PIECE, self._lengths[name] - number * EVENTS_PER_PIECE)
        kinds = chance.choices(_KINDS, [share for _, share, _, _ in _KINDS], k=count)
        lengths = [chance.randint(least, most) for _, _, least, most in kinds]
        words = self._said(chance, name, sum(lengths))
        ends = accumulate(lengths)
        return [
            _event(chance, kind[0], " ".join(words[end - length : end]))
            for kind, length, end in zip(kinds, lengths, ends, strict=True)
        ]

    def rare(self, chance: random.Random) -> str:
        """Return a word that is in about one of fifteen thousand events."""
        return self._words[chance.choice(_RARE_RANKS)]

    def common(self, chance: random.Random, count: int) -> str:
        """Return words each of which is in between 1 % and 10 % of all events."""
        return " ".join(self._words[rank] for rank in chance.sample(_COMMON_RANKS, count))

    def very_common(self, chance: random.Random, count: int) -> str:
        """Return words each of which is in between 5 % and 26 % of all events."""
        return " ".join(self._words[rank] for rank in chance.sample(_VERY_COMMON_RANKS, count))

    def phrase(self, chance: random.Random, count: int) -> str:
        """Return words that stand together somewhere in the long session."""
        while True:
            piece = self.piece(LONG, chance.randrange(self.pieces(LONG)))
            words = searchable(chance.choice(piece)).text.split()
            begin = chance.randrange(len(words))
            found = words[begin : begin + count]
            if len(found) == count and all(word.isalpha() and word.islower() for word in found):
                return " ".join(found)

    def _said(self, chance: random.Random, name: str, count: int) -> list[str]:
        words = chance.choices(self._words, cum_weights=self._weights, k=count)
        own = _names(name)
        places = range(chance.randrange(_OWN_EVERY), count, _OWN_EVERY)
        words[places.start :: _OWN_EVERY] = chance.choices(own, k=len(places))
        places = range(chance.randrange(_NUMBER_EVERY), count, _NUMBER_EVERY)
        words[places.start :: _NUMBER_EVERY] = [str(int(10 ** (6 * chance.random()))) for _ in places]
        return words


def _event(chance: random.Random, kind: str, text: str) -> bytes:
    # The words need no escaping.
    if kind == "agent.tool_use":
        tool = chance.choice(_TOOLS)
        return f'{{"type":"{kind}","name":"{tool}","input":{{"command":"{text}"}}}}'.encode()
    return f'{{"type":"{kind}","content":[{{"type":"text","text":"{text}"}}]}}'.encode()


def _vocabulary(chance: random.Random) -> list[str]:
    """Return different words; the frequent ones are short."""
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        syllables = 1 + (len(words) > 100) + (len(words) > 5_000) + (chance.random() < 0.3)
        words[_word(chance, syllables)] = None
    return list(words)


def _word(chance: random.Random, syllables: int) -> str:
    choose = chance.choice
    return "".join(choose(_ONSETS) + choose(_VOWELS) + choose(_CODAS) for _ in range(syllables))


@cache
def _names(session: str) -> list[str]:
    """Return the names that a session's events speak of."""
    chance = random.Random(f"names of {session}")
    names = []
    for number in range(_OWN_NAMES):
        first, second, third = (_word(chance, 2) for _ in range(3))
        if number % 4 == 0:
            names.append(f"src/{first}/{second}_{third}.py")
        elif number % 4 == 1:
            names.append(f"{first}{second.title()}{third.title()}")
        elif number % 4 == 2:
            names.append(f"{first}_{second}")
        else:
            names.append(f"{chance.getrandbits(48):012x}")
    return names
