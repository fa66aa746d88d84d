"""The judge of shared memory: what is right passes, and each fault is seen."""

from copy import deepcopy
from typing import Any

import pytest

from tests.support.memory_history import judge


def history() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what two agents said, and the log: a write, one over it, a recall, a roll-back, and reads."""
    log: list[dict[str, Any]] = [
        {"type": "written", "id": "a1", "session": "a", "key": "k"},
        {"type": "written", "id": "b1", "session": "b", "key": "k"},
        {"type": "read", "id": "r1", "session": "a", "returned": [{"id": "b1", "session": "b"}]},
        {"type": "rolled_back", "id": "b2", "session": "b", "write": "b1"},
        {"type": "written", "id": "a2", "session": "a", "key": "m"},
    ]
    said = [
        told("write", "a", 0, 1, id="a1", key="k"),
        told("read", "b", 2, 3, at=1, found={"k": "a1"}),
        told("write", "b", 4, 6, id="b1", key="k"),
        told("recall", "a", 5, 7, id="r1", at=2, found={"k": "b1"}),
        told("undo", "b", 8, 9, id="b2", write="b1"),
        told("read", "a", 10, 11, at=4, found={"k": "a1"}),
        told("write", "a", 12, 13, id="a2", key="m"),
        told("read", "b", 14, 15, at=5, found={"k": "a1", "m": "a2"}),
    ]
    return said, [{**record, "position": position} for position, record in enumerate(log)]


def told(act: str, by: str, begun: float, ended: float, **more: Any) -> dict[str, Any]:
    return {"act": act, "by": by, "begun": begun, "ended": ended, **more}


FAULTS: dict[str, tuple[int, dict[str, Any]]] = {
    "a read does not see what was acknowledged": (5, {"at": 2, "found": {"k": "b1"}}),
    "a read goes back behind another": (7, {"at": 1, "found": {"k": "a1"}}),
    "a write is lost to a read": (7, {"found": {"k": "a1"}}),
    "a read has what was taken back": (5, {"found": {"k": "b1"}}),
    "a read finds nothing": (1, {"found": {}}),
    "a read has another key": (1, {"found": {"m": "a1"}}),
    "a read has what nobody wrote": (1, {"found": {"k": "a9"}}),
    "a read has what was written after it": (1, {"at": 2, "found": {"k": "b1"}}),
    "a recall is recorded before what it saw": (3, {"at": 4, "found": {"k": "a1"}}),
    "a recall is recorded with other writes": (3, {"at": 1, "found": {"k": "a1"}}),
    "a roll-back is recorded of another write": (4, {"write": "a1"}),
    "a write is recorded under another key": (0, {"key": "m"}),
    "a write is recorded behind a later one": (0, {"begun": -5, "ended": -4, "id": "b1", "by": "b"}),
}


def test_what_is_right_passes() -> None:
    judge(*history())


@pytest.mark.parametrize(("index", "change"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_seen(index: int, change: dict[str, Any]) -> None:
    said, log = history()
    said[index] |= change
    with pytest.raises(AssertionError):
        judge(said, log)


@pytest.mark.parametrize("index", [0, 2, 3, 4])
def test_an_acknowledged_record_that_the_log_does_not_have_is_seen(index: int) -> None:
    said, log = history()
    del log[index]
    said = [one for one in said if one["act"] != "read"]
    with pytest.raises(AssertionError):
        judge(said, renumbered(log))


def test_a_record_twice_is_seen() -> None:
    said, log = history()
    with pytest.raises(AssertionError):
        judge(said, renumbered([*log, deepcopy(log[4])]))


def test_records_in_another_order_than_they_were_acknowledged_are_seen() -> None:
    said, log = history()
    writes = [one for one in said if one["act"] in ("write", "undo")]
    kept = [one for one in log if one["type"] != "read"]
    judge(writes, renumbered(kept))
    with pytest.raises(AssertionError, match="went back"):
        judge(writes, renumbered([kept[3], *kept[:3]]))


def renumbered(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**record, "position": position} for position, record in enumerate(log)]
