"""``durable-sessions verify``: read everything, and report problems."""

import asyncio
import sys

import click

from durable_sessions.bucket.partition_layout import PartitionLayout, all_layouts
from durable_sessions.cli.command_errors import MissingError
from durable_sessions.cli.data_target import DataTarget, with_target
from durable_sessions.cli.option_types import WholeNumber
from durable_sessions.rendering.text import plural
from durable_sessions.tools.verify import Findings, verify_all


@click.command()
@with_target
@click.option("--bucket-only", is_flag=True, help="Leave log and catalog alone; a server may be running.")
@click.option("--artifacts", is_flag=True, help="Read the artifacts, too.")
@click.option(
    "--generation",
    type=WholeNumber(min=0),
    default=None,
    help="Check the partitions from before a repartitioning, as far as they are in the bucket.",
)
def verify(where: DataTarget, bucket_only: bool, artifacts: bool, generation: int | None) -> None:
    """Check the logs, the bucket and the catalogs of a stopped server, byte by byte. Changes nothing.

    Exits with 0 if everything is as it must be, and with 1 if not.
    """
    where.require_bucket()
    if bucket_only or generation is not None:
        findings = asyncio.run(_verify(where, None, generation, artifacts=artifacts))
    else:
        with where.locked("Stop the server first, or use --bucket-only.") as layout:
            findings = asyncio.run(_verify(where, layout, None, artifacts=artifacts))
    report(where, findings)
    sys.exit(1 if findings.problems else 0)


async def _verify(
    where: DataTarget, locked: PartitionLayout | None, generation: int | None, *, artifacts: bool
) -> Findings:
    bucket = await where.open_bucket()
    if locked is not None:
        return await verify_all(bucket, where.data, locked, artifacts=artifacts)
    layout = await where.layout()
    if generation is not None:
        layouts = [one for one in await all_layouts(bucket) if one.generation == generation]
        if not layouts:
            raise MissingError(f"{where.location} has had no generation {generation}.")
        (layout,) = layouts
    return await verify_all(bucket, None, layout, artifacts=artifacts)


def _noun(plural_noun: str, count: int) -> str:
    """Return what was checked, for so many."""
    if count != 1:
        return plural_noun
    return "batch" if plural_noun == "batches" else plural_noun.removesuffix("s")


def report(where: DataTarget, findings: Findings) -> None:
    """Print what a verification has found."""
    problems = [
        {name: value for name, value in problem._asdict().items() if value is not None}
        for problem in findings.problems
    ]
    checked = dict(findings.checked)
    where.tell({"ok": not problems, "checked": checked, "problems": problems, "notes": findings.notes})
    for problem in findings.problems:
        where.say(f"problem: {problem}")
    for note in findings.notes:
        where.say(f"note: {note}")
    where.say(
        "checked: "
        + (", ".join(f"{count} {_noun(what, count)}" for what, count in checked.items()) or "nothing")
    )
    where.say("ok" if not problems else f"{len(problems)} {plural(len(problems), 'problem')}")
