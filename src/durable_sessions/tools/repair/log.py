"""Repair of a log: keeps all readable batches, in new segments from the first damage on."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from durable_sessions.errors import LogError
from durable_sessions.log.repair import replace_segments
from durable_sessions.log.scan import Frame, LogScan, ScannedSegment, scan
from durable_sessions.storage import batch
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated
from durable_sessions.streams.state import State
from durable_sessions.tier.ownership import continues
from durable_sessions.tools.conflicts import (
    LOST_AND_FOUND,
    Mended,
    Undecodable,
    decode_leniently,
    fill_acknowledged,
    mend,
)
from durable_sessions.tools.repair.backups import Backups
from durable_sessions.tools.repair.plan import Plan
from durable_sessions.tools.verify.bucket import Examined
from durable_sessions.tools.verify.inventory import Inventory
from durable_sessions.tools.verify.replay import base_state
from durable_sessions.tools.verify.scanned_log import log_end


class LogRepair:
    """Plans the repair of a log, starting from the state of the bucket, and carries it out."""

    def __init__(self, directory: Path, examined: Examined, inventory: Inventory) -> None:
        self._directory = directory
        self._examined = examined
        self._inventory = inventory
        self._kept: list[ScannedSegment] = []
        self._replaced: list[ScannedSegment] = []
        self._base: int | None = None
        self._home = LOST_AND_FOUND
        self._changes: dict[tuple[Path, str], list[int]] = {}

    def plan(self, plan: Plan, *, begun: bool = False) -> None:
        """Find the problems, and plan an action for each; a log that was only ``begun`` may have no batch."""
        self._home = self._only_workspace()
        log, state = scan(self._directory), base_state(self._examined, self._inventory)
        flushed = self._examined.flushed_through
        changed: set[Path] = set()
        behind: list[int] = []
        count = 0
        for frame in log.frames():
            behind += [count] * (len(log.damage) - len(behind))
            count += 1
            if frame.position > flushed and self._plan_batch(state, frame, plan):
                changed.add(frame.segment.path)
        behind += [count] * (len(log.damage) - len(behind))
        for damage, before in zip(log.damage, behind, strict=True):
            end = f"bytes {damage.byte} to {damage.byte + damage.length}"
            kept = f"{count - before} batches behind it can be read and are kept"
            plan.act(str(damage.path), f"{end}: {damage.problem}; {kept}")
            changed.add(damage.path)
        self._tell_changes(plan)
        last = fill_acknowledged(state)
        if last.problem is not None:
            plan.act(str(self._directory), last.problem)
        self._note(plan, state, last)
        self._divide(log, changed, fill=bool(last.effects), begun=begun, plan=plan)

    def _only_workspace(self) -> str:
        """Return the only workspace; if there are several, one of nobody, so that data does not leak."""
        found = self._inventory.workspaces()
        for frame in scan(self._directory).frames():
            for _, effect in decode_leniently(frame.payload):
                if isinstance(effect, StreamCreated):
                    found.add(effect.workspace)
        return found.pop() if len(found) == 1 else LOST_AND_FOUND

    def _plan_batch(self, state: State, frame: Frame, plan: Plan) -> bool:
        changed = False
        for _, effect in decode_leniently(frame.payload):
            if isinstance(effect, Undecodable):
                where = f"{frame.segment.path}, batch {frame.position}"
                raise LogError(reason=f"{where}: {effect.problem}. This is no damage; nothing was changed")
            mended = mend(state, effect, self._home)
            if mended.problem is None:
                continue
            changed = True
            done = "kept" if mended.effects else "dropped"
            what = f"{type(effect).__name__} {done}: {mended.problem}"
            if mended.repeated:
                what = "effects that the bucket has already are left out"
            self._changes.setdefault((frame.segment.path, what), []).append(frame.position)
            self._note(plan, state, mended)
            if (
                isinstance(effect, RecordsAppended)
                and effect.data
                and not mended.effects
                and not mended.repeated
            ):
                known = state.get_id(effect.stream)
                plan.lose(effect.stream, known, effect.first, effect.next, marked=False)
        return changed

    def _tell_changes(self, plan: Plan) -> None:
        for (path, what), positions in self._changes.items():
            more = "" if len(positions) == 1 else f" and {len(positions) - 1} more"
            plan.act(str(path), f"{what} (batch {positions[0]}{more})")

    @staticmethod
    def _note(plan: Plan, state: State, mended: Mended) -> None:
        for number, first, following in mended.marked:
            plan.lose(number, state.get_id(number), first, following)

    def _divide(self, log: LogScan, changed: set[Path], *, fill: bool, begun: bool, plan: Plan) -> None:
        """Decide which segments stay, and where new ones begin."""
        flushed, end = self._examined.flushed_through, log_end(log)
        joins = continues(log.begins_after, self._examined.manifest)
        meets = joins and (begun or flushed <= end)
        if meets and not changed and not fill:
            return
        if not meets:
            plan.act(
                str(self._directory), f"it reaches from {log.begins_after} to {end}; the bucket to {flushed}"
            )
        if log.torn is not None:
            changed.add(log.torn.path)
        first = next((at for at, one in enumerate(log.files) if one.path in changed), len(log.files))
        self._kept, self._replaced = log.files[:first], log.files[first:]
        self._base = max((one.segment.end for one in self._kept if one.segment is not None), default=-1)
        if not joins or self._base < flushed:
            # Everything before is in the bucket; what follows must not be taken as flushed.
            self._kept, self._replaced = [], log.files
            self._base = flushed
        plan.act(
            str(self._directory), f"{len(self._replaced)} segments from address {self._base} on are rewritten"
        )

    def apply(self, backups: Backups) -> None:
        """Carry out the plan; after a crash the log is unchanged, complete, or can be completed."""
        if self._base is None:
            return
        # The copies are durable before the first original is touched: no crash leaves less than there was.
        for found in self._replaced:
            backups.keep_file(found.path, "log")
        backups.sync()
        self._directory.mkdir(exist_ok=True)
        replace_segments(self._directory, [one.path for one in self._replaced], self._base, self._payloads())

    def _payloads(self) -> Iterator[bytes]:
        """Yield the batches of the new segments; earlier ones are applied, too, to build up the state."""
        state = base_state(self._examined, self._inventory)
        kept = {found.path for found in self._kept}
        for frame in scan(self._directory).frames():
            if frame.position <= self._examined.flushed_through:
                continue
            payload = _mended(state, frame.payload, self._home)
            if payload and frame.segment.path not in kept:
                yield payload
        last = fill_acknowledged(state)
        if last.effects:
            yield _encoded(last.effects)


def _mended(state: State, payload: bytes, home: str) -> bytes:
    """Return a batch without contradictions; if it has none, byte for byte the same."""
    effects: list[Effect] = []
    changed = False
    for _, effect in decode_leniently(payload):
        assert not isinstance(effect, Undecodable), "the plan has refused it"
        mended = mend(state, effect, home)
        changed |= mended.problem is not None
        effects += mended.effects
    return _encoded(effects) if changed else payload


def _encoded(effects: Sequence[Effect]) -> bytes:
    return b"".join(map(batch.encode, effects))
