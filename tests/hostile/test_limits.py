"""Every limit that a stranger can reach is pressed on: what is at it passes, what is beyond it is refused."""

import asyncio
import importlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from durable_sessions.limits import DEFAULT_LIMITS, names
from tests.hostile.arena import MIB, Arena
from tests.hostile.crowding import strangers
from tests.hostile.stranger import PATIENCE_SECONDS, Stranger, request
from tests.support.process import counts_in_one_process

pytestmark = pytest.mark.anyio

PRESSED = {
    "append_body_bytes_max": "test_bulk.test_what_is_huge_is_refused",
    "append_messages_max": "test_limits.test_at_the_limit_and_beyond_it",
    "json_depth_max": "test_limits.test_at_the_limit_and_beyond_it",
    "path_bytes_max": "test_limits.test_at_the_limit_and_beyond_it",
    "content_type_bytes_max": "test_limits.test_at_the_limit_and_beyond_it",
    "target_bytes_max": "test_limits.test_at_the_limit_and_beyond_it",
    "header_bytes_max": "test_limits.test_at_the_limit_and_beyond_it",
    "header_count_max": "test_limits.test_at_the_limit_and_beyond_it",
    "producer_id_bytes_max": "test_limits.test_at_the_limit_and_beyond_it",
    "producers_per_stream_max": "test_limits.test_producers",
    "stream_seq_bytes_max": "test_limits.test_at_the_limit_and_beyond_it",
    "producer_number_max": "test_limits.test_at_the_limit_and_beyond_it",
    "ttl_seconds_max": "test_limits.test_at_the_limit_and_beyond_it",
    "fork_depth_max": "test_limits.test_forks_of_forks",
    "read_chunk_bytes_max": "test_limits.test_one_read",
    "pending_bytes_max": "test_limits.test_appends_that_are_not_durable_yet",
    "unflushed_bytes_max": "test_limits.test_appends_that_are_not_in_the_bucket_yet",
    "memory_bytes_max": "test_live.test_large_events_on_many_streams",
    "block_cache_bytes_max": "test_live.test_large_events_on_many_streams",
    "waiters_max": "test_limits.test_readers_who_wait",
    "connections_max": "test_limits.test_connections",
    "refused_connections_max": "test_limits.test_connections",
    "pipeline_requests_max": "test_bulk.test_pipelines_with_large_heads",
    "header_seconds_max": "test_slow.test_heads_that_never_end",
    "body_seconds_max": "test_slow.test_bodies_that_never_end",
    "idle_seconds_max": "test_slow.test_connections_without_a_request",
    "write_stall_seconds_max": "test_slow.test_answers_that_nobody_reads",
    "write_buffer_bytes_max": "test_live.test_subscribers_who_stop_reading",
    "turn_bytes_max": "test_live.test_large_records_that_wake_a_herd",
    "untaken_bytes_max": "test_slow.test_answers_that_are_read_byte_by_byte",
    "read_ahead_bytes_max": "test_bulk.test_bodies_that_wait_for_their_turn",
    "request_bytes_max": "test_bulk.test_bodies_that_wait_for_their_turn",
    "linger_seconds_max": "test_limits.test_who_is_refused_and_sends_on",
    "linger_bytes_max": "test_limits.test_who_is_refused_and_sends_on",
    "sse_seconds_max": "test_limits.test_how_long_a_stream_is_followed",
    "sse_heartbeat_seconds_max": "test_limits.test_how_long_a_stream_is_followed",
    "sse_shared_frames_max": "test_live.test_large_events_on_many_streams",
    "sse_shared_bytes_max": "test_live.test_large_events_on_many_streams",
    "subscriptions_max": "test_subscriptions.test_more_subscriptions_and_streams_than_there_may_be",
    "subscription_streams_max": "test_subscriptions.test_more_subscriptions_and_streams_than_there_may_be",
    "subscription_text_max": "test_limits.test_at_the_limit_and_beyond_it",
    "lease_milliseconds_min": "test_limits.test_at_the_limit_and_beyond_it",
    "lease_milliseconds_max": "test_limits.test_at_the_limit_and_beyond_it",
    "webhook_seconds_max": "test_subscriptions.test_receivers_that_are_traps",
    "webhook_answer_bytes_max": "test_subscriptions.test_receivers_that_are_traps",
    "webhook_deliveries_max": "test_subscriptions.test_receivers_that_are_traps",
    **dict.fromkeys(
        (
            *("event_type_max", "event_id_max", "idempotency_key_max", "session_document_bytes_max"),
            *("page_events_max", "page_items_max"),
        ),
        "test_sessions.test_at_the_limit_and_beyond_it",
    ),
    "artifact_body_seconds_max": "test_sessions.test_an_artifact_that_never_ends",
}
"""Which test presses on which limit."""

ELSEWHERE = {
    "browser_sign_in_seconds": "tests/integration/test_sign_in.py",
    "browser_sign_ins_max": "tests/integration/test_sign_in.py",
    "failed_sign_ins_per_minute_max": "tests/integration/test_sign_in.py",
    "telemetry_bytes_max": "tests/integration/test_otlp.py",
    "approvals_pending_max": "tests/unit/sessions/graph/test_bounds.py",
    "artifact_grace_seconds": "tests/integration/test_artifact_sweep.py",
    "artifact_sweep_seconds": "tests/integration/test_artifact_sweep.py",
    "artifact_question_max": "tests/unit/http/test_artifact_sweep.py",
    "artifact_suspects_max": "tests/unit/http/test_artifact_sweep.py",
    "artifact_name_max": "tests/unit/sessions/graph/test_bounds.py",
    "checkpoint_due_events": "tests/unit/sessions/graph/test_bounds.py",
    "checkpoint_instructions_max": "tests/unit/sessions/graph/test_bounds.py",
    "compaction_summary_max": "tests/unit/sessions/graph/test_bounds.py",
    "facts_bytes_per_session_max": "tests/unit/sessions/graph/test_bounds.py",
    "open_call_input_bytes_max": "tests/unit/sessions/graph/test_bounds.py",
    "memory_events_per_request_max": "tests/unit/sessions/graph/test_bounds.py",
    "refs_per_request_max": "tests/unit/sessions/graph/test_bounds.py",
    "state_sandboxes_bytes_max": "tests/unit/sessions/graph/test_bounds.py",
    "context_bytes_max": "tests/unit/sessions/test_contexts.py",
    "context_hits_max": "tests/integration/test_contexts.py",
    "context_tokens_min": "tests/integration/test_contexts.py",
    "context_tokens_max": "tests/integration/test_contexts.py",
    "handoff_bytes_max": "tests/integration/test_work.py",
    "init_script_bytes_max": "tests/integration/test_work.py",
    "facts_per_session_max": "tests/unit/sessions/graph/test_bounds.py",
    "feature_files_max": "tests/unit/sessions/graph/test_bounds.py",
    "features_max": "tests/unit/sessions/graph/test_bounds.py",
    "graph_metadata_bytes_max": "tests/unit/sessions/graph/test_bounds.py",
    "graph_name_max": "tests/unit/sessions/graph/test_bounds.py",
    "graph_text_max": "tests/unit/sessions/graph/test_bounds.py",
    "graph_nodes_max": "tests/unit/sessions/graph/test_graph_builder.py",
    "graph_bytes_max": "tests/unit/sessions/graph/test_graph_builder.py",
    "graph_sessions_max": "tests/integration/test_graph.py",
    "graph_events_max": "tests/integration/test_graph.py",
    "graph_depth_max": "tests/integration/test_graph.py",
    "graph_value_bytes_max": "tests/unit/sessions/graph/test_bounds.py",
    "graph_word_max": "tests/unit/sessions/graph/test_bounds.py",
    "lease_seconds_max": "tests/unit/sessions/graph/test_bounds.py",
    "lease_seconds_min": "tests/unit/sessions/graph/test_bounds.py",
    "lease_times_max": "tests/unit/sessions/graph/test_bounds.py",
    "metrics_max": "tests/unit/sessions/graph/test_bounds.py",
    "memory_store_name_max": "tests/anthropic/test_memory_stores.py",
    "memory_store_description_max": "tests/anthropic/test_memory_stores.py",
    "memory_content_bytes_max": "tests/anthropic/test_memory_stores.py",
    "memory_path_bytes_max": "tests/anthropic/test_memory_stores.py",
    "memory_path_segments_max": "tests/anthropic/test_memory_stores.py",
    "memory_key_max": "tests/unit/sessions/graph/test_bounds.py",
    "memory_returned_max": "tests/unit/sessions/graph/test_bounds.py",
    "memory_page_max": "tests/integration/test_memory.py",
    "memory_scopes_per_request_max": "tests/integration/test_memory.py",
    "memory_records_per_scope_max": "tests/integration/test_partitioned_memory.py",
    "memory_bytes_per_scope_max": "tests/integration/test_memory.py",
    "memory_histories_bytes_max": "tests/unit/sessions/memory/test_scopes.py",
    "memory_delivery_seconds_max": "tests/integration/test_partitioned_memory.py",
    "outcome_bytes_max": "tests/unit/sessions/graph/test_bounds.py",
    "refs_per_event_max": "tests/unit/sessions/graph/test_bounds.py",
    "see_entries_max": "tests/unit/sessions/graph/test_bounds.py",
    "state_decided_max": "tests/unit/sessions/graph/test_bounds.py",
    "state_list_max": "tests/unit/sessions/graph/test_bounds.py",
    "cost_limits_max": "tests/integration/test_their_words.py",
    "fold_cache_bytes_max": "tests/unit/sessions/test_folds.py",
    "snapshot_bytes_max": "tests/unit/tier/test_snapshots.py",
    "snapshot_rows_min": "tests/unit/tier/test_snapshots.py",
    "snapshot_seconds": "tests/unit/tier/test_snapshots.py",
    "events_per_request_max": "tests/unit/sessions/test_drafts.py",
    "slots_per_session_max": "tests/unit/sessions/test_slots_model.py",
    "condition_slots_max": "tests/integration/test_slots.py",
    "slots_asked_max": "tests/integration/test_slots.py",
    "slots_shown_max": "tests/integration/test_slots.py",
    "event_bytes_max": "tests/unit/sessions/test_drafts.py",
    "session_threads_max": "tests/unit/sessions/test_threads.py",
    "session_usage_rows_max": "tests/integration/test_usage.py",
    "usage_groups_max": "tests/integration/test_usage.py",
    "session_outcomes_max": "tests/unit/sessions/test_summary.py",
    "page_bytes_max": "tests/unit/sessions/test_reading.py",
    "registered_document_bytes_max": "tests/integration/test_page_bytes.py",
    "scans_max": "tests/unit/storage/test_scans.py",
    "scans_per_key_max": "tests/unit/storage/test_scans.py",
    "scans_waiting_per_key_max": "tests/unit/storage/test_scans.py",
    "scans_waiting_max": "tests/unit/storage/test_scans.py",
    "scanned_events_max": "tests/integration/test_sessions_read.py",
    "listed_sessions_max": "tests/unit/sessions/test_listing.py",
    "indexed_changes_max": "tests/unit/sessions/test_ranking.py",
    "indexed_pairs_max": "tests/unit/sessions/test_ranking.py",
    "sorted_matches_max": "tests/unit/sessions/test_ranking.py",
    "outline_blocks_per_request_max": "tests/unit/sessions/outline/test_outlines.py",
    "views_bytes_max": "tests/unit/sessions/outline/test_outlines.py",
    "live_list_sessions_max": "tests/integration/test_live_list.py",
    "live_list_seconds_max": "tests/unit/http/test_live_lists.py",
    "live_list_pending_max": "tests/integration/test_live_list.py",
    "live_list_frame_bytes_max": "tests/unit/http/test_session_changes.py",
    "live_list_frames_max": "tests/unit/http/test_live_lists.py",
    "live_list_bytes_max": "tests/unit/http/test_live_lists.py",
    "search_wait_seconds_max": "tests/integration/test_search_fresh.py",
    "search_hits_max": "tests/integration/test_search.py",
    "searches_max": "tests/integration/test_search_process.py",
    "searches_per_key_max": "tests/integration/test_search_process.py",
    "searched_sessions_max": "tests/integration/test_search.py",
    "artifact_bytes_max": "tests/integration/test_artifacts.py",
    "incomplete_artifact_bytes_max": "tests/integration/test_artifacts.py",
    "artifact_memory_bytes_max": "tests/integration/test_artifacts.py",
    "keyless_body_bytes_max": "tests/hostile/test_shares.py",
    "attribute_bytes_max": "tests/integration/test_document_memory.py",
    "cold_read_seconds_max": "tests/integration/test_cold_reads.py",
    "cold_read_bytes_max": "tests/integration/test_cold_reads.py",
    "all_subscriptions_max": "tests/unit/streams/test_subscription_size.py",
    "subscription_bytes_max": "tests/unit/streams/test_subscription_size.py",
    "all_subscription_bytes_max": "tests/unit/streams/test_subscription_size.py",
    "short_head_bytes_max": "tests/unit/http/test_server_shares.py",
    "incomplete_head_bytes_max": "tests/unit/http/test_server_shares.py",
    "worker_start_failures_max": "tests/integration/test_workers.py",
    "worker_lock_seconds_max": "tests/integration/test_serve_workers.py",
    "worker_stop_seconds_max": "tests/integration/test_workers.py",
    "hand_over_bytes_max": "tests/unit/node/test_handover.py",
    "hand_overs_max": "tests/unit/node/test_handover.py",
    "hand_over_seconds_max": "tests/unit/node/test_handover.py",
    "hand_over_again_seconds_min": "tests/unit/http/test_hand_over.py",
    "link_requests_max": "tests/unit/node/links/test_link.py",
    "link_bytes_max": "tests/unit/node/links/test_link.py",
    "link_frame_bytes_max": "tests/unit/node/links/test_link.py",
    "link_credit_bytes": "tests/unit/node/links/test_link_streams.py",
    "link_hold_seconds_max": "tests/unit/node/links/test_link_lost.py",
    "link_held_requests_max": "tests/unit/node/links/test_link_lost.py",
    "link_held_bytes_max": "tests/unit/node/links/test_link_lost.py",
    "link_open_seconds_max": "tests/unit/node/links/test_link_lost.py",
    "link_silence_seconds_max": "tests/unit/node/links/test_link_lost.py",
    "redacted_events_max": "tests/integration/test_redaction.py",
    "dropped_events_max": "tests/integration/test_drop.py",
    "redaction_reason_max": "tests/integration/test_redaction.py",
    "overlay_records_max": "tests/unit/sessions/test_redaction.py",
    "import_source_max": "tests/integration/test_session_import.py",
    "dossier_sessions_max": "tests/integration/test_dossier_limits.py",
    "dossier_events_max": "tests/integration/test_dossier_limits.py",
    "dossier_trials_max": "tests/integration/test_dossier_limits.py",
    "dossier_bytes_max": "tests/integration/test_dossier_limits.py",
    "dossier_value_bytes_max": "tests/integration/test_dossier_limits.py",
    "dossier_artifacts_max": "tests/integration/test_dossier_limits.py",
    "dossier_archive_bytes_max": "tests/integration/test_dossier_limits.py",
    "dossier_spool_bytes_max": "tests/integration/test_dossier_limits.py",
    "flush_process_bytes_min": "tests/unit/tier/test_flush_process.py",
    "flush_process_seconds_max": "tests/unit/tier/test_flush_process.py",
    "flush_process_idle_seconds": "tests/unit/tier/test_flush_process.py",
    "exports_max": "tests/integration/test_exports.py",
    "exports_per_key_max": "tests/integration/test_exports.py",
    "dossiers_max": "tests/integration/test_dossier_limits.py",
    "dossiers_per_key_max": "tests/integration/test_dossier_limits.py",
    "keys_max": "tests/integration/test_keys.py",
    "outbox_bytes_max": "tests/unit/access/test_audit_outbox.py",
    "placement_cache_bytes_max": "tests/unit/streams/test_placements.py",
    "untold_streams_max": "tests/unit/storage/test_tail_reporter.py",
    "registry_cache_bytes_max": "tests/unit/test_bounded_cache.py",
    "key_proof_seconds": "tests/unit/access/test_key_feed.py",
    "keys_everywhere_seconds_max": "tests/unit/access/test_key_feed.py",
    "key_feed_slice_max": "tests/unit/access/test_key_feed.py",
    "key_feed_slice_bytes_max": "tests/unit/access/test_key_feed.py",
    "key_feed_queue_max": "tests/unit/access/test_key_feed.py",
    "key_feed_queue_bytes_max": "tests/unit/access/test_key_feed.py",
    "key_feed_line_bytes_max": "tests/unit/access/test_key_feed.py",
    "parsing_bytes_max": "tests/unit/http/test_parse_threads.py",
    "event_indexes_bytes_max": "tests/integration/test_sessions_repeats.py",
    "keys_reserved": "tests/integration/test_key_limits.py",
    "workspace_keys_max": "tests/integration/test_key_limits.py",
    "workspace_keys_per_minute_max": "tests/integration/test_key_limits.py",
    "principal_characters_max": "tests/integration/test_keys.py",
    "key_requests_per_second_max": "tests/integration/test_keys.py",
}
"""Which file presses on which limit outside of this folder."""

OUT_OF_REACH = {
    "live_list_seconds",
    "environment_lease_seconds",
    *("step_down_seconds", "reopen_seconds", "reopen_seconds_max", "reopen_probe_bytes", "disk_look_seconds"),
    *(
        "flush_bytes_max",
        "flush_effects_max",
        "flush_retry_seconds",
        "last_flush_seconds_max",
        "era_seconds",
        "active_streams_max",
    ),
    *("maintenance_seconds", "compaction_small_bytes_max", "compaction_segments_min", "compaction_bytes_max"),
    *("compaction_memory_bytes_max", "damaged_retry_seconds", "checkpoints_max", "checkpoint_rows_max"),
    *(
        "delete_within_seconds",
        "garbage_grace_seconds",
        "garbage_max",
        "sweep_seconds",
        "orphan_grace_seconds",
    ),
    *("manifests_kept_max", "batch_bytes_max", "log_segment_bytes_max", "clean_up_seconds_max"),
    *(
        "touch_lag_seconds_max",
        "expiry_sweep_seconds",
        "removals_per_sweep_max",
        "idle_touch_lag_seconds_max",
    ),
    *("shutdown_seconds_max", "wake_streams_listed_max", "matched_streams_max", "lease_milliseconds_default"),
    *("webhook_retry_seconds_max", "resolver_threads_max", "token_seconds_max"),
    *("task_restart_seconds", "task_restart_seconds_max", "pattern_scans_max"),
    *("subscription_changes_max", "subscription_changes_bytes_min"),
    *("worker_restart_seconds", "worker_restart_seconds_max"),
    *("link_piece_bytes_max", "link_write_buffer_bytes_max", "link_retry_seconds", "link_retry_seconds_max"),
    *("key_confirm_seconds", "key_confirm_seconds_max"),
    *("key_feed_retry_seconds", "key_feed_retry_seconds_max"),
    *("outbox_deliveries_max", "outbox_retry_seconds", "outbox_retry_seconds_max", "watch_check_seconds"),
    *("usage_seconds", "rate_tell_seconds", "rate_heard_seconds_max"),
    *("search_heartbeat_seconds", "search_silence_seconds_max", "search_step_seconds_max"),
    *("search_stop_seconds_max",),
    *("bucket_read_threads_max", "bucket_write_threads_max", "cpu_threads_max", "dossier_threads_max"),
}
"""What paces the server's own work; nothing that is asked can go beyond it."""

CONNECTIONS = 60
REFUSED = 5
WAITERS = 20
PRODUCERS = 3
DEPTH = 3
PENDING_BYTES = 3 * MIB
UNFLUSHED_BYTES = 6 * MIB
LINGER_BYTES = 2 * MIB
TEXT = b"Content-Type: text/plain"


@pytest.fixture(scope="module")
def limits() -> dict[str, float]:
    return {
        "connections_max": CONNECTIONS,
        "refused_connections_max": REFUSED,
        "waiters_max": WAITERS,
        "producers_per_stream_max": PRODUCERS,
        "fork_depth_max": DEPTH,
        "pending_bytes_max": PENDING_BYTES,
        "unflushed_bytes_max": UNFLUSHED_BYTES,
        "linger_seconds_max": 1.0,
        "linger_bytes_max": LINGER_BYTES,
        "sse_seconds_max": 2.0,
        "sse_heartbeat_seconds_max": 0.5,
    }


@pytest.fixture
async def client(arena: Arena) -> AsyncIterator[Stranger]:
    """One connection that is served whatever happens, with nothing left to flush."""
    async with await Stranger.connect(arena.port) as client:
        assert (await client.ask(request(b"POST", b"/v1/admin/flush", body=b""))).status == 200
        yield client


def test_no_limit_is_forgotten() -> None:
    assert PRESSED.keys() | ELSEWHERE.keys() | OUT_OF_REACH == set(names())
    assert not PRESSED.keys() & OUT_OF_REACH
    for limit, file in ELSEWHERE.items():
        assert limit in (Path(__file__).parents[2] / file).read_text(), limit
    for test in PRESSED.values():
        module, _, name = test.partition(".")
        assert hasattr(importlib.import_module(f"tests.hostile.{module}"), name), test


def put(path: bytes, *lines: bytes) -> bytes:
    return request(b"PUT", b"/v1/stream/" + path, *lines, body=b"")


def post(path: bytes, *lines: bytes, body: bytes = b"x") -> bytes:
    return request(b"POST", b"/v1/stream/" + path, TEXT, *lines, body=body)


def produce(producer: bytes, number: bytes = b"0", seq: bytes = b"0") -> bytes:
    return post(b"edge", b"Producer-Id: " + producer, b"Producer-Epoch: " + number, b"Producer-Seq: " + seq)


def json_append(body: bytes) -> bytes:
    return request(b"POST", b"/v1/stream/edge-json", b"Content-Type: application/json", body=body)


def subscribe(size: int, lease: int) -> bytes:
    body = b'{"type":"pull-wake","wake_stream":"w","pattern":"%b","lease_ttl_ms":%d}' % (b"p" * size, lease)
    return request(b"PUT", b"/v1/stream/__ds/subscriptions/edge-%d-%d" % (size, lease), body=body)


def fill(size: int) -> bytes:
    """Return a request whose headers take so many bytes."""
    first = [b"X: " + b"v" * 15_999] * 4
    return request(b"GET", b"/livez", *first, b"Y: " + b"v" * (size - 4 * 16_000 - len("HostlocalhostY")))


LIMITS = DEFAULT_LIMITS
EDGES: dict[str, tuple[bytes, int, bytes, int, str]] = {
    "messages": (
        json_append(b"[" + b"1," * 9_999 + b"1]"),
        204,
        json_append(b"[" + b"1," * 10_000 + b"1]"),
        400,
        "invalid_request",
    ),
    "depth": (
        json_append(b"[" + b"[" * 128 + b"]" * 129),
        204,
        json_append(b"[" + b"[" * 129 + b"]" * 130),
        400,
        "invalid_json",
    ),
    "path": (put(b"p" * 1024), 201, put(b"p" * 1025), 400, "invalid_path"),
    "encoded path": (put(b"%c3%a9" * 512), 201, put(b"%c3%a9" * 512 + b"a"), 400, "invalid_path"),
    "content type": (
        put(b"t", b"Content-Type: a/" + b"b" * 254),
        201,
        put(b"t2", b"Content-Type: a/" + b"b" * 255),
        400,
        "invalid_header",
    ),
    "target": (
        request(b"GET", b"/" + b"a" * 16_383),
        404,
        request(b"GET", b"/" + b"a" * 16_384),
        414,
        "target_too_long",
    ),
    "header bytes": (fill(65_536), 200, fill(65_537), 431, "headers_too_large"),
    "header lines": (
        request(b"GET", b"/livez", *[b"X: y"] * 127),
        200,
        request(b"GET", b"/livez", *[b"X: y"] * 128),
        431,
        "headers_too_large",
    ),
    "producer id": (produce(b"p" * 4096), 200, produce(b"p" * 4097), 400, "invalid_header"),
    "producer epoch": (
        produce(b"q", b"%d" % LIMITS.producer_number_max),
        200,
        produce(b"q", b"%d" % (LIMITS.producer_number_max + 1)),
        400,
        "invalid_header",
    ),
    "producer seq": (
        produce(b"q", b"%d" % LIMITS.producer_number_max, b"%d" % LIMITS.producer_number_max),
        409,
        produce(b"q", b"0", b"%d" % (LIMITS.producer_number_max + 1)),
        400,
        "invalid_header",
    ),
    "sequence": (
        post(b"edge", b"Stream-Seq: " + b"s" * 4096),
        204,
        post(b"edge", b"Stream-Seq: " + b"t" * 4097),
        400,
        "invalid_header",
    ),
    "TTL": (
        put(b"ttl", b"Stream-TTL: %d" % LIMITS.ttl_seconds_max),
        201,
        put(b"ttl2", b"Stream-TTL: %d" % (LIMITS.ttl_seconds_max + 1)),
        400,
        "invalid_header",
    ),
    "pattern": (subscribe(1024, 5000), 201, subscribe(1025, 5000), 400, "INVALID_REQUEST"),
    "shortest lease": (subscribe(1, 1000), 201, subscribe(1, 999), 400, "INVALID_REQUEST"),
    "longest lease": (subscribe(1, 600_000), 201, subscribe(1, 600_001), 400, "INVALID_REQUEST"),
}


async def test_at_the_limit_and_beyond_it(arena: Arena, client: Stranger) -> None:
    await arena.create(b"edge")
    await arena.create(b"edge-json", b"application/json")
    for what, (within, passed, beyond, status, code) in EDGES.items():
        assert (await client.ask(within)).status == passed, what
        answer = await arena.ask(beyond)
        assert (answer.status, answer.error) == (status, code), what


async def test_producers(arena: Arena, client: Stranger) -> None:
    await arena.create(b"produced")
    produced = [produce(b"p%d" % number).replace(b"edge", b"produced") for number in range(PRODUCERS + 1)]
    assert [(await client.ask(one)).status for one in produced] == [200] * PRODUCERS + [409]
    assert (await client.ask(produced[-1])).error == "too_many_producers"
    assert (await client.ask(produced[0])).status == 204, "a repeat of a known one"


async def test_forks_of_forks(arena: Arena, client: Stranger) -> None:
    await arena.create(b"fork-0")
    for depth in range(1, DEPTH + 2):
        answer = await client.ask(
            put(b"fork-%d" % depth, b"Stream-Forked-From: /v1/stream/fork-%d" % (depth - 1))
        )
        assert answer.status == (201 if depth <= DEPTH else 409)
    assert answer.error == "fork_too_deep"


async def test_one_read(arena: Arena, client: Stranger) -> None:
    await arena.create(b"read", body=b"x" * (MIB + 1))
    answer = await client.ask(request(b"GET", b"/v1/stream/read"))
    assert (len(answer.body), b"stream-up-to-date" in answer.headers) == (MIB, False)
    await arena.create(b"read-json", b"application/json", body=b'["' + b"y" * 2 * MIB + b'","z"]')
    answer = await client.ask(request(b"GET", b"/v1/stream/read-json"))
    assert len(answer.body) == 2 * MIB + 4, "one message, however large"


async def test_appends_that_are_not_durable_yet(arena: Arena, client: Stranger) -> None:
    await arena.create(b"pending")
    assert (await client.ask(post(b"pending", body=b"x" * (PENDING_BYTES - 1000)))).status == 204
    answer = await client.ask(post(b"pending", body=b"x" * (PENDING_BYTES + 1)))
    assert (answer.status, answer.error) == (503, "overloaded")


async def test_appends_that_are_not_in_the_bucket_yet(arena: Arena, client: Stranger) -> None:
    await arena.create(b"unflushed")
    large = post(b"unflushed", body=b"x" * (UNFLUSHED_BYTES // 3))
    answers = [await client.ask(large) for _ in range(4)]
    assert 503 in [answer.status for answer in answers]
    assert {answer.status for answer in answers} == {204, 503}
    assert (await client.ask(request(b"POST", b"/v1/admin/flush", body=b""))).status == 200
    assert (await client.ask(large)).status == 204


async def gauge(client: Stranger, name: bytes) -> int:
    metrics = (await client.ask(request(b"GET", b"/metrics"))).body
    return int(float(metrics.split(b"\ndurable_sessions_%b " % name)[1].split(b"\n")[0]))


async def reached(client: Stranger, name: bytes, value: int) -> None:
    """Wait until a gauge stands at a value."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await gauge(client, name) != value:
            await asyncio.sleep(0.01)


@counts_in_one_process
@pytest.mark.parametrize("live", [b"long-poll", b"sse"])
async def test_readers_who_wait(arena: Arena, client: Stranger, live: bytes) -> None:
    path = b"waited-" + live
    await arena.create(path)
    wait = request(b"GET", b"/v1/stream/%b?offset=now&live=long-poll" % path)
    async with strangers(arena, WAITERS) as waiting:
        for reader in waiting:
            await reader.send(wait)
        await reached(client, b"waiting_readers", WAITERS)
        answer = await client.ask(wait.replace(b"live=long-poll", b"live=" + live))
        assert (answer.status, answer.error) == (503, "overloaded")
        assert (await client.ask(post(path))).status == 204
        assert [(await reader.answer()).status for reader in waiting] == [200] * WAITERS
    await reached(client, b"waiting_readers", 0)


@counts_in_one_process
async def test_a_subscriber_who_was_let_in_keeps_its_place(arena: Arena, client: Stranger) -> None:
    """It has not caught up yet, so that it does not wait; but when it does, there must be a place."""
    await arena.create(b"crowded", body=b"x" * (UNFLUSHED_BYTES * 2 // 5))
    assert (await client.ask(post(b"crowded", body=b"x" * (UNFLUSHED_BYTES * 2 // 5)))).status == 204
    wait = request(b"GET", b"/v1/stream/crowded?offset=now&live=long-poll")
    async with (
        strangers(arena, 1, receive_buffer_bytes=4096) as (slow,),
        strangers(arena, WAITERS - 1) as waiting,
    ):
        await slow.send(request(b"GET", b"/v1/stream/crowded?offset=-1&live=sse"))
        assert (await slow.some(64)).startswith(b"HTTP/1.1 200")
        for reader in waiting:
            await reader.send(wait)
        await reached(client, b"waiting_readers", WAITERS - 1)
        answer = await client.ask(wait)
        assert (answer.status, answer.error) == (503, "overloaded")
        caught_up = b""
        while b'"upToDate":true' not in caught_up:
            caught_up = caught_up[-1000:] + await slow.some(1 << 20)
    assert "Traceback" not in arena.server.log.read_text()


@counts_in_one_process
async def test_connections(arena: Arena, client: Stranger) -> None:
    await reached(client, b"http_connections", 1)
    async with strangers(arena, CONNECTIONS - 1):
        await reached(client, b"http_connections", CONNECTIONS)
        async with strangers(arena, 40) as more:
            told = [await one.refused(b"") for one in more]
        assert [] in told, "cut at once: too many even to be told"
        refusals = [[(answer.status, answer.error) for answer in answers] for answers in told if answers]
        assert refusals
        assert all(refusal == [(503, "overloaded")] for refusal in refusals)
        assert (await client.ask(request(b"GET", b"/livez"))).status == 200
    await reached(client, b"http_connections", 1)
    assert (await arena.ask(request(b"GET", b"/livez"))).status == 200


async def test_who_is_refused_and_sends_on(arena: Arena) -> None:
    head = request(b"POST", b"/v1/stream/x", TEXT, b"Content-Length: 999999999")
    async with await Stranger.connect(arena.port) as one, await Stranger.connect(arena.port) as other:
        assert not await one.send(head + b"x" * (LINGER_BYTES * 20)), "much is not thrown away for ever"
        await other.send(head)
        while await other.send(b"x"):  # neither is a little
            await asyncio.sleep(0.05)


async def test_how_long_a_stream_is_followed(arena: Arena, client: Stranger) -> None:
    await arena.create(b"followed")
    answer = await client.ask(request(b"GET", b"/v1/stream/followed?offset=now&live=sse"))
    assert answer.whole
    assert answer.body.count(b"event: control") >= 2, "a heartbeat at least"
