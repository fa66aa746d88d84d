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
SESSION, SUFFIX = "tests/memory/test_session.py", "tests/memory/test_compaction_suffix.py"
FAILING = dict.fromkeys(
    (
        f"{SUFFIX}::test_cancelled_suffix_transaction_settles_before_newer_append[sqlite]",
        f"{SUFFIX}::test_failed_encrypted_suffix_transaction_preserves_original_tokens[sqlite-False]",
        f"{SUFFIX}::test_failed_encrypted_suffix_transaction_preserves_original_tokens[sqlite-True]",
        f"{SUFFIX}::test_suffix_transaction_rolls_back_failed_insert[sqlite]",
        f"{SESSION}::test_sqlite_session_close_closes_worker_thread_connections",
        f"{SESSION}::test_sqlite_session_close_retries_quarantined_connection",
        f"{SESSION}::test_sqlite_session_closed_rejects_empty_add_items",
        f"{SESSION}::test_sqlite_session_closes_retired_connections_before_the_next_allocation",
        f"{SESSION}::test_sqlite_session_failed_add_items_releases_write_lock",
        f"{SESSION}::test_sqlite_session_failed_clear_session_rolls_back",
        f"{SESSION}::test_sqlite_session_failed_pop_item_releases_write_lock",
        f"{SESSION}::test_sqlite_session_file_lock_is_shared_across_instances",
        f"{SESSION}::test_sqlite_session_get_items_limit_skips_corrupt_newest_rows",
        f"{SESSION}::test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows",
        f"{SESSION}::test_sqlite_session_keeps_connections_of_live_worker_threads",
        f"{SESSION}::test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows",
        f"{SESSION}::test_sqlite_session_pop_item_skips_corrupt_most_recent",
        f"{SESSION}::test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome[add]",
        f"{SESSION}::test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome[clear]",
        f"{SESSION}::test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome[pop]",
        f"{SESSION}::test_sqlite_session_reaps_connections_from_exited_worker_threads",
        f"{SESSION}::test_sqlite_session_rollback_failure_evicts_connection",
    ),
    LOOKS_INSIDE,
)


def test_the_tests_of_the_sdk_pass_with_our_session(
    shared: BackgroundServer, tmp_path: Path, record_property: upstream.Record
) -> None:
    suite = upstream.Suite(upstream.sources("openai-agents", tmp_path), "openai", shared.url, record_property)
    suite.check(FILES, passing=378, failing=FAILING, options=["-n", "2"])
