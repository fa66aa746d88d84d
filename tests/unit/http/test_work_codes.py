"""The statuses of what the work on a session can be refused with: clients decide by them what to do next."""

import pytest

from durable_sessions.http.error_codes import STATUS_BY_CODE
from durable_sessions.http.openapi.error_headers import is_final

CODES = {
    400: (
        "invalid_event unknown_event_type unresolved_reference unknown_parameter context_too_small "
        "offset_beyond_tail invalid_request"
    ),
    403: "permission_error not_independent lease_lost lease_required not_routed principal_mismatch",
    404: "session_not_found event_not_found",
    410: "artifact_redacted session_replaced",
    412: "precondition_failed",
    409: (
        "session_paused approval_pending budget_exceeded session_claimed gate_closed invalid_transition "
        "nothing_pending ratchet adopt_conflict too_many_facts stream_closed session_archived legal_hold"
    ),
    503: "view_unavailable",
}


@pytest.mark.parametrize("status", CODES)
def test_each_code_has_its_status(status: int) -> None:
    codes = CODES[status].split()
    assert {code: STATUS_BY_CODE.get(code) for code in codes} == dict.fromkeys(codes, status)


def test_only_a_claim_passes_by_itself() -> None:
    """The official clients try a 409 again unless they are told not to."""
    final = [code for status in (403, 409) for code in CODES[status].split() if is_final(status, code)]
    assert {*CODES[403].split(), *CODES[409].split()} - {*final} == {"session_claimed"}
