"""Over real transcripts the ranking is that of another implementation of BM25.

Tantivy keeps the length of a text in one byte, so that scores of long texts differ by a few percent.
"""

from pathlib import Path

import bm25s  # type: ignore[import-untyped]
import numpy
import pytest

from durable_sessions.search import tokenizer
from durable_sessions.search.index import HEAP_BYTES_MIN, Document, Index
from durable_sessions.search.query import COMMON_WORDS, parse
from durable_sessions.search.scope import Scope
from tests.quality.measure import Corpus, questions
from tests.quality.test_quality import SETS
from tests.support.searching import apart

TOLERANCE = 0.12


@pytest.mark.parametrize(("folder", "path"), SETS)
def test_the_ranking_of_samples_is_that_of_another_implementation(
    folder: Path, path: Path, tmp_path: Path
) -> None:
    texts = Corpus(folder).texts
    tokens = [tokenizer.indexed(said.text).replace(tokenizer.APART, " ").split() for said in texts]
    other = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    other.index(tokens, show_progress=False)
    index = Index.open(tmp_path / "index", HEAP_BYTES_MIN)
    for position, said in enumerate(texts):
        index.add(Document(1, position, 0, said))
    index.commit()
    view = index.view()
    for each in questions(path):
        plain = sorted({part for part in tokenizer.parts(each.question) if not tokenizer.is_single(part)})
        known = [part for part in plain if any(part in document for document in tokens)]
        if not known:
            continue
        expected = numpy.asarray(other.get_scores(known)) * 2.2
        hits = view.search(parse(apart(known)), Scope(), 10).hits
        assert [hit.score for hit in hits] == pytest.approx(
            [expected[hit.position] for hit in hits], rel=TOLERANCE
        )
        # Words such as "the" add to the score of what the others find, and find nothing by themselves.
        telling = set(known) - COMMON_WORDS or set(known)
        found = [score for score, words in zip(expected, tokens, strict=True) if telling & set(words)]
        tenth = sorted(found, reverse=True)[len(hits) - 1]
        assert min(expected[hit.position] for hit in hits) >= tenth * (1 - TOLERANCE)
    index.close()
