"""Every limit of the server, by name, with its unit last.

A limit that an operator may want to move is a setting too (see ``settings.py``); its
default is taken from here. ``docs/reference/limits.md`` is generated from this file.
"""

from dataclasses import dataclass, fields, replace

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds; each comment line above a field is its documentation."""

    # The largest request body, after chunked decoding. Beyond it: 413 (setting: body_bytes).
    append_body_bytes_max: int = 8 * MIB
    # The largest body of a request that needs no key, on a server that has keys. Beyond it: 413.
    keyless_body_bytes_max: int = 64 * KIB
    # The most JSON messages one request may carry. Beyond it: 400.
    append_messages_max: int = 10_000
    # The most events in one request to a session. Beyond it: 400 (setting: events_per_request).
    events_per_request_max: int = 1_000
    # The largest event, as it was sent. Beyond it: 413 (setting: event_bytes).
    event_bytes_max: int = 1 * MIB
    # The longest type of an event, in characters. Beyond it: 400.
    event_type_max: int = 128
    # The longest id that a client may give to an event, in characters. Beyond it: 400.
    event_id_max: int = 200
    # Different slots that the events of one session hold or empty by name. Beyond it: 409.
    slots_per_session_max: int = 1_000_000
    # Slots in the conditions of one append. Beyond it: 400.
    condition_slots_max: int = 100
    # Slots that one read of a session asks for by name. Beyond it: 400.
    slots_asked_max: int = 200
    # Slots that a list of sessions shows of each, and slots by which it is filtered. Beyond it: 400.
    slots_shown_max: int = 10
    # The longest Idempotency-Key. Beyond it: 400.
    idempotency_key_max: int = 256
    # Indexes in Events-Repeated, and in Events-Differ. Beyond it: they end with "...".
    event_indexes_bytes_max: int = 1_024
    # What clients may say of one session (title, metadata, agent …), as JSON. Beyond it: 413.
    session_document_bytes_max: int = 256 * KIB
    # An agent or an environment, as JSON. Beyond it: 413.
    registered_document_bytes_max: int = 256 * KIB
    # Threads of one session that are known by name. Later ones are still found by their events.
    session_threads_max: int = 1_000
    # Outcomes of one session whose evaluation is followed.
    session_outcomes_max: int = 100
    # Days and models of one session for which usage is kept apart; what further ones used is kept together.
    session_usage_rows_max: int = 100
    # Groups of one answer about usage; what further ones used is summed together.
    usage_groups_max: int = 1_000
    # The most data on one page of events, sessions, agents and all other lists; one item is always sent.
    page_bytes_max: int = 8 * MIB
    # The most events on one page.
    page_events_max: int = 10_000
    # How long a search waits for what is durable, then it says how far it is; and for its answer, then 503.
    search_wait_seconds_max: float = 10.0
    # Searches under way, all together. Beyond it: 503 with Retry-After.
    searches_max: int = 128
    # Searches of one key under way. Beyond it: 429 with Retry-After.
    searches_per_key_max: int = 32
    # How often the search process is asked for a sign of life.
    search_heartbeat_seconds: float = 2.0
    # How long the search process may be silent; then it is killed, and another one started.
    search_silence_seconds_max: float = 20.0
    # How long the search process may be at one thing (an event, a commit, a search); then it is killed.
    search_step_seconds_max: float = 120.0
    # How long the search process may take to keep what it has when the server stops; then it is killed.
    search_stop_seconds_max: float = 5.0
    # Events that a search answers with at a time, and how far down the ranking pages go.
    search_hits_max: int = 1_000
    # Sessions that a search is narrowed down to by their agent or metadata.
    searched_sessions_max: int = 10_000
    # Events that a filtered read looks at before it answers with what it has found.
    scanned_events_max: int = 50_000
    # Sessions that a filtered list looks at before it answers with what it has found.
    listed_sessions_max: int = 10_000
    # Streams that may have changed since a list was last sorted; then the index in memory is made again.
    indexed_changes_max: int = 100_000
    # Pairs of one session's metadata that are in the index; one with more is looked at by every filter.
    indexed_pairs_max: int = 64
    # Sessions with a pair that are sorted one by one; of more, the list in order is filtered.
    sorted_matches_max: int = 1_000
    # Lists, filtered reads and searches by metadata that look at sessions or events at the same time.
    scans_max: int = 8
    # Those of one key among them; more of its wait, and the keys that wait are served in rotation.
    scans_per_key_max: int = 2
    # Those of one key that may wait. Beyond it: 429 with Retry-After.
    scans_waiting_per_key_max: int = 64
    # Those of all keys that may wait. Beyond it: 503 with Retry-After.
    scans_waiting_max: int = 1_000
    # How deep one JSON message may nest. Beyond it: 400.
    json_depth_max: int = 128
    # The longest stream path, in UTF-8 bytes after percent-decoding. Beyond it: 400.
    path_bytes_max: int = 1024
    # The longest content type. Beyond it: 400.
    content_type_bytes_max: int = 256
    # The longest request line target (path and query). Beyond it: 414.
    target_bytes_max: int = 16 * KIB
    # All request header names and values together. Beyond it: 431.
    header_bytes_max: int = 64 * KIB
    # The most header lines in one request. Beyond it: 431.
    header_count_max: int = 128
    # The longest Producer-Id. Beyond it: 400.
    producer_id_bytes_max: int = 4 * KIB
    # The most producers one stream remembers. Beyond it: 409.
    producers_per_stream_max: int = 100_000
    # The longest Stream-Seq. Beyond it: 400.
    stream_seq_bytes_max: int = 4 * KIB
    # The largest Producer-Epoch and Producer-Seq (JavaScript's safe integers). Beyond it: 400.
    producer_number_max: int = 2**53 - 1
    # The longest Stream-TTL, about 100 years. Beyond it: 400.
    ttl_seconds_max: int = 100 * 366 * 24 * 3600
    # The deepest chain of forks. Beyond it: 409.
    fork_depth_max: int = 1_000
    # The most data one read answers with; at least one message is always sent.
    read_chunk_bytes_max: int = 1 * MIB
    # Appends accepted but not yet durable. Beyond it: 503 with Retry-After.
    pending_bytes_max: int = 64 * MIB
    # Appends durable in the log but not yet in the bucket. Beyond it: 503 (setting: unflushed_bytes).
    unflushed_bytes_max: int = 1024 * MIB
    # What a partition owes to others, such as audited acts, and they have not acknowledged. Beyond it: 503.
    outbox_bytes_max: int = 16 * MIB
    # Streams of other partitions that are delivered to at the same time.
    outbox_deliveries_max: int = 8
    # How soon a failed delivery to another partition is repeated; each time after twice as long,
    outbox_retry_seconds: float = 0.1
    # up to this.
    outbox_retry_seconds_max: float = 5.0
    # What a process remembers of where forks live, in each of its partitions and in its router; beyond it the
    # oldest is forgotten and asked for again.
    placement_cache_bytes_max: int = 8 * MIB
    # What a partition remembers of agents that are registered in another one; beyond it the oldest is
    # forgotten and asked for again.
    registry_cache_bytes_max: int = 8 * MIB
    # How often a partition asks the others what workspaces hold in them, if there are quotas.
    usage_seconds: float = 1.0
    # How often a worker tells the others how many requests it has admitted of keys that have a rate.
    rate_tell_seconds: float = 0.5
    # Without having heard of one of the others for so long, a worker admits only its part of a rate.
    rate_heard_seconds_max: float = 3.0
    # What is moved to the bucket at a time, and how much may wait before that (setting: flush_bytes; in a
    # cluster at most 8 MiB, so that a take-over replays little).
    flush_bytes_max: int = 32 * MIB
    # Changes that are moved at a time, and how many may wait before that (in a cluster 40,000); each may be
    # of a stream of its own.
    flush_effects_max: int = 65_536
    # A flush of fewer bytes is folded in the server itself, a larger one in the flush process.
    flush_process_bytes_min: int = 2 * MIB
    # How long one flush may take in the flush process, before the server folds it itself.
    flush_process_seconds_max: float = 120.0
    # How long the flush process may have nothing to do before it ends.
    flush_process_idle_seconds: float = 60.0
    # How long to wait after a flush that failed.
    flush_retry_seconds: float = 2.0
    # How long the last flush may take when the server stops; what is left stays in the log.
    last_flush_seconds_max: float = 30.0
    # How long a stream must not be used before it may leave memory.
    era_seconds: float = 10.0
    # A read of records in the bucket, from the wait for its turn to the last try. Beyond it: 503.
    cold_read_seconds_max: float = 20.0
    # Memory of the reads of records in the bucket that are under way; others wait in turn. One key may take
    # what it leaves free, so at most half.
    cold_read_bytes_max: int = 96 * MIB
    # Verified parts of segments kept in memory.
    block_cache_bytes_max: int = 64 * MIB
    # Streams in memory before idle ones leave it for the catalog.
    active_streams_max: int = 10_000
    # What is known of the streams in memory (documents of agents, metadata of sessions …) before idle ones
    # leave it for the catalog. At eight times as much, what would add to it is refused with 503.
    attribute_bytes_max: int = 64 * MIB
    # How often compaction and the sweep look for work.
    maintenance_seconds: float = 5.0
    # Segments smaller than this are merged with others of their date.
    compaction_small_bytes_max: int = 8 * MIB
    # How many small segments of similar size make a merge worth it; of a date that is over, two.
    compaction_segments_min: int = 8
    # The segments that one merge reads, as they lie in the bucket.
    compaction_bytes_max: int = 32 * MIB
    # The memory that one merge takes, near enough; more only for a segment that one flush made larger.
    compaction_memory_bytes_max: int = 128 * MIB
    # How long a segment that was found damaged is left alone before it is tried again.
    damaged_retry_seconds: float = 3600.0
    # Parts of the session metadata that follow a full one before the next full one is written.
    checkpoints_max: int = 16
    # The most streams in one part of a full one.
    checkpoint_rows_max: int = 20_000
    # What opening without a local catalog must read at least, in rows of checkpoints and streams of segments,
    # before a snapshot of the catalog is written to the bucket.
    snapshot_rows_min: int = 1_000
    # How long after a snapshot the next one may be written, unless a deletion has made it void.
    snapshot_seconds: float = 600.0
    # A catalog with more bytes is not written as a snapshot; opening without a local one then takes longer.
    snapshot_bytes_max: int = 512 * MIB
    # From the flush that removes a stream, or erases events, until no object in the bucket holds any of it.
    delete_within_seconds: float = 24 * 3600.0
    # Erased records of one stream that log or bucket may still have, at which more are refused.
    overlay_records_max: int = 100_000
    # Events that one append may drop with their slots.
    dropped_events_max: int = 10_000
    # Events, and artifacts, in one request to redact.
    redacted_events_max: int = 100
    # Characters of the reason of a redaction.
    redaction_reason_max: int = 4_000
    # Bytes of an export of OpenTelemetry, unpacked.
    telemetry_bytes_max: int = 8 * MIB
    # Bytes of the header Session-Import.
    import_source_max: int = 100
    # How long a replaced object stays in the bucket for those who are reading it.
    garbage_grace_seconds: float = 600.0
    # Replaced objects not yet removed, at which merging pauses.
    garbage_max: int = 10_000
    # How often the bucket is listed for objects that nothing refers to.
    sweep_seconds: float = 3600.0
    # How old an object that nothing refers to must be before it is removed.
    orphan_grace_seconds: float = 3600.0
    # How many manifests are kept, the newest included.
    manifests_kept_max: int = 10
    # The payload of one log frame; a larger group of appends becomes several frames.
    batch_bytes_max: int = 16 * MIB
    # Recent records kept in memory, for the whole process (setting: memory_bytes).
    memory_bytes_max: int = 256 * MIB
    # A log segment file is closed and a new one begun at this size.
    log_segment_bytes_max: int = 16 * MIB
    # Long-poll and SSE readers at the same time. Beyond it: 503 with Retry-After; one key may have as many as
    # it leaves free, so at most half. Beyond that: 429.
    waiters_max: int = 10_000
    # Open connections. Beyond it, where keys are needed, the oldest that has shown none is closed; if there
    # is none: 503 and the connection is closed. One key may have as many as it leaves free, so at most half.
    # Beyond that: 429 (setting: connections).
    connections_max: int = 10_000
    # Connections beyond that limit that may wait until their 503 was read; more are cut at once.
    refused_connections_max: int = 256
    # Requests of one connection that are read ahead while one is being answered.
    pipeline_requests_max: int = 16
    # From the first byte of a request to the end of its headers. Beyond it: 408.
    header_seconds_max: float = 10.0
    # From the end of the headers to the end of the body. Beyond it: 408.
    body_seconds_max: float = 30.0
    # How long a connection may stay open with no request on it.
    idle_seconds_max: float = 75.0
    # How long a peer may leave our answer unread before the connection is cut.
    write_stall_seconds_max: float = 30.0
    # Answer bytes buffered for one connection before its sender waits.
    write_buffer_bytes_max: int = 64 * KIB
    # What is read for answers in one turn of the event loop; the next readers wait for the next turn.
    turn_bytes_max: int = 512 * KIB
    # Answers that peers do not read, of all connections together. Beyond it, connections of the key with the
    # most unread bytes (without keys: any) are closed, those first that have waited longest.
    untaken_bytes_max: int = 256 * MIB
    # Requests that one connection has read ahead; beyond it reading pauses.
    read_ahead_bytes_max: int = 256 * KIB
    # Requests, of all connections together, that are incomplete or wait for their turn. Beyond it: 503; one
    # key (without keys: one connection) may hold what it leaves free, so at most half. Beyond that: 429.
    request_bytes_max: int = 64 * MIB
    # Large bodies that wait to be taken apart or are being, all together. Beyond it: 503 with Retry-After;
    # one key may hold what it leaves free, so at most half, but always one body. Beyond that: 429.
    parsing_bytes_max: int = 128 * MIB
    # Of an incomplete head, this much is always kept; a head that is longer counts in full as follows.
    short_head_bytes_max: int = 4 * KIB
    # Incomplete heads longer than that, all connections together. Beyond it: 503.
    incomplete_head_bytes_max: int = 16 * MIB
    # The largest artifact. Beyond it: 413 (setting: artifact_bytes).
    artifact_bytes_max: int = 64 * MIB
    # Incomplete bodies larger than an append's, all connections together. Beyond it: 503 with Retry-After;
    # one key (without keys: one connection) may hold what it leaves free, so at most half. Beyond that: 429.
    incomplete_artifact_bytes_max: int = 256 * MIB
    # From the end of the headers to the end of such a body. Beyond it: 408.
    artifact_body_seconds_max: float = 300.0
    # Artifacts that are being stored or sent, all together. Beyond it: 503 with Retry-After; one key may hold
    # what it leaves free, so at most half. Beyond that: 429.
    artifact_memory_bytes_max: int = 256 * MIB
    # An artifact that nothing names is kept for so long after it was stored, or stored once more. This and
    # three looks fit into delete_within_seconds, since the event that named it may have been erased.
    artifact_grace_seconds: float = 12 * 3600.0
    # How often it is looked for artifacts that nothing names. They go when two looks have found them so.
    artifact_sweep_seconds: float = 4 * 3600.0
    # Artifacts in one question to a partition about which of them it names.
    artifact_question_max: int = 1_000
    # Artifacts found unnamed that are remembered until the next look; more wait for the one after.
    artifact_suspects_max: int = 100_000
    # After a refusal, how long what the peer still sends is thrown away so that it can read the answer.
    linger_seconds_max: float = 2.0
    # After a refusal, how much of what the peer still sends is thrown away.
    linger_bytes_max: int = 64 * MIB
    # How long a cancelled request may take to clean up after itself at shutdown.
    clean_up_seconds_max: float = 1.0
    # An SSE connection is closed after this long; the client resumes where it was.
    sse_seconds_max: float = 60.0
    # The longest silence on an SSE connection; then a control event is sent.
    sse_heartbeat_seconds_max: float = 15.0
    # Encoded SSE frames kept per stream, shared by all its subscribers.
    sse_shared_frames_max: int = 32
    # Encoded SSE frames kept for the subscribers of all streams together.
    sse_shared_bytes_max: int = 64 * MIB
    # Missing blocks of an outline that one request makes, of 4,096 events each; the next one goes on.
    outline_blocks_per_request_max: int = 16
    # Outlines and snapshots kept on disk, for each partition; those not used for longest go first.
    views_bytes_max: int = 1024 * MIB
    # The shortest time between two frames of a live list of sessions.
    live_list_seconds: float = 0.5
    # The stream of a live list ends after this long; the client follows again, and lists anew.
    live_list_seconds_max: float = 3_600.0
    # Sessions in one frame of a live list; more of them come in the next.
    live_list_sessions_max: int = 100
    # The size of one frame of a live list, near enough; one session is always sent.
    live_list_frame_bytes_max: int = 1 * MIB
    # Changed sessions that wait for their frame, for one workspace. Beyond it: the followers' streams end.
    live_list_pending_max: int = 10_000
    # Frames of a live list kept per workspace. The stream of a follower that is further behind ends.
    live_list_frames_max: int = 8
    # Frames of live lists kept for the followers of all workspaces together.
    live_list_bytes_max: int = 32 * MIB
    # How far the last recorded access to a stream with a TTL may lag behind the real one.
    touch_lag_seconds_max: float = 10.0
    # How long a background task that failed pauses before it is restarted; each further time twice as long.
    task_restart_seconds: float = 1.0
    # The longest such pause. It is short again once the task has run for as long as it paused.
    task_restart_seconds_max: float = 30.0
    # How long after a failure of the log it is tried to open it again; each further time twice as long.
    reopen_seconds: float = 1.0
    # The longest such pause.
    reopen_seconds_max: float = 30.0
    # What is written to the disk to find out whether it takes writes again.
    reopen_probe_bytes: int = 1 * MIB
    # How often it is looked how much space is left on the disk.
    disk_look_seconds: float = 5.0
    # How often expired streams are looked for.
    expiry_sweep_seconds: float = 5.0
    # Streams not in memory that one such look removes; more wait for the next.
    removals_per_sweep_max: int = 2_000
    # How far the last recorded access to a stream that idleness removes may lag behind the real one.
    idle_touch_lag_seconds_max: float = 3600.0
    # How long requests in flight may take to finish after SIGTERM.
    shutdown_seconds_max: float = 10.0
    # How long a server that has lost its bucket to another one still answers, with 503, before it ends.
    step_down_seconds: float = 5.0
    # Subscriptions in one workspace. Beyond it: 409.
    subscriptions_max: int = 1_000
    # Streams linked to one subscription. Beyond it: 409.
    subscription_streams_max: int = 10_000
    # Subscriptions of all workspaces. Beyond it: 409.
    all_subscriptions_max: int = 20_000
    # What the links of one subscription take: their paths, and 400 bytes each. Beyond it: 409.
    subscription_bytes_max: int = 8 * MIB
    # What all subscriptions take in memory. One workspace may take what it leaves free, so at most half.
    # Beyond it: 409; streams that a pattern finds then wait until others have been caught up with.
    all_subscription_bytes_max: int = 256 * MIB
    # Streams of a workspace whose tails the partition with its subscriptions was not told yet. Beyond it: all
    # that is watched is told anew.
    untold_streams_max: int = 10_000
    # How often a partition checks that all others know what its subscriptions watch.
    watch_check_seconds: float = 2.0
    # Objects in the bucket with changes of subscriptions before all of these are merged into one.
    subscription_changes_max: int = 32
    # As long as these are smaller than this, their size is no reason to merge them.
    subscription_changes_bytes_min: int = 1 * MIB
    # Searches for the streams that a new pattern matches, at the same time; others wait in turn.
    pattern_scans_max: int = 2
    # Streams named in one wake: all that are pending, then others up to this many.
    wake_streams_listed_max: int = 1_000
    # Streams whose match with all patterns is remembered.
    matched_streams_max: int = 100_000
    # Characters in a subscription's id, pattern, description and worker name. Beyond it: 400.
    subscription_text_max: int = 1_024
    # The shortest lease a subscription may ask for.
    lease_milliseconds_min: int = 1_000
    # The longest lease a subscription may ask for.
    lease_milliseconds_max: int = 600_000
    # The lease of a subscription that does not ask.
    lease_milliseconds_default: int = 30_000
    # How long a webhook receiver may take to answer.
    webhook_seconds_max: float = 30.0
    # How much of a webhook receiver's answer is read.
    webhook_answer_bytes_max: int = 64 * KIB
    # The longest pause between two tries of a webhook.
    webhook_retry_seconds_max: float = 60.0
    # Webhook requests under way at the same time; the others wait. One workspace may have as many as it
    # leaves free, so at most half.
    webhook_deliveries_max: int = 64
    # Threads that read from a bucket in a directory, however slow that is; flushes have threads of their own.
    bucket_read_threads_max: int = 8
    # Threads that write to a bucket in a directory.
    bucket_write_threads_max: int = 4
    # Threads for digests, encoding and decoding.
    cpu_threads_max: int = 4
    # Threads that resolve the names of webhook receivers.
    resolver_threads_max: int = 8
    # How long a callback or claim token is valid.
    token_seconds_max: int = 24 * 3600
    # Keys of all workspaces; one that is revoked makes room for another. Beyond it: 409.
    keys_max: int = 10_000
    # Of these, how many only operators can make.
    keys_reserved: int = 100
    # Keys of one workspace other than the operators'; one that is revoked makes room. Beyond it: 409.
    workspace_keys_max: int = 1_000
    # Keys that the admins of such a workspace can make in a minute. Beyond it: 429 with Retry-After.
    workspace_keys_per_minute_max: int = 60
    # Browsers that are signed in with one key; the oldest makes room for another.
    browser_sign_ins_max: int = 32
    # How long a browser stays signed in.
    browser_sign_in_seconds: int = 12 * 3600
    # Sign-ins with a wrong key in a minute, of all browsers together; right ones always work. Beyond it: 429.
    failed_sign_ins_per_minute_max: int = 60
    # For how long a worker admits by its copy of the keys without a word from the one that keeps them.
    # Beyond it: 503.
    key_proof_seconds: float = 15.0
    # How often a worker has its copy of the keys confirmed, also if nothing has changed.
    key_confirm_seconds: float = 1.0
    # How long the answer to that is waited for, also by requests that arrive when the proof has ended.
    key_confirm_seconds_max: float = 5.0
    # How long the creation or revocation of a key waits for all workers. Beyond it: everywhere is false.
    keys_everywhere_seconds_max: float = 2.0
    # Keys that are sent to a worker at a time; all of them are sent in such slices.
    key_feed_slice_max: int = 200
    # The size of these keys.
    key_feed_slice_bytes_max: int = 64 * KIB
    # Changes of keys that wait for a slow worker; beyond it the worker gets all keys anew.
    key_feed_queue_max: int = 1_000
    # The size of these changes; beyond it the same.
    key_feed_queue_bytes_max: int = 1 * MIB
    # The longest line in the feed of keys; a worker that is sent a longer one connects again.
    key_feed_line_bytes_max: int = 256 * KIB
    # How soon a worker connects again to the one that keeps the keys; each time after twice as long,
    key_feed_retry_seconds: float = 0.1
    # up to this.
    key_feed_retry_seconds_max: float = 1.0
    # The longest name of a key's principal, in characters. Beyond it: 400.
    principal_characters_max: int = 128
    # The highest rate that a key can be given; without one it has none. Beyond it: 400.
    key_requests_per_second_max: int = 1_000_000
    # Requests under way on one link between two processes of a server. Beyond it: 503 with Retry-After.
    link_requests_max: int = 20_000
    # What requests under way on one link, and answers that arrive on it, take in memory. Beyond it: 503 with
    # Retry-After.
    link_bytes_max: int = 256 * MIB
    # Bytes of a streamed answer that the owner sends over a link before the client has taken those before.
    link_credit_bytes: int = 256 * KIB
    # The largest frame on a link; larger bodies are sent in pieces. Beyond it: the link is dropped.
    link_frame_bytes_max: int = 256 * KIB
    # The pieces in which bodies are sent over a link, so that small requests overtake large ones.
    link_piece_bytes_max: int = 64 * KIB
    # Frames buffered for one link before large bodies and streamed answers wait.
    link_write_buffer_bytes_max: int = 256 * KIB
    # How long a request waits for a link that is down, then: 503 with Retry-After.
    link_hold_seconds_max: float = 5.0
    # Requests that wait for one link that is down. Beyond it: 503 with Retry-After.
    link_held_requests_max: int = 1_000
    # What these take in memory. Beyond it: 503 with Retry-After.
    link_held_bytes_max: int = 16 * MIB
    # How long the opening of a link may take.
    link_open_seconds_max: float = 5.0
    # The first pause before a link that is down is tried again; each further one is twice as long.
    link_retry_seconds: float = 0.05
    # The longest such pause.
    link_retry_seconds_max: float = 1.0
    # How long the other end of a link may be silent while requests are under way; then the link is dropped.
    link_silence_seconds_max: float = 20.0
    # The largest request that moves to another process with its connection; larger ones are forwarded.
    hand_over_bytes_max: int = 64 * KIB
    # Connections that one process is giving to another at the same time; other requests are forwarded.
    hand_overs_max: int = 256
    # How long the other process may take to accept a connection, then its request is forwarded.
    hand_over_seconds_max: float = 1.0
    # How long a connection stays where it is before it moves again; meanwhile requests are forwarded.
    hand_over_again_seconds_min: float = 1.0
    # The first pause before a worker that died is started again; each further one is twice as long.
    worker_restart_seconds: float = 0.1
    # The longest such pause. It is short again once the worker has served.
    worker_restart_seconds_max: float = 2.0
    # How often in a row a worker may end before it serves; then all workers are stopped.
    worker_start_failures_max: int = 10
    # How long a worker waits at its start until the one before it, of a supervisor that died, has ended.
    worker_lock_seconds_max: float = 2.0
    # How long a worker may take to stop; then it is killed.
    worker_stop_seconds_max: float = 60.0
    # The longest ordinary text in a strict event (`ds.`), in characters. Beyond it: 400.
    graph_text_max: int = 4_000
    # The longest key, worker, command name or other name in a strict event, in characters. Beyond it: 400.
    graph_name_max: int = 200
    # The longest backend or role in a strict event, in characters. Beyond it: 400.
    graph_word_max: int = 100
    # The largest value of a fact, state, payload or spec, as JSON. Beyond it: 400.
    graph_value_bytes_max: int = 16 * KIB
    # The metadata of a strict event, as JSON. Beyond it: 400.
    graph_metadata_bytes_max: int = 4 * KIB
    # The most refs of one event. Beyond it: 400.
    refs_per_event_max: int = 64
    # The most features of an outcome, and things done that a checkpoint lists. Beyond it: 400.
    features_max: int = 1_000
    # The most files that one feature rests on. Beyond it: 400.
    feature_files_max: int = 100
    # A definition of an outcome, as it was sent. Beyond it: 400.
    outcome_bytes_max: int = 256 * KIB
    # The most metrics of one evaluation. Beyond it: 400.
    metrics_max: int = 100
    # The longest instructions of a checkpoint, in characters. Beyond it: 400.
    checkpoint_instructions_max: int = 16_000
    # The longest summary in place of compacted events, in characters. Beyond it: 400.
    compaction_summary_max: int = 256 * 1024
    # The most types, and the most facts, that a route narrows the context to. Beyond it: 400.
    see_entries_max: int = 1_000
    # The longest name of an artifact of a session, in characters. Beyond it: 400.
    artifact_name_max: int = 500
    # Facts of one session, retractions included. Beyond it: 409.
    facts_per_session_max: int = 10_000
    # What these facts have in bytes, those that were replaced included. Beyond it: 409.
    facts_bytes_per_session_max: int = 4 * MIB
    # The input of a tool call without a result that a session's state shows. Beyond it: null.
    open_call_input_bytes_max: int = 4 * KIB
    # The nodes of one graph. Beyond it, the graph is truncated.
    graph_nodes_max: int = 5_000
    # The sessions of a family that a graph is made of. Beyond it, the graph is truncated.
    graph_sessions_max: int = 1_000
    # The events that are read for one graph. Beyond it, the graph is truncated.
    graph_events_max: int = 500_000
    # How far a walk through what led to an event, or followed from it, may go. Beyond it: 400.
    graph_depth_max: int = 50
    # About how large one graph is as JSON. Beyond it, the graph is truncated.
    graph_bytes_max: int = 4 * MIB
    # The most refs of all events of one request. Beyond it: 400.
    refs_per_request_max: int = 1_000
    # The most memory events of one request, each of which also goes to its scope. Beyond it: 400.
    memory_events_per_request_max: int = 250
    # The longest name of a memory store, in characters. Beyond it: 400.
    memory_store_name_max: int = 255
    # The longest description of a memory store, in characters. Beyond it: 400.
    memory_store_description_max: int = 1_024
    # The content of a memory that is written through the API of memory stores. Beyond it: 400.
    memory_content_bytes_max: int = 100 * KIB
    # The longest path of a memory in a store. Beyond it: 400.
    memory_path_bytes_max: int = 1_024
    # The most segments of such a path. Beyond it: 400.
    memory_path_segments_max: int = 20
    # The longest key of a memory, in characters. Beyond it: 400.
    memory_key_max: int = 500
    # The writes that one read of a memory scope names. Beyond it: 400.
    memory_returned_max: int = 100
    # The entries or records on one page of a memory scope. Beyond it: 400.
    memory_page_max: int = 1_000
    # Different memory scopes that the events of one request write, read or roll back in. Beyond it: 400.
    memory_scopes_per_request_max: int = 16
    # Writes, reads and roll-backs in the log of one memory scope. Beyond it: 409.
    memory_records_per_scope_max: int = 200_000
    # What these records have in bytes. Beyond it: 409.
    memory_bytes_per_scope_max: int = 256 * MIB
    # What is known in memory of the scopes that were used last, in bytes; the others are read again.
    memory_histories_bytes_max: int = 64 * MIB
    # How long an append waits until a memory scope in another partition has it. Beyond it: 503.
    memory_delivery_seconds_max: float = 10.0
    # How often Managed Agents' budget of one session may be given and changed. Beyond it: 400.
    cost_limits_max: int = 1_000
    # Requests for approval of one session that wait for a decision. Beyond it: 409.
    approvals_pending_max: int = 100
    # The newest entries of each list in a session's state; totals count all of them.
    state_list_max: int = 1_000
    # What a session's state says of sandboxes; the oldest are left out first.
    state_sandboxes_bytes_max: int = 1 * MIB
    # The checkpoints that a handoff lists; the oldest are left out first.
    handoff_bytes_max: int = 4 * MIB
    # The largest context, whatever its budget.
    context_bytes_max: int = 8 * MIB
    # The hits of a query that may go into a context.
    context_hits_max: int = 50
    # The least tokens that a context may be asked for. Below: 400.
    context_tokens_min: int = 100
    # The most tokens that a context may be asked for. Beyond it: 400.
    context_tokens_max: int = 10_000_000
    # The largest init script that a handoff has; a larger one is named instead.
    init_script_bytes_max: int = 1 * MIB
    # Sessions of a family in a dossier. Beyond it: 400.
    dossier_sessions_max: int = 2_000
    # Events of a family in a dossier. Beyond it: 400.
    dossier_events_max: int = 100_000
    # The items of a dossier. Beyond it: 400.
    dossier_bytes_max: int = 32 * MIB
    # An input, value or list of effects in an item of a dossier. Beyond it: null, and in the event only.
    dossier_value_bytes_max: int = 16 * KIB
    # Artifacts that the sessions of a dossier name. Beyond it: 400.
    dossier_artifacts_max: int = 1_000
    # Trials that the reliability in a dossier counts. Beyond it: 400.
    dossier_trials_max: int = 1_000
    # The zip file of a dossier, with all events and artifacts. Beyond it: 400.
    dossier_archive_bytes_max: int = 512 * MIB
    # What is kept in memory of a dossier while it is made and sent; what is more is in a temporary file.
    dossier_spool_bytes_max: int = 1 * MIB
    # Exports that are being made or sent, each in a process of its own. Beyond it: 503.
    exports_max: int = 4
    # Those of one key among them. Beyond it: 429.
    exports_per_key_max: int = 1
    # Dossiers that are being made or sent. Beyond it: they wait.
    dossiers_max: int = 4
    # Dossiers of one key that are being made or sent. Beyond it: they wait.
    dossiers_per_key_max: int = 2
    # Threads that write and read the files of dossiers.
    dossier_threads_max: int = 2
    # The newest decisions on approvals in a session's state.
    state_decided_max: int = 100
    # Snapshots of folded sessions in memory; those that were not looked at for longest go first.
    fold_cache_bytes_max: int = 64 * MIB
    # The shortest lease of a session. Below it: 400.
    lease_seconds_min: int = 5
    # The longest lease of a session. Beyond it: 400.
    lease_seconds_max: int = 3_600
    # The lease of a worker that polls the queue of an environment; each heartbeat renews it.
    environment_lease_seconds: int = 90
    # Leases whose last renewal is known; one that is forgotten has its full time again.
    lease_times_max: int = 100_000
    # Events in a lease without a checkpoint; then the state warns.
    checkpoint_due_events: int = 500
    # The most keys or audit events on one page. Beyond it: 400.
    page_items_max: int = 1_000

    def divided(self, workers: int, partitions: int) -> "Limits":
        """Return the limits of one of several workers, where the server has so many partitions in all.

        Memory is divided, so that the whole server takes what one process would; a part is never too small
        for the largest body. What is counted and not kept in memory, such as connections, is not divided.
        """
        if partitions == 1:
            return self
        bodies, artifacts = 4 * self.append_body_bytes_max, 2 * self.artifact_bytes_max
        return replace(
            self,
            memory_bytes_max=self.memory_bytes_max // partitions,
            block_cache_bytes_max=self.block_cache_bytes_max // partitions,
            active_streams_max=max(self.active_streams_max // partitions, 1),
            attribute_bytes_max=self.attribute_bytes_max // partitions,
            sse_shared_bytes_max=self.sse_shared_bytes_max // partitions,
            pending_bytes_max=_part(self.pending_bytes_max, partitions, bodies),
            parsing_bytes_max=_part(self.parsing_bytes_max, partitions, bodies),
            artifact_memory_bytes_max=_part(self.artifact_memory_bytes_max, partitions, artifacts),
            request_bytes_max=_part(self.request_bytes_max, workers, bodies),
            incomplete_artifact_bytes_max=_part(self.incomplete_artifact_bytes_max, workers, artifacts),
            untaken_bytes_max=self.untaken_bytes_max // workers,
        )


def _part(whole: int, parts: int, least: int) -> int:
    """Return an equal part, or the least that is needed, but never more than the whole."""
    return min(whole, max(whole // parts, least))


DEFAULT_LIMITS = Limits()


def names() -> list[str]:
    """Return every limit's name, in the order of the file."""
    return [field.name for field in fields(Limits)]
