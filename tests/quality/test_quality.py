"""What people ask for is found, over all sample transcripts at once."""

from pathlib import Path

import pytest

from tests.quality.measure import OWN_FOLDER, OWN_QUESTIONS, QUESTIONS, Corpus, questions, rate
from tests.support.samples import FOLDER, missing

RECALL_MIN = 0.9
RANK_MIN = 0.6


def test_questions_have_answers() -> None:
    asked = questions()
    assert len(asked) >= 60
    assert len({each.question for each in asked}) == len(asked)
    assert all(each.answers for each in asked)


SETS = [
    pytest.param(OWN_FOLDER, OWN_QUESTIONS, id="own"),
    pytest.param(
        FOLDER,
        QUESTIONS,
        id="transcripts",
        marks=pytest.mark.skipif(not FOLDER.is_dir(), reason=missing(FOLDER)),
    ),
]


@pytest.mark.parametrize(("folder", "path"), SETS)
def test_answers_are_among_the_first_ten(folder: Path, path: Path) -> None:
    corpus = Corpus(folder)
    asked = questions(path)
    assert {name for each in asked for name in each.answers} <= set(corpus.names)
    with corpus.ours() as ranking:
        ours = rate(ranking, asked)
    with corpus.fts5() as ranking:
        plain = rate(ranking, asked)
    assert ours.recall >= RECALL_MIN, ours.missed
    assert ours.reciprocal_rank >= plain.reciprocal_rank
    assert ours.reciprocal_rank >= RANK_MIN
