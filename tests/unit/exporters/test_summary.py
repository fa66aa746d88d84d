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
