"""What a part of the benchmark has to say: tables, ratios against targets, and all of it as Markdown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.figures import Result

MISSING = "–"


@dataclass(frozen=True)
class Column:
    """A figure of a table and how it is written."""

    head: str
    figure: str
    write: Callable[[float], str] = "{:,.0f}".format


@dataclass(frozen=True)
class Table:
    """What was measured, one line per row."""

    title: str
    columns: Sequence[Column]
    results: Sequence[Result]
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """A ratio of two figures of this run, with what it must reach and what it aims for."""

    what: str
    ours: float | None
    theirs: float | None
    must: float | None = None
    aim: float | None = None
    at_most: bool = False
    unit: str = "×"
    skipped: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours over theirs, if both were measured."""
        if self.ours is None or not self.theirs:
            return None
        return self.ours / self.theirs

    @property
    def verdict(self) -> str:
        """Met or missed, and by how much."""
        if self.skipped:
            return f"**SKIPPED: {self.skipped}**"
        ratio = self.ratio
        if ratio is None:
            return "not measured"
        if self.aim is not None and self._reaches(ratio, self.aim):
            return "met, aim too"
        if self.must is None:
            return "for comparison" if self.aim is None else "aim missed"
        if self._reaches(ratio, self.must):
            return "met"
        off = ratio / self.must - 1 if self.at_most else 1 - ratio / self.must
        return f"**missed** by {off:.0%}"

    def _reaches(self, ratio: float, target: float) -> bool:
        return ratio <= target if self.at_most else ratio >= target


@dataclass
class Part:
    """Everything one part of the benchmark found out."""

    name: str
    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def markdown(parts: Sequence[Part], about: Sequence[str]) -> str:
    """Return the whole report: the ratios first, then what they were made of."""
    blocks = [_list(about), _claims([claim for part in parts for claim in part.claims])]
    for part in parts:
        blocks += [f"### {part.name}", *map(_table, part.tables), _list(part.notes)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def figure(results: Sequence[Result], name: str, what: str) -> float | None:
    """Return the median of one figure of one row, or None if there is none."""
    for result in results:
        if result.name == name:
            return result.median(what)
    return None


def _claims(claims: Sequence[Claim]) -> str:
    if not claims:
        return ""
    lines = ["| what | ratio | must | aim | verdict |", "|---|---|---|---|---|"]
    for claim in claims:
        sign = "≤" if claim.at_most else "≥"
        must, aim = (
            MISSING if one is None else f"{sign} {one:g}{claim.unit}" for one in (claim.must, claim.aim)
        )
        ratio = MISSING if claim.ratio is None else f"**{claim.ratio:,.2f}{claim.unit}**"
        lines.append(f"| {claim.what} | {ratio} | {must} | {aim} | {claim.verdict} |")
    return "\n".join(lines)


def _table(table: Table) -> str:
    lines = [
        f"**{table.title}**\n",
        "| what | " + " | ".join(column.head for column in table.columns) + " |",
        "|---|" + "---|" * len(table.columns),
    ]
    for result in table.results:
        if result.skipped:
            rest = " |" * (len(table.columns) - 1)
            lines.append(f"| {result.name} | **SKIPPED: {result.skipped}** |{rest}")
            continue
        values = [(column, result.median(column.figure)) for column in table.columns]
        cells = [MISSING if value is None else column.write(value) for column, value in values]
        lines.append(f"| {result.name} | " + " | ".join(cells) + " |")
    if table.note:
        lines.append(f"\n{table.note}")
    return "\n".join(lines)


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
