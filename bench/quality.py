"""How well search finds what people ask for, beside SQLite FTS5 on the same events.

``python -m bench.quality`` prints a table; ``--missed`` also what was not found. The questions and the sample
transcripts are those of ``tests/quality``.
"""

import sys

from tests.quality.measure import Corpus, questions, rate
from tests.support.samples import FOLDER

from bench import report
from bench.figures import Result
from bench.report import Column, Table

OURS, FTS5 = "ours", "SQLite FTS5, any of the words"
COLUMNS = (
    Column("recall@10", "recall", "{:.3f}".format),
    Column("MRR", "reciprocal_rank", "{:.3f}".format),
)


def main() -> None:
    table, missed = measure()
    print(report.markdown([report.Part("Quality", [table])], []))
    if "--missed" in sys.argv:
        for name, asked in missed.items():
            print("\n".join([f"\nnot found by {name}:", *(f"- {question}" for question in asked)]))


def measure() -> tuple[Table, dict[str, list[str]]]:
    """Ask every question, and return how both did, with what each did not find."""
    if not FOLDER.is_dir():
        why = "the sample transcripts are not here"
        return Table("Quality", COLUMNS, [Result(name, skipped=why) for name in (OURS, FTS5)]), {}
    corpus = Corpus()
    asked = questions()
    results: list[Result] = []
    missed: dict[str, list[str]] = {}
    for name, opened in ((OURS, corpus.ours()), (FTS5, corpus.fts5())):
        with opened as ranking:
            rated = rate(ranking, asked)
        results.append(Result(name, [{"recall": rated.recall, "reciprocal_rank": rated.reciprocal_rank}]))
        missed[name] = rated.missed
    title = f"Quality: {len(asked)} questions over {len(corpus.names):,} events of sample transcripts"
    return Table(title, COLUMNS, results), missed


if __name__ == "__main__":
    main()
