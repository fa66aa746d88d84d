"""Groups of error codes that operations share."""

READING = ("cold_read_failed", "bucket_failed", "bucket_denied", "object_damaged", "object_not_found")
"""Errors of a read of old records."""
WRITING_UNMETERED = ("partition_stopped", "outcome_unknown")
"""Errors of a durable change that counts for no quota."""
WRITING = (*WRITING_UNMETERED, "quota_exceeded")
"""Errors of a durable change."""
EVENTS = (
    "invalid_event",
    "unknown_event_type",
    "unresolved_reference",
    "not_independent",
    "session_paused",
    "approval_pending",
    "budget_exceeded",
    "invalid_transition",
    "nothing_pending",
    "ratchet",
    "too_many_facts",
    "too_many_approvals",
    "too_many_slots",
    "event_too_large",
)
"""Errors of events that a session does not take, in an append or as the first ones of a new session."""
STORING = ("bucket_failed", "bucket_denied", "object_damaged", "object_exists", "object_not_found")
"""Errors of an object in the bucket."""
ENTRANCE = ("host_not_allowed", "origin_not_allowed", "keys_required")
"""Errors of every request that comes from where it must not."""
ALWAYS = ("method_not_allowed", "overloaded", "shutting_down", "partition_fenced", "partition_moved")
"""Errors of every request, by the API or by the carrier."""
CARRIER = (
    "malformed_request",
    "request_timeout",
    "target_too_long",
    "headers_too_large",
    "body_too_large",
    "internal",
    *ALWAYS,
)
"""Errors of the carrier: a request is malformed or incomplete, causes a fault, or exceeds a limit."""
