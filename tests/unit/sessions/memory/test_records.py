"""Records of a memory scope: who redacted them, also as earlier versions wrote it."""

import pytest

from durable_sessions.sessions.memory import records
from durable_sessions.sessions.memory.records import WriteRecord
from durable_sessions.sessions.tombstones import Mark

MARK = '"redacted":{"event":null,"at":"2026-01-01T00:00:00Z","reason":"%s","sha256":null,"bytes":3}'
FRONT = (
    '{"type":"ds.memory.written","id":"w","session":"%s","incarnation":"","created_at":"2026-01-01T00:00:00Z",'
    '"actor":"ann","key":"k","value":null,"kind":"note","why":"api","because":[]'
)


@pytest.mark.parametrize(
    ("session", "said", "who"),
    [
        ("", "", None),
        ("", "," + MARK % "redacted by bob", "bob"),
        ("", "," + MARK % "The memory version was redacted." + ',"redacted_by":"bob"', "bob"),
        ("", "," + MARK % "redacted by eve" + ',"redacted_by":"bob"', "bob"),
        ("s", "," + MARK % "redacted by eve", None),  # the reason of whoever redacted the session's event
        ("s", "," + MARK % "a password" + ',"redacted_by":"bob"', "bob"),
    ],
)
def test_who_redacted_a_write_is_known(session: str, said: str, who: str | None) -> None:
    record = records.decode((FRONT % session + said + "}").encode())
    assert isinstance(record, WriteRecord)
    assert records.redactor(record) == who


def test_who_erases_a_record_is_kept_apart_from_the_reason() -> None:
    record = records.decode((FRONT % "s" + "}").encode())
    mark = Mark("sevt_1", "2026-01-01T00:00:00Z", "a password", None, 3)
    erased = records.erased(record, mark, "bob")
    assert isinstance(erased, WriteRecord)
    again = records.decode(records.encode(erased))
    assert isinstance(again, WriteRecord)
    assert (again.redacted, records.redactor(again)) == (mark, "bob")
