"""What a partition owes to another is delivered exactly once, wherever the process dies."""

from collections.abc import Iterable

import pytest

from durable_sessions.streams import outbox_intake
from durable_sessions.streams.effects import Effect, OutboxDelivered, OutboxEffect
from durable_sessions.streams.outbox import OwedRecord, PartitionOutbox
from durable_sessions.streams.state import State
from durable_sessions.testing.simulation.parallel_runs import run_all
from durable_sessions.testing.simulation.plan import End
from durable_sessions.testing.simulation.run import run_outbox_scenario


def test_the_scenario_delivers_everything() -> None:
    result, reached = run_outbox_scenario(None)
    assert not result.problems
    assert {
        "after log.sync",
        "after log.unlink",
        "after bucket.create subscriptions",
        "after bucket.create manifest",
    } <= set(reached)


def cut_off(case: tuple[int, End]) -> tuple[tuple[int, End], list[str]]:
    return case, run_outbox_scenario(*case)[0].problems


def test_a_crash_at_any_point_delivers_everything_once() -> None:
    _, reached = run_outbox_scenario(None)
    cases: list[tuple[int, End]] = [
        (point, "power" if point % 2 else "kill") for point in range(1, len(reached) + 1)
    ]
    failed = {
        (*case, reached[case[0] - 1]): problems for case, problems in run_all(cut_off, cases) if problems
    }
    assert not failed


def _found(where: str) -> list[str]:
    """Cut the scenario off at the points of one name until there are problems, and return these."""
    _, reached = run_outbox_scenario(None)
    for point, name in enumerate(reached, 1):
        if name == where:
            problems = run_outbox_scenario(point, "kill")[0].problems
            if problems:
                return problems
    return []


def test_a_target_that_takes_a_repeated_record_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = outbox_intake.take

    def forgetful(state: State, record: OwedRecord, now_ms: int) -> list[Effect]:
        stream = state.get(record.target)
        if stream is not None:
            stream.producers = {}
        return take(state, record, now_ms)

    monkeypatch.setattr(outbox_intake, "take", forgetful)
    assert run_outbox_scenario(None)[0].problems, "the scenario loses an acknowledgement now and then"


def test_an_outbox_that_ends_with_the_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(effects: Iterable[Effect]) -> list[Effect]:
        return [effect for effect in effects if not isinstance(effect, OutboxEffect)]

    monkeypatch.setattr("durable_sessions.tier.fold.without_delivered", nothing)
    assert _found("after log.unlink")


def test_numbers_that_are_used_again_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = PartitionOutbox.snapshot

    def unmarked(outbox: PartitionOutbox) -> list[OutboxEffect]:
        return [one for one in snapshot(outbox) if not isinstance(one, OutboxDelivered)]

    monkeypatch.setattr(PartitionOutbox, "snapshot", unmarked)
    monkeypatch.setattr(PartitionOutbox, "number_from", lambda self, number: None)
    assert _found("before log.write")
