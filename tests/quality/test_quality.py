"""What people ask for is found, over all sample transcripts at once."""

import pytest

from tests.quality.measure import Corpus, questions, rate
from tests.support.samples import FOLDER, missing

RECALL_MIN = 0.9


def test_questions_have_answers() -> None:
    asked = questions()
    assert len(asked) >= 60
    assert len({each.question for each in asked}) == len(asked)
    assert all(each.answers for each in asked)


@pytest.mark.skipif(not FOLDER.is_dir(), reason=missing(FOLDER))
def test_answers_are_among_the_first_ten() -> None:
    corpus = Corpus()
    asked = questions()
    assert {name for each in asked for name in each.answers} <= set(corpus.names)
    with corpus.ours() as ranking:
        ours = rate(ranking, asked)
    with corpus.fts5() as ranking:
        plain = rate(ranking, asked)
    assert ours.recall >= RECALL_MIN, ours.missed
    assert ours.reciprocal_rank >= plain.reciprocal_rank
