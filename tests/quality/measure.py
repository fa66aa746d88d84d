"""How high the answers to the questions stand, in our ranking and in that of SQLite FTS5."""

import contextlib
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from durable_sessions.search.index import HEAP_BYTES_MIN, Document, Index, View
from durable_sessions.search.query import parse
from durable_sessions.search.scope import Scope
from durable_sessions.search.text import Searchable, searchable
from tests.quality.samples import samples
from tests.support.samples import FOLDER

QUESTIONS = Path(__file__).with_name("questions.json")
OWN_QUESTIONS = Path(__file__).with_name("own_questions.json")
OWN_FOLDER = Path(__file__).with_name("transcripts")
"""A small set of our own: invented talks, and questions with their answers in them."""
TOP = 10

Ranking = Callable[[str], list[str]]


class Question(msgspec.Struct, frozen=True):
    """What somebody types, and the events any of which would answer it."""

    question: str
    answers: list[str]


class Result(NamedTuple):
    """How well one ranking did."""

    recall: float
    """The share of questions with an answer among the first ten."""
    reciprocal_rank: float
    """The mean of one over the rank of the first answer, none counting as 0."""
    missed: list[str]


def questions(path: Path = QUESTIONS) -> list[Question]:
    """Return the questions, as they were written before anything was tuned."""
    return msgspec.json.decode(path.read_bytes(), type=list[Question])


def rate(ranking: Ranking, asked: list[Question]) -> Result:
    """Ask every question."""
    ranks = []
    missed = []
    for each in asked:
        found = ranking(each.question)[:TOP]
        rank = next((place for place, name in enumerate(found, 1) if name in each.answers), 0)
        ranks.append(1 / rank if rank else 0.0)
        if not rank:
            missed.append(each.question)
    return Result(1 - len(missed) / len(asked), sum(ranks) / len(asked), missed)


class Corpus:
    """All sample events, as search sees them, in one workspace."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.names: list[str] = []
        self.texts: list[Searchable] = []
        self._places: list[tuple[int, int]] = []
        sessions: dict[str, int] = {}
        tails: dict[int, int] = {}
        for sample in samples(folder):
            stream = sessions.setdefault(sample.session, len(sessions))
            position = tails.get(stream, 0)
            tails[stream] = position + 1
            self.names.append(sample.name)
            self.texts.append(searchable(msgspec.json.encode(sample.event)))
            self._places.append((stream, position))

    @contextlib.contextmanager
    def ours(self) -> Iterator[Ranking]:
        """Rank with our index."""
        with tempfile.TemporaryDirectory() as folder:
            index = Index.open(Path(folder) / "index", HEAP_BYTES_MIN)
            for number, (place, said) in enumerate(zip(self._places, self.texts, strict=True)):
                index.add(Document(*place, number, said))
            index.commit()
            named = dict(zip(self._places, self.names, strict=True))
            yield lambda question: _names(index.view(), question, named)
            index.close()

    @contextlib.contextmanager
    def fts5(self) -> Iterator[Ranking]:
        """Rank with SQLite as it comes, looking for any of the words."""
        connection = sqlite3.connect(":memory:")
        connection.execute("CREATE VIRTUAL TABLE events USING fts5(text)")
        rows = ((number, said.text) for number, said in enumerate(self.texts))
        connection.executemany("INSERT INTO events (rowid, text) VALUES (?, ?)", rows)
        yield lambda question: [self.names[number] for number in _fts5(connection, question)]
        connection.close()


def _names(view: View, question: str, named: dict[tuple[int, int], str]) -> list[str]:
    return [named[hit.stream, hit.position] for hit in view.search(parse(question), Scope(), TOP).hits]


def _fts5(connection: sqlite3.Connection, question: str) -> list[int]:
    match = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
    rows = connection.execute(
        "SELECT rowid FROM events WHERE events MATCH ? ORDER BY rank LIMIT ?", (match, TOP)
    )
    return [number for (number,) in rows]
