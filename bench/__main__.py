"""``make bench``: how fast, how steady and how cheap, beside peers, in one run on one machine."""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path

from bench import (
    adapters,
    appends,
    catchup,
    cluster,
    costs,
    graph,
    growth,
    load,
    machine,
    memory,
    search,
    sessions,
    slots,
    tailing,
    workers,
)
from bench.figures import say
from bench.options import Fleet, Options
from bench.place import Place, temporary_place
from bench.report import Part, markdown

PARTS: dict[str, Callable[[Place, Options], Part]] = {
    "appends": appends.run,
    "catchup": catchup.run,
    "tailing": tailing.run,
    "sessions": sessions.run,
    "search": search.run,
    "growth": growth.run,
    "costs": costs.run,
    "workers": workers.run,
    "slots": slots.run,
    "graph": graph.run,
    "memory": memory.run,
    "cluster": cluster.run,
    "adapters": adapters.run,
}


def main() -> None:
    """Run the parts that were asked for and print the report."""
    given = _parse()
    if problem := load.missing():
        sys.exit(f"bench: {problem}")
    # So that a plain kill also leaves through the blocks that end what they started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = _options(given)
    begin = time.monotonic()
    parts: list[Part] = []
    with temporary_place(options.directory) as place:
        for name in given.parts or PARTS:
            say(f"— {name}")
            parts.append(PARTS[name](place, options))
    command = " ".join(["python -m bench", *sys.argv[1:]])
    facts = machine.describe(options.directory) | {
        "measured": time.strftime("%Y-%m-%d"),
        "command": f"`{command}`, took {time.monotonic() - begin:.0f} s",
    }
    if given.json is not None:
        _write_json(given.json, facts, parts)
    print(markdown(parts, [f"**{name}**: {fact}" for name, fact in facts.items()]))


def _write_json(file: Path, facts: dict[str, str], parts: list[Part]) -> None:
    """Write what every round gave, with the facts that it means nothing without."""
    found = [
        {
            "part": part.name,
            "tables": [
                {"title": table.title, "rows": [asdict(result) for result in table.results]}
                for table in part.tables
            ],
            "claims": [
                {**asdict(claim), "ratio": claim.ratio, "verdict": claim.verdict} for claim in part.claims
            ],
            "notes": part.notes,
        }
        for part in parts
    ]
    file.write_text(json.dumps({"about": facts, "parts": found}, indent=1))


def _options(given: argparse.Namespace) -> Options:
    seconds, rounds = (1.0, 1) if given.quick else (3.0, 3)
    return Options(
        directory=given.directory,
        seconds=given.seconds or seconds,
        rounds=given.rounds or rounds,
        quick=given.quick,
        fleet=Fleet(**{item.name: getattr(given, item.name) for item in fields(Fleet)}),
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = ", ".join(PARTS)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"which to run: {names} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a short smoke run; its figures mean nothing")
    parser.add_argument("--seconds", type=float, help="length of one measurement")
    parser.add_argument("--rounds", type=int, help="how often each is measured; the median counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all raw figures there, too")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="where all data lies during the run; must be on a disk (default: %(default)s)",
    )
    for item in fields(Fleet):
        flag, text = "--" + item.name.replace("_", "-"), "for the cost model (default: %(default)s)"
        parser.add_argument(flag, type=type(item.default), default=item.default, help=text)
    given = parser.parse_args()
    for name in given.parts:
        if name not in PARTS:
            parser.error(f"{name!r} is none of {names}")
    return given


if __name__ == "__main__":
    main()
