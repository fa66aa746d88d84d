"""How two sessions differ: what each did behind the events that they share, and what each knows now."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from durable_sessions import lenient
from durable_sessions.limits import Limits
from durable_sessions.schema_notes import Offset, Whole, about
from durable_sessions.sessions.event_times import happened_ms
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.folded_session import KnownFact
from durable_sessions.sessions.graph.happened import CALLS, MODEL_REQUEST_END, RESULTS, Happened, ModelUsage
from durable_sessions.sessions.graph.schemas import Verdict
from durable_sessions.streams import offsets


class CommonPrefix(msgspec.Struct):
    """The nearest common ancestor, and how many of its events both share."""

    session: str
    position: Whole


class AttachedFile(msgspec.Struct):
    """An artifact that was attached."""

    role: str
    name: str
    sha256: str


class MemoryCounts(msgspec.Struct):
    """How often memory was written and read."""

    writes: Whole = 0
    reads: Whole = 0


class BranchSide(msgspec.Struct):
    """What one side did behind the common prefix."""

    session: str
    offset: Offset
    events: Whole
    tools: Annotated[dict[str, int], about("Tool calls, counted by name.")]
    failed_calls: Whole
    files: Annotated[list[str], about("The targets of effects, sorted.")]
    artifacts: list[AttachedFile]
    memory: MemoryCounts
    usage: ModelUsage
    seconds: Annotated[float, about("From when the first event behind the prefix happened to the last.")]
    done: bool | None


class DifferingFact(msgspec.Struct):
    """A fact whose value differs; null where there is none."""

    key: str
    a: msgspec.Raw
    b: msgspec.Raw


class DifferingVerdict(msgspec.Struct):
    """A feature on which the last verdicts differ; null where there is none."""

    feature: str
    a: Verdict | None
    b: Verdict | None


class SessionDifference(msgspec.Struct):
    """How two sessions differ."""

    a: BranchSide
    b: BranchSide
    common: CommonPrefix | None
    facts: list[DifferingFact]
    verdicts: list[DifferingVerdict]


class _Effect(msgspec.Struct):
    target: msgspec.Raw = lenient.NULL


class _Result(msgspec.Struct):
    effects: msgspec.Raw = lenient.NULL


_RESULT = msgspec.json.Decoder(_Result)
_EFFECTS = msgspec.json.Decoder(list[_Effect])


class BranchTally:
    """Counts what is behind the common prefix; total, and bounded like the lists of a state."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._events = self._failed = 0
        self._tools: dict[str, int] = {}
        self._files: set[str] = set()
        self._artifacts: list[AttachedFile] = []
        self._usage = ModelUsage()
        self._first_ms: int | None = None
        self._last_ms = 0

    def step(self, happened: Happened) -> None:
        """Take the next event."""
        self._events += 1
        at_ms = happened_ms(happened.body)  # of imported events not when they were stored
        if at_ms is not None:
            self._first_ms = at_ms if self._first_ms is None else min(self._first_ms, at_ms)
            self._last_ms = max(self._last_ms, at_ms)
        if happened.type in CALLS:
            name = (happened.members.text("name") or "")[: self._limits.graph_name_max]
            if name in self._tools or len(self._tools) < self._limits.state_list_max:
                self._tools[name] = self._tools.get(name, 0) + 1
        elif happened.type in RESULTS:
            self._failed += happened.members.failed
            self._touch(happened)
        elif happened.type == MODEL_REQUEST_END:
            self._usage.add(happened.usage())
        elif isinstance(said := happened.strict, schemas.ArtifactAttached):
            self._artifacts.append(AttachedFile(said.role, said.name, said.sha256))
            del self._artifacts[: -self._limits.state_list_max]

    def side(self, session: str, fold: Fold) -> BranchSide:
        """Return what was counted, of a session that was folded up to the same event."""
        first_ms = self._last_ms if self._first_ms is None else self._first_ms
        return BranchSide(
            session,
            offsets.encode(fold.folded.position),
            self._events,
            self._tools,
            self._failed,
            sorted(self._files),
            self._artifacts,
            MemoryCounts(),
            self._usage,
            max(0, self._last_ms - first_ms) / 1_000,
            fold.control.done,
        )

    def _touch(self, happened: Happened) -> None:
        try:
            effects = lenient.decode(_EFFECTS, bytes(lenient.decode(_RESULT, happened.body).effects))
        except (msgspec.MsgspecError, RecursionError):
            return
        for effect in effects:
            target = lenient.text(effect.target)
            if target and len(self._files) < self._limits.state_list_max:
                self._files.add(target[: self._limits.graph_text_max])


def differing_facts(a: Mapping[str, KnownFact], b: Mapping[str, KnownFact]) -> list[DifferingFact]:
    """Return the facts that differ, by key."""
    return [
        DifferingFact(key, _value(a.get(key)), _value(b.get(key)))
        for key in sorted(a.keys() | b.keys())
        if not is_same(a.get(key), b.get(key))
    ]


def differing_verdicts(a: Fold, b: Fold) -> list[DifferingVerdict]:
    """Return the features whose last verdicts differ, by id."""
    ours, theirs = _verdicts(a), _verdicts(b)
    return [
        DifferingVerdict(name, ours.get(name), theirs.get(name))
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def is_same(a: KnownFact | None, b: KnownFact | None) -> bool:
    """Whether two facts have the same value, however it is written."""
    if a is None or b is None:
        return a is b
    return bytes(a.value) == bytes(b.value) or _canonical(a.value) == _canonical(b.value)


def _canonical(value: msgspec.Raw) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(value), order="deterministic")


def _value(fact: KnownFact | None) -> msgspec.Raw:
    return lenient.NULL if fact is None else fact.value


def _verdicts(fold: Fold) -> dict[str, Verdict | None]:
    outcome = fold.control.outcome
    return {} if outcome is None else {feature.id: feature.verdict for feature in outcome.features}
