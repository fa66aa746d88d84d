"""The OpenAI Agents SDK's tests of sessions and compaction, with our session in place of its SQLite one."""

from pathlib import Path

from durable_sessions.testing import BackgroundServer
from tests.adapters import upstream

upstream.needed("openai-agents")

FILES = [
    *(
        f"tests/memory/test_session{name}.py"
        for name in ("", "_limit", "_persistence_sanitize", "_context_wrapper")
    ),
    *("tests/memory/test_compaction_suffix.py", "tests/memory/test_compaction_model_visibility.py"),
    "tests/deferred_session_writes",
]
LOOKS_INSIDE = "looks into SQLite: its connections, locks, tables or rows"
EXPECTED = dict.fromkeys(
    (
        "test_sqlite_session_failed_pop_item_releases_write_lock",
        "test_sqlite_session_rollback_failure_evicts_connection",
        "test_sqlite_session_close_retries_quarantined_connection",
        "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome",
        "test_sqlite_session_close_closes_worker_thread_connections",
        "test_sqlite_session_reaps_connections_from_exited_worker_threads",
        "test_sqlite_session_closes_retired_connections_before_the_next_allocation",
        "test_sqlite_session_keeps_connections_of_live_worker_threads",
        "test_sqlite_session_closed_rejects_empty_add_items",
        "test_sqlite_session_pop_item_skips_corrupt_most_recent",
        "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows",
        "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows",
        "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows",
        "test_sqlite_session_file_lock_is_shared_across_instances",
        "test_sqlite_session_failed_add_items_releases_write_lock",
        "test_sqlite_session_failed_clear_session_rolls_back",
        "test_suffix_transaction_rolls_back_failed_insert",
        "test_cancelled_suffix_transaction_settles_before_newer_append",
        "test_failed_encrypted_suffix_transaction_preserves_original_tokens",
    ),
    LOOKS_INSIDE,
)


def test_the_tests_of_the_sdk_pass_with_our_session(shared: BackgroundServer, tmp_path: Path) -> None:
    folder = upstream.sources("openai-agents", tmp_path)
    passed = upstream.run(
        folder, FILES, "openai", shared.url, expected=EXPECTED, left_out={}, options=["-n", "2"]
    )
    assert passed >= 378
