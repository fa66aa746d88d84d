"""``durable-sessions verify``: read everything, and report problems."""

import asyncio
import sys
from contextlib import nullcontext

import click

from durable_sessions.cli.output import Target, with_target
from durable_sessions.rendering.text import plural
from durable_sessions.tools.verify import Findings
from durable_sessions.tools.verify import verify as run_verification


@click.command()
@with_target
@click.option("--bucket-only", is_flag=True, help="Leave log and catalog alone; a server may be running.")
@click.option("--artifacts", is_flag=True, help="Read the artifacts, too.")
def verify(where: Target, bucket_only: bool, artifacts: bool) -> None:
    """Check the log, the bucket and the catalog of a stopped server, byte by byte. Changes nothing.

    Exits with 0 if everything is as it must be, and with 1 if not.
    """
    where.require_bucket()
    lock = nullcontext() if bucket_only else where.locked("Stop the server first, or use --bucket-only.")
    with lock:
        findings = asyncio.run(_verify(where, bucket_only=bucket_only, artifacts=artifacts))
    report(where, findings)
    sys.exit(1 if findings.problems else 0)


async def _verify(where: Target, *, bucket_only: bool, artifacts: bool) -> Findings:
    bucket = await where.open_bucket()
    return await run_verification(bucket, None if bucket_only else where.data, artifacts=artifacts)


def _noun(plural_noun: str, count: int) -> str:
    """Return what was checked, for so many."""
    if count != 1:
        return plural_noun
    return "batch" if plural_noun == "batches" else plural_noun.removesuffix("s")


def report(where: Target, findings: Findings) -> None:
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
