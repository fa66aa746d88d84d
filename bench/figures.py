"""Rows that are measured in turn, and the medians of what they gave."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.process import Process

Figures = Mapping[str, float]
"""What one measurement gave: a name with its unit last, and the value."""


@dataclass(frozen=True)
class Row:
    """One thing to measure; its process runs only while it is measured."""

    name: str
    run: Callable[[], Figures]
    process: Process | None = None


@dataclass
class Result:
    """What all rounds of one row gave, or why there was none."""

    name: str
    rounds: list[Figures] = field(default_factory=list)
    skipped: str = ""

    def median(self, figure: str) -> float | None:
        """Return the median over the rounds, or None if it was not measured."""
        values = [one[figure] for one in self.rounds if figure in one]
        return median(values) if values else None


def interleave(rows: Sequence[Row], rounds: int) -> list[Result]:
    """Measure all rows once, then all again, so that a slow minute of the machine hits everybody."""
    results = [Result(row.name) for row in rows]
    for row in rows:
        if row.process is not None:
            row.process.pause()
    for number in range(rounds):
        for row, result in zip(rows, results, strict=True):
            result.rounds.append(_measure(row))
            say(f"round {number + 1}: {row.name}: {_brief(result.rounds[-1])}")
    return results


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` of the sorted values lie."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def say(text: str) -> None:
    """Tell who waits how far we are."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _measure(row: Row) -> Figures:
    if row.process is None:
        return row.run()
    row.process.resume()
    try:
        figures = row.run()
        row.process.require_alive()
        return figures
    finally:
        row.process.pause()


def _brief(figures: Figures) -> str:
    return ", ".join(f"{name} {value:,.2f}" for name, value in figures.items())
