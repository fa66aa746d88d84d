"""What a session says of itself above its transcript."""

import pytest

from durable_sessions.exporters.summary import facts, shown_status


@pytest.mark.parametrize(
    ("session", "status"),
    [
        ({"status": "idle"}, "idle"),
        ({"status": "running", "lifecycle": "active"}, "running"),
        ({"status": "idle", "imported": True}, "imported"),
        ({"status": "running", "imported": True}, "imported"),
        ({"status": "terminated", "imported": True}, "terminated"),
        ({"status": "idle", "imported": True, "lifecycle": "closed"}, "closed"),
        ({"status": "idle", "lifecycle": "archived"}, "archived"),
        ({}, ""),
    ],
)
def test_a_finished_transcript_is_not_said_to_run(session: dict[str, object], status: str) -> None:
    assert shown_status(session) == status
    assert dict(facts(session)[1]).get("Status", "") == status


@pytest.mark.parametrize(
    ("forked_from", "said"),
    [
        ({"session_id": "build-42", "position": 3}, "build-42, from #3 on"),
        ({"session_id": "build-42"}, "build-42"),
        (None, None),
        ("odd", None),
    ],
)
def test_a_fork_names_its_source(forked_from: object, said: str | None) -> None:
    assert dict(facts({"title": "Same", "forked_from": forked_from})[1]).get("Fork of") == said
