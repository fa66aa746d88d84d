"""Checks the log: every frame, that its batches decode, and that they apply to the bucket's state."""

from pathlib import Path

from durable_sessions.errors import (
    ArchiveAheadError,
    ArchiveBehindError,
    ArchiveMissingError,
    LogDamagedError,
    LogDivergedError,
    LogForeignError,
)
from durable_sessions.log.repair import interrupted
from durable_sessions.log.scan import REPAIR_NAME, scan
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.tier.ownership import last_shared, match
from durable_sessions.tools.conflicts import Undecodable, decode_leniently, fill_acknowledged, mend
from durable_sessions.tools.verify.bucket import Examined
from durable_sessions.tools.verify.findings import Findings
from durable_sessions.tools.verify.inventory import Inventory
from durable_sessions.tools.verify.scanned_log import ScannedLog


def base_state(examined: Examined, inventory: Inventory) -> State:
    """Return the state as of the flush of the manifest."""
    state = State(inventory)
    first = inventory.partition.streams.start
    state.next_stream = first if examined.manifest is None else examined.manifest.next_stream
    state.removed = dict.fromkeys(inventory.removed(), Key("", ""))
    for effect in examined.subscriptions:
        state.apply(effect)
    return state


async def check_log(directory: Path, examined: Examined, inventory: Inventory, findings: Findings) -> None:
    """Read the whole log, check that it belongs to the bucket, and replay it from the last flush on."""
    if interrupted(directory):
        findings.add(str(directory / REPAIR_NAME), "a repair was interrupted; run repair to complete it")
    try:
        own = await check_tie(ScannedLog(directory), examined, findings)
    except LogDamagedError as error:
        own = False
        findings.add(str(error.fields["file"]), str(error.fields["problem"]))
    log = scan(directory)
    state = base_state(examined, inventory)
    for frame in log.frames():
        findings.checked["batches"] += 1
        for offset, effect in decode_leniently(frame.payload):
            where, byte = str(frame.segment.path), frame.segment.offset(frame.position) + offset
            findings.checked["effects"] += 1
            if isinstance(effect, Undecodable):
                findings.add(where, f"batch {frame.position}: {effect.problem}", byte=byte, mendable=False)
            elif own and frame.position > examined.flushed_through:
                problem = mend(state, effect).problem
                if problem is not None:
                    kind = type(effect).__name__
                    findings.add(where, f"batch {frame.position}: {kind}: {problem}", byte=byte)
    filled = fill_acknowledged(state)
    for number, first, following in filled.marked:
        findings.add(f"stream {number}", f"{filled.problem}: {first} to {following}")
    findings.checked["log segments"] += len(log.files)
    for damage in log.damage:
        findings.add(str(damage.path), f"{damage.problem} ({damage.length} bytes)", byte=damage.byte)
    if log.torn is not None:
        torn = log.torn
        text = f"{torn.path}, byte {torn.byte}: {torn.problem}; the server cuts these {torn.length} bytes"
        findings.notes.append(text)


async def check_tie(log: ScannedLog, examined: Examined, findings: Findings) -> bool:
    """Say whether the log belongs to the bucket; report if not, or if it does not continue it."""
    try:
        await match(log, examined.manifest)
        if log.ends_at is None and log.lineage is None and examined.flushed_through:
            # A server would begin a new log here, but a data directory that is verified must have had one.
            raise ArchiveAheadError(log=log.location, ends=0, flushed=examined.flushed_through, after=0)
    except (LogForeignError, LogDivergedError) as error:
        if isinstance(error, LogDivergedError) and log.lost_at(examined.flushed_through):
            return True  # damaged at that position, which is reported elsewhere
        after = await last_shared(log, examined.each_manifest())
        count = sum(1 for _ in log.frames_after(after))
        what = (
            f"it is not the log of this bucket, which goes on with lineage {error.fields['lineage']}"
            if isinstance(error, LogForeignError)
            else f"its frame at {examined.flushed_through} is not the one that was flushed:"
            " a server with a copy of this directory has written to the bucket"
        )
        findings.add(log.location, f"{what}; {count} batches after {after} are not in the bucket")
        return False
    except ArchiveMissingError:
        findings.add(log.location, "it belongs to a bucket, and this one is empty")
    except ArchiveBehindError as error:
        begins, flushed = error.fields["begins"], error.fields["flushed"]
        problem = f"it begins at {begins}, but the bucket holds only what came before {flushed}"
        findings.add(log.location, problem)
    except ArchiveAheadError as error:
        ends, flushed = error.fields["ends"], error.fields["flushed"]
        after = await last_shared(log, examined.each_manifest())
        count = sum(1 for _ in log.frames_after(after))
        problem = f"it ends at {ends}, before {flushed}, up to where the bucket holds everything"
        if count:
            problem += f"; if a copy of this directory was used, {count} batches after {after} are only here"
        findings.add(log.location, problem)
    return True
