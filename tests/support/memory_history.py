"""The judge of what agents saw of a memory scope that they shared, beside the log of the scope.

The log orders all that was recorded. An operation has its *moments* in it: that of its record, and, if it
read memory, the one between the records that it saw and the later ones. What was seen is right if the log has
everything that was acknowledged and nothing else, each read is what the records before its moment leave, and
nothing goes back: of two operations, the one that began after the other was acknowledged is the later one.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_KINDS = {"write": "written", "undo": "rolled_back", "recall": "read"}
"""What an act of an agent is called in the log; reading without a trace is not in it."""


class Moment(NamedTuple):
    """Where in the log an operation took effect: at a position, or half a step before the next one."""

    place: float
    begun: float
    ended: float
    of: dict[str, Any]


def judge(said: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> None:
    """Raise :class:`AssertionError` unless what agents said is right by the log of the scope."""
    assert [one["position"] for one in log] == list(range(len(log))), "positions are missing"
    judge_records(said, log)
    for one in said:
        if "found" in one:
            assert one["found"] == live(log[: one["at"]]), ("not what the records before leave", one)
    judge_order(said, log)


def judge_records(said: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> None:
    """Everything that was acknowledged is in the log once, as it was said, and nothing else is."""
    acts = {one["id"]: one for one in said if one["act"] in _KINDS}
    assert sorted(acts) == sorted(one["id"] for one in log), (
        "the log has other records than were acknowledged"
    )
    for record in log:
        act = acts[record["id"]]
        assert record["type"] == _KINDS[act["act"]], (record, act)
        assert record["session"] == act["by"], (record, act)
        if act["act"] == "recall":
            assert act["at"] <= record["position"], ("a read is recorded before what it saw", act)
            assert sorted(one["id"] for one in record["returned"]) == sorted(act["found"].values()), act
        else:
            member = "key" if act["act"] == "write" else "write"
            assert record[member] == act[member], (record, act)


def judge_order(said: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> None:
    """What begins after an acknowledgement sees what was acknowledged, and is recorded behind it."""
    seen = sorted(moments(said, log), key=lambda moment: moment.place)
    # From the last moment to the first: the earliest end of all that lie behind.
    ended_first: Moment | None = None
    for moment in reversed(seen):
        if ended_first is not None and ended_first.place > moment.place:
            assert ended_first.ended >= moment.begun, ("it went back behind", ended_first.of, moment.of)
        if ended_first is None or moment.ended < ended_first.ended:
            ended_first = moment


def moments(said: Sequence[dict[str, Any]], log: Sequence[dict[str, Any]]) -> Iterator[Moment]:
    """Yield the moments of all operations; a recall has two."""
    positions = {one["id"]: one["position"] for one in log}
    for one in said:
        if "found" in one:
            yield Moment(one["at"] - 0.5, one["begun"], one["ended"], one)
        if one["act"] in _KINDS:
            yield Moment(positions[one["id"]], one["begun"], one["ended"], one)


def live(records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the newest write of each key that these records do not roll back."""
    undone = {one["write"] for one in records if one["type"] == "rolled_back"}
    return {one["key"]: one["id"] for one in records if one["type"] == "written" and one["id"] not in undone}
