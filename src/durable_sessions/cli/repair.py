"""``durable-sessions repair``: make a damaged log or bucket usable again, keeping all that can be read."""

import asyncio
import sys
import tempfile
from pathlib import Path

import click

from durable_sessions.bucket.partition_layout import PartitionLayout
from durable_sessions.cli.data_target import DataTarget, with_target
from durable_sessions.cli.verify import report
from durable_sessions.clock import SystemClock
from durable_sessions.ids import RandomIds
from durable_sessions.partition_id import PartitionId
from durable_sessions.tools.repair import Plan, Repair
from durable_sessions.tools.verify import Findings, verify


@click.command()
@with_target
@click.option("--yes", is_flag=True, help="Do it. Without this option nothing is changed.")
@click.option("--bucket-is-lost", is_flag=True, help="Go on with an empty bucket, and only what the log has.")
def repair(where: DataTarget, yes: bool, bucket_is_lost: bool) -> None:
    """Say what is damaged and what a repair would do, and with --yes do it.

    Copies of all that is changed or removed are kept in the data directory, under repair-<UTC time>.
    Exits with 0 if nothing is wrong or all was repaired, and with 1 if not.
    """
    with where.locked("Stop the server first.") as layout:
        status = asyncio.run(_repair_all(where, layout, yes=yes, bucket_lost=bucket_is_lost))
    sys.exit(status)


async def _repair_all(where: DataTarget, layout: PartitionLayout, *, yes: bool, bucket_lost: bool) -> int:
    """Repair one partition after the other, and return the highest exit status."""
    status = 0
    for one in layout.all:
        if layout.partitions > 1:
            where.say(f"partition {one.digits}:")
        status = max(status, await _repair(where, one, yes=yes, bucket_lost=bucket_lost))
    return status


async def _repair(where: DataTarget, partition: PartitionId, *, yes: bool, bucket_lost: bool) -> int:
    bucket, directory = await where.open_bucket(writable=yes), partition.directory(where.data)
    while True:
        with tempfile.TemporaryDirectory(prefix="durable-sessions-") as folder:
            one = Repair(bucket, directory, Path(folder), partition, backups=where.data)
            try:
                plan = await one.plan(bucket_lost=bucket_lost)
                if not plan.actions or not yes:
                    _tell(where, plan, None, None)
                    return 1 if plan.actions else 0
                copies = await one.apply(SystemClock(), RandomIds())
            finally:
                one.close()
        # None: only an earlier, interrupted repair was completed. What is still damaged is planned anew.
        if copies is not None:
            break
        where.say("An interrupted repair was completed.")
    findings = await verify(bucket, directory, partition=partition)
    _tell(where, plan, copies, findings)
    return 1 if findings.problems else 0


def _tell(where: DataTarget, plan: Plan, copies: Path | None, findings: Findings | None) -> None:
    answer: dict[str, object] = {
        "needed": bool(plan.actions),
        "done": copies is not None,
        "actions": [action._asdict() for action in plan.actions],
        "lost": [loss._asdict() for loss in plan.losses],
    }
    if copies is not None and findings is not None:
        answer |= {"copies": str(copies), "problems_left": [str(problem) for problem in findings.problems]}
    where.tell(answer)
    if not plan.actions:
        where.say("Nothing is wrong.")
        return
    for action in plan.actions:
        where.say(f"{action.where}: {action.what}")
    for loss in plan.losses:
        where.say(f"lost: {loss}")
    if copies is None:
        where.say("Nothing was changed. Run the command with --yes to do this.")
        return
    where.say(f"Done. Copies of all that was changed or removed are in {copies}")
    if findings is not None and not where.json:
        report(where, findings)
