"""How well search finds what people ask for, beside SQLite FTS5 on the same events.

``python -m bench.quality`` prints a table; ``--missed`` also what was not found. The questions and the sample
transcripts are those of ``tests/quality``.
"""

import sys

from tests.quality.measure import Corpus, Result, questions, rate


def main() -> None:
    corpus = Corpus()
    asked = questions()
    with corpus.ours() as ranking:
        ours = rate(ranking, asked)
    with corpus.fts5() as ranking:
        fts5 = rate(ranking, asked)
    print(f"{len(asked)} questions over {len(corpus.names)} events\n")
    print("| ranking | recall@10 | MRR |\n|---|---|---|")
    for name, result in (("durable-sessions", ours), ("SQLite FTS5, any of the words", fts5)):
        print(f"| {name} | {result.recall:.3f} | {result.reciprocal_rank:.3f} |")
    if "--missed" in sys.argv:
        _show("durable-sessions", ours)
        _show("SQLite FTS5", fts5)


def _show(name: str, result: Result) -> None:
    print(f"\nnot found by {name}:")
    for question in result.missed:
        print(f"- {question}")


if __name__ == "__main__":
    main()
