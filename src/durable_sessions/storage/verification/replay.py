"""Checking the log: every frame, that its batches decode, and that they follow from the bucket's state."""

from pathlib import Path

from durable_sessions.log import continues
from durable_sessions.log.repair import interrupted
from durable_sessions.log.scan import REPAIR_NAME, LogScan, scan
from durable_sessions.storage.mending import Undecodable, decode_leniently, fill_acknowledged, mend
from durable_sessions.storage.verification.bucket import Examined
from durable_sessions.storage.verification.findings import Findings
from durable_sessions.storage.verification.ledger import Ledger
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key


def base_state(examined: Examined, ledger: Ledger) -> State:
    """Return the state as of the flush that the manifest is of."""
    state = State(ledger)
    state.next_id = 1 if examined.manifest is None else examined.manifest.next_stream
    state.removed = dict.fromkeys(ledger.removed(), Key("", ""))
    for effect in examined.subscriptions:
        state.apply(effect)
    return state


def check_log(directory: Path, examined: Examined, ledger: Ledger, findings: Findings) -> None:
    """Read the whole log, and replay what comes after the last flush."""
    if interrupted(directory):
        findings.add(str(directory / REPAIR_NAME), "a repair was interrupted; run repair to complete it")
    log = scan(directory)
    state = base_state(examined, ledger)
    for frame in log.frames():
        findings.checked["batches"] += 1
        for offset, effect in decode_leniently(frame.payload):
            where, byte = str(frame.segment.path), frame.segment.offset(frame.position) + offset
            findings.checked["effects"] += 1
            if isinstance(effect, Undecodable):
                findings.add(where, f"batch {frame.position}: {effect.problem}", byte=byte, mendable=False)
            elif frame.position > examined.flushed_through:
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
    check_meeting(log, examined, directory, findings)


def log_end(log: LogScan) -> int:
    """Return the address at which the log ends, without what is torn."""
    ends = [found.segment.end for found in log.files if found.segment is not None and found.frames]
    if not ends:
        return 0
    newest = log.files[-1].segment
    if log.torn is not None and newest is not None and log.torn.path == newest.path:
        return max([newest.address(log.torn.byte), *ends[:-1]])
    return max(ends)


def check_meeting(log: LogScan, examined: Examined, directory: Path, findings: Findings) -> None:
    """Report a log that does not continue where the bucket ends."""
    flushed = examined.flushed_through
    if not continues(log.begins_after, flushed):
        problem = f"it begins at {log.begins_after}, but the bucket holds only what came before {flushed}"
        findings.add(str(directory), problem)
    end = log_end(log)
    if end < flushed:
        problem = f"it ends at {end}, before {flushed}, up to where the bucket holds everything"
        findings.add(str(directory), problem)
