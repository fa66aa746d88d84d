"""The engine: only what is new is sent, what waits is sent later, and what cannot be read stops nothing."""

import json
from collections.abc import Sequence
from pathlib import Path

from durable_sessions.importers.destination import BatchCounts
from durable_sessions.importers.engine import ImportEngine
from durable_sessions.importers.registry import TOOLS
from durable_sessions.importers.session_filter import choose, parse_since
from durable_sessions.importers.state import ImportState, Progress, default_path
from durable_sessions.importers.tally import OTHERS, REASONS_MAX, Reasons
from durable_sessions.redaction import Redactor
from tests.importers.memory_destination import MemoryDestination
from tests.importers.talks import claude_code_talk, lines

NAME = "11111111-2222-4333-8444-555555555555"
SESSION = f"claude-code:{NAME}"


def written(folder: Path, turns: int = 3) -> Path:
    path = folder / f"{NAME}.jsonl"
    path.write_bytes(lines(claude_code_talk(turns)))
    return path


def test_unchanged_files_are_not_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    destination, state = MemoryDestination(), ImportState(tmp_path / "state.db", "memory")
    first = ImportEngine(destination, state).run(TOOLS["claude-code"].discover([path]))
    assert first.new_events == len(destination.sessions[SESSION].events) > 0
    again = ImportEngine(destination, state).run(TOOLS["claude-code"].discover([path]))
    assert (again.tally.records, [one.status for one in again.outcomes]) == (0, ["unchanged"])


def test_grown_files_send_their_tail(tmp_path: Path) -> None:
    path = written(tmp_path)
    destination, state = Counting(), ImportState(tmp_path / "state.db", "memory")
    ImportEngine(destination, state).run(TOOLS["claude-code"].discover([path]))
    sent = destination.sent
    path.write_bytes(lines(claude_code_talk(4)))
    report = ImportEngine(destination, state).run(TOOLS["claude-code"].discover([path]))
    assert destination.sent - sent == report.new_events > 0


def test_rewritten_files_are_sent_again(tmp_path: Path) -> None:
    path = written(tmp_path, 4)
    destination, state = MemoryDestination(), ImportState(tmp_path / "state.db", "memory")
    engine = ImportEngine(destination, state)
    transcripts = TOOLS["claude-code"].discover([path])
    engine.run(transcripts)
    before = len(destination.sessions[SESSION].events)
    other = claude_code_talk(2)
    other[0]["uuid"] = "another"
    path.write_bytes(lines(other))
    engine.run(transcripts)
    assert len(destination.sessions[SESSION].events) == before + 1
    path.write_bytes(lines(claude_code_talk(5)))
    ImportEngine(destination, state).run(TOOLS["claude-code"].discover([path]))
    whole = MemoryDestination()
    ImportEngine(whole, ImportState(None, "")).run(TOOLS["claude-code"].discover([path]))
    assert whole.sessions[SESSION].events.keys() <= destination.sessions[SESSION].events.keys()


def test_lost_and_damaged_state_cost_only_time(tmp_path: Path) -> None:
    path, place = written(tmp_path), tmp_path / "state.db"
    destination = MemoryDestination()
    for damage in (None, b"", b"not a database at all, but long enough to be taken for one" * 20):
        if damage is not None:
            place.write_bytes(damage)
        report = ImportEngine(destination, ImportState(place, "memory")).run(
            TOOLS["claude-code"].discover([path])
        )
        assert report.new_events == (len(destination.sessions[SESSION].events) if damage is None else 0)


def test_state_of_sessions_that_are_gone_is_forgotten(tmp_path: Path) -> None:
    state = ImportState(tmp_path / "state.db", "memory")
    state.set("codex", "codex:a", {"one": Progress("f", 3, "x")})
    state.set("codex", "codex:b", {"two": Progress("f", 3, "x")})
    state.keep_sessions("codex", {"codex:b"})
    assert state.get("codex", "one") == Progress()
    assert state.get("codex", "two").sent == 3
    assert state.get("claude-code", "two") == Progress()


def test_a_file_that_was_imported_is_not_unchanged_for_another_tool(tmp_path: Path) -> None:
    path = written(tmp_path)
    engine = ImportEngine(MemoryDestination(), ImportState(tmp_path / "state.db", "memory"))
    assert engine.run(TOOLS["claude-code"].discover([path])).outcomes[0].status == "imported"
    another = ImportEngine(MemoryDestination(), ImportState(tmp_path / "state.db", "memory"))
    assert another.run(TOOLS["jsonl"].discover([path])).outcomes[0].status != "unchanged"


def test_dry_runs_leave_no_trace(tmp_path: Path) -> None:
    path = written(tmp_path)
    state = ImportState(tmp_path / "state.db", "memory", read_only=True)
    ImportEngine(MemoryDestination(), state).run(TOOLS["claude-code"].discover([path]))
    assert state.get("claude-code", f"{path} {path.name}") == Progress()


def test_batches_are_bounded(tmp_path: Path) -> None:
    path = written(tmp_path, 400)
    destination = Counting()
    ImportEngine(destination, ImportState(None, "")).run(TOOLS["claude-code"].discover([path]))
    assert max(destination.batches) <= 500
    assert len(destination.batches) > 4


def test_a_source_that_cannot_be_read_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "good.traj").write_text(
        json.dumps({"trajectory": [{"thought": "Hm."}], "history": [], "info": {}})
    )
    (tmp_path / "half.traj").write_text('{"trajectory": [')
    report = ImportEngine(MemoryDestination(), ImportState(None, "")).run(
        TOOLS["swe-agent"].discover([tmp_path])
    )
    by_session = {outcome.session: outcome for outcome in report.outcomes}
    assert by_session["swe-agent:good"].status == "imported"
    assert "half.traj is not JSON" in (by_session["swe-agent:half"].problem or "")


def test_redacted_before_it_is_sent(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    talk = claude_code_talk(1)
    talk[0]["message"]["content"] = f"Use {secret}"
    (tmp_path / f"{NAME}.jsonl").write_bytes(lines(talk))
    destination = MemoryDestination()
    engine = ImportEngine(destination, ImportState(None, ""), redactor=Redactor())
    report = engine.run(TOOLS["claude-code"].discover([tmp_path]))
    session = destination.sessions[SESSION]
    assert secret not in json.dumps(session.events)
    assert secret not in (session.title or "")
    assert report.tally.redacted["github-token"] >= 1


def test_reasons_are_short_printable_and_not_too_many() -> None:
    reasons = Reasons()
    for number in range(REASONS_MAX + 50):
        reasons[f"kind {number}"] += 2
    reasons["\x1b[31m" + "x" * 500] += 1
    reasons["kind 7"] += 1
    assert len(reasons) == REASONS_MAX + 1
    assert (reasons[OTHERS], reasons["kind 7"]) == (101, 3)
    few = Reasons()
    for _ in range(3):
        few["\x1b[31m" + "x" * 500] += 1
    assert few == {"?[31m" + "x" * 75: 3}


def test_choosing(tmp_path: Path) -> None:
    path = written(tmp_path)
    found = TOOLS["claude-code"].discover([path])
    assert found[0].directory == "/srv/demo"
    for project, reason in (
        ("demo", None),
        ("/srv", None),
        ("/srv/demo", None),
        ("/srv/de", "another project"),
        ("dem", "another project"),
    ):
        assert [why for _, why in choose(found, project=project)] == [reason]
    assert [why for _, why in choose(found, since=parse_since("2999-01-01"))] == ["older than --since"]
    assert [why for _, why in choose(found, since=parse_since("2020-01-01"))] == [None]


def test_where_the_state_is(tmp_path: Path) -> None:
    assert default_path({}, Path("/home/a")) == Path("/home/a/.local/state/durable-sessions/imports.db")
    assert default_path({"XDG_STATE_HOME": "/s"}, Path("/home/a")) == Path("/s/durable-sessions/imports.db")


class Counting(MemoryDestination):
    """Counts what it is sent, new or not."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    @property
    def sent(self) -> int:
        return sum(self.batches)

    def append(self, session: str, events: Sequence[bytes], source: str | None = None) -> BatchCounts:
        self.batches.append(len(events))
        return super().append(session, events, source)
