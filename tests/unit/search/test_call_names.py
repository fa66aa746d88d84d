"""The name of a tool is found by its call, as long as calls are remembered."""

from durable_sessions.search import call_names
from durable_sessions.search.call_names import CALLS_REMEMBERED_MAX, RecentCalls, key_of


def test_ids_of_clients_are_of_one_stream_and_ids_of_the_server_of_all() -> None:
    assert key_of(1, "call-1") != key_of(2, "call-1")
    assert key_of(1, "sevt_1") == key_of(2, "sevt_1")


def test_a_term_begins_with_its_call() -> None:
    assert call_names.term("k", "bash").startswith(call_names.beginning("k"))
    assert not call_names.term("kk", "bash").startswith(call_names.beginning("k"))


def test_the_latest_calls_are_remembered_up_to_the_limit() -> None:
    calls = RecentCalls()
    for number in range(CALLS_REMEMBERED_MAX):
        calls.note("w", str(number), "bash")
    assert calls.find("w", "0") == "bash"
    calls.note("w", "one more", "bash")
    assert calls.find("w", "0") is None
    assert calls.find("w", "1") == "bash"
    assert calls.find("other", "1") is None
