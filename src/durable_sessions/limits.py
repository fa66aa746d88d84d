"""Every limit of the server, by name, with its unit last.

A limit that an operator may want to move is a setting too (see ``settings.py``); its
default is taken from here. ``docs/reference/limits.md`` is generated from this file.
"""

from dataclasses import dataclass, fields

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
    # Sessions that a workspace may have for a list of them to be sorted by activity; with more it is refused.
    sorted_sessions_max: int = 200_000
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
    # What is moved to the bucket at a time, and how much may wait before that (setting: flush_bytes).
    flush_bytes_max: int = 32 * MIB
    # Changes that are moved at a time, each of which may be of a stream of its own.
    flush_effects_max: int = 65_536
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
    # From the flush that removes a stream until no object in the bucket holds any of it.
    delete_within_seconds: float = 24 * 3600.0
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
    # Answers that peers do not take, of all connections together. Beyond it those are cut who wait longest
    # of the key that holds most (without keys: of all).
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
    # For how long a worker admits by its copy of the keys without a word from the one that keeps them.
    # Beyond it: 503.
    key_proof_seconds: float = 15.0
    # How often a worker has its copy of the keys confirmed, also if nothing has changed.
    key_confirm_seconds: float = 1.0
    # How long the answer to that is waited for.
    key_confirm_seconds_max: float = 2.0
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
    # How long a worker may take to stop; then it is killed.
    worker_stop_seconds_max: float = 60.0
    # The most keys or audit events on one page. Beyond it: 400.
    page_items_max: int = 1_000


DEFAULT_LIMITS = Limits()


def names() -> list[str]:
    """Return every limit's name, in the order of the file."""
    return [field.name for field in fields(Limits)]
