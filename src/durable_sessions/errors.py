"""One class per failure; its docstring is its message.

``code`` is stable and part of the API. Parameters are fields, named in the docstring in
braces. ``http/error_codes.py`` maps every code to a status; a test proves that none is missing.

The module is long because it is a table: one place to see which failures there are, and how each is worded.
"""

import inspect
from typing import ClassVar


class DurableSessionsError(Exception):
    """Something failed."""

    code: ClassVar[str] = "error"
    told: ClassVar[tuple[str, ...]] = ()
    """Parameters that clients are told beside the message, as members of the details."""

    def __init__(self, **fields: object) -> None:
        self.fields = fields
        super().__init__(self.template().format(**fields))

    @classmethod
    def template(cls) -> str:
        """Return the message with the names of its parameters in braces."""
        return inspect.cleandoc(cls.__doc__ or "").replace("\n", " ")

    def __getattr__(self, name: str) -> object:
        """Give the parameters of the failure as attributes."""
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(name) from None

    def among(self, events: int) -> "DurableSessionsError":
        """Note how many events the request has of which ``index`` is at fault, and return the error."""
        self.fields["events"] = events
        return self

    def where(self) -> str:
        """Return which event is at fault, as the beginning of the message; nothing if there is only one."""
        index = self.fields.get("index")
        return "" if index is None or self.fields.get("events") == 1 else f"Event {index}, counted from 0: "

    def __str__(self) -> str:
        return self.where() + super().__str__()


# What a client can get wrong ------------------------------------------------------------


class InvalidRequestError(DurableSessionsError):
    """{problem}"""

    code = "invalid_request"


class InvalidQueryError(DurableSessionsError):
    """{problem}"""

    code = "invalid_query"


class UnknownParameterError(DurableSessionsError):
    """There is no query parameter {name} here. {advice}"""

    code = "unknown_parameter"


class InvalidPathError(DurableSessionsError):
    """The stream path is not usable: {problem}. Send 1 to {path_bytes_max} bytes of UTF-8 in segments
    separated by single slashes, without control characters and without . or .. segments."""

    code = "invalid_path"


class InvalidOffsetError(DurableSessionsError):
    """The offset {offset!r} is malformed. Send {wanted}."""

    code = "invalid_offset"

    def __init__(
        self, offset: str, wanted: str = "-1, now, or a Stream-Next-Offset that this server gave"
    ) -> None:
        super().__init__(offset=offset, wanted=wanted)


class OffsetBeyondTailError(DurableSessionsError):
    """{what} {offset} lies beyond the end of the stream, which is {tail}. Send one up to that end."""

    code = "offset_beyond_tail"


class InvalidHeaderError(DurableSessionsError):
    """The header {header} is not usable: {problem}."""

    code = "invalid_header"


class InvalidJsonError(DurableSessionsError):
    """The body is not valid JSON: {problem}."""

    code = "invalid_json"


class EmptyBodyError(DurableSessionsError):
    """An append needs a body. Send at least one byte (for JSON at least one message), or close the stream
    with Stream-Closed: true."""

    code = "empty_body"


class MissingContentTypeError(DurableSessionsError):
    """A body needs a Content-Type. Send the content type that the stream was created with."""

    code = "missing_content_type"


class InvalidForkError(DurableSessionsError):
    """The fork is not possible: {problem}."""

    code = "invalid_fork"


class NewEpochSequenceError(DurableSessionsError):
    """A new producer epoch starts at Producer-Seq 0, not {received}."""

    code = "new_epoch_sequence"


class BodyTooLargeError(DurableSessionsError):
    """The body is larger than {append_body_bytes_max} bytes. Send it in several appends."""

    code = "body_too_large"


class TargetTooLongError(DurableSessionsError):
    """The request target is longer than {target_bytes_max} bytes. Send a shorter query, or ask in several
    requests."""

    code = "target_too_long"


class HeadersTooLargeError(DurableSessionsError):
    """The request headers exceed {header_bytes_max} bytes or {header_count_max} lines. Send fewer and
    shorter ones."""

    code = "headers_too_large"


class MalformedRequestError(DurableSessionsError):
    """The bytes received are not an HTTP/1.1 request: {problem}."""

    code = "malformed_request"


class RequestTimeoutError(DurableSessionsError):
    """The request did not arrive completely within {seconds} seconds. Send it again, a large body in
    parts."""

    code = "request_timeout"


class MethodNotAllowedError(DurableSessionsError):
    """The method is not allowed here. Use one of: {allow}."""

    code = "method_not_allowed"


class RouteNotFoundError(DurableSessionsError):
    """Nothing is served at {path}. {advice}"""

    code = "route_not_found"


# What the state of a stream forbids -----------------------------------------------------


class StreamNotFoundError(DurableSessionsError):
    """The stream {path} does not exist."""

    code = "stream_not_found"


class StreamGoneError(DurableSessionsError):
    """The stream {path} was deleted; its data is kept only for its forks."""

    code = "stream_gone"


class StreamExistsError(DurableSessionsError):
    """The stream {path} exists already with another {difference}."""

    code = "stream_exists"


class PathBlockedError(DurableSessionsError):
    """The stream {path} was deleted but has forks, so it can be neither created nor forked."""

    code = "path_blocked"


class LegalHoldError(DurableSessionsError):
    """The stream {path} is under a legal hold: neither it nor its events can be deleted until that is
    lifted."""

    code = "legal_hold"


class StreamClosedError(DurableSessionsError):
    """The stream is closed and takes no more appends; it ends at {tail}. Fork it to go on."""

    code = "stream_closed"


class ContentTypeMismatchError(DurableSessionsError):
    """The content type {sent} differs from the stream's, which is {expected}."""

    code = "content_type_mismatch"


class SequenceConflictError(DurableSessionsError):
    """Stream-Seq {sent!r} is not greater than the last one, {last!r}."""

    code = "sequence_conflict"


class StaleEpochError(DurableSessionsError):
    """Producer-Epoch {sent} is fenced off; the current epoch is {current}."""

    code = "stale_epoch"


class ProducerGapError(DurableSessionsError):
    """Producer-Seq {received} leaves a gap; {expected} is expected next."""

    code = "producer_gap"


class TooManyProducersError(DurableSessionsError):
    """The stream remembers {producers_per_stream_max} producers and takes no new one."""

    code = "too_many_producers"


class ForkTooDeepError(DurableSessionsError):
    """The source is already {fork_depth_max} forks away from its origin."""

    code = "fork_too_deep"


class PreconditionNotMetError(DurableSessionsError):
    """{problem} Nothing was changed."""

    code = "precondition_failed"


# Subscriptions --------------------------------------------------------------------------


class SubscriptionNotFoundError(DurableSessionsError):
    """The subscription {id} does not exist."""

    code = "subscription_not_found"


class SubscriptionExistsError(DurableSessionsError):
    """The subscription {id} exists already with another configuration."""

    code = "subscription_already_exists"


class TooManySubscriptionsError(DurableSessionsError):
    """No more than {most} {things} are allowed."""

    code = "too_many_subscriptions"


class WebhookUrlRejectedError(DurableSessionsError):
    """The webhook URL is refused: {problem}."""

    code = "webhook_url_rejected"


class TokenInvalidError(DurableSessionsError):
    """The bearer token is missing or was not issued for this subscription."""

    code = "token_invalid"


class TokenExpiredError(DurableSessionsError):
    """The bearer token has expired."""

    code = "token_expired"


class FencedError(DurableSessionsError):
    """This wake is over: the subscription is at generation {generation}."""

    code = "fenced"


class AlreadyClaimedError(DurableSessionsError):
    """The subscription is claimed by {current_holder} in generation {generation}."""

    code = "already_claimed"


class NoPendingWorkError(DurableSessionsError):
    """The subscription has no pending work."""

    code = "no_pending_work"


class InvalidAckError(DurableSessionsError):
    """The ack for {stream} is not usable: {problem}."""

    code = "invalid_ack"


# Who may do what, and how much ----------------------------------------------------------


class UnauthenticatedError(DurableSessionsError):
    """{problem} Send a key as Authorization: Bearer <key> or as x-api-key: <key>."""

    code = "authentication_error"


class HostNotAllowedError(DurableSessionsError):
    """Without keys the server answers to 127.0.0.1, localhost and [::1] only, and the Host of this request
    is {host}. Add the name to the setting allowed_hosts, or create a key: durable-sessions keys create
    --principal NAME --role admin --data DIRECTORY."""

    code = "host_not_allowed"


class OriginNotAllowedError(DurableSessionsError):
    """Web pages of {origin} may not do this. To let them, {remedy}add their origin to the setting
    allowed_origins."""

    code = "origin_not_allowed"


class KeysRequiredError(DurableSessionsError):
    """Behind a proxy a server needs keys, and this one has none. Create the first on its own machine:
    durable-sessions keys create --principal NAME --role admin --data DIRECTORY."""

    code = "keys_required"


class FirstKeyRefusedError(DurableSessionsError):
    """The first key is made by who can read the data directory of the server: run durable-sessions keys
    create --principal NAME --role admin --data DIRECTORY on its machine, or start it with
    DURABLE_SESSIONS_API_KEY."""

    code = "first_key_refused"


class ForbiddenError(DurableSessionsError):
    """{problem}"""

    code = "permission_error"


class KeyRateExceededError(DurableSessionsError):
    """The key {key_id} may send {requests_per_second} requests per second. Try again in
    {retry_after_seconds} seconds, or ask an admin for a key with a higher rate."""

    code = "rate_limited"


class TooManyScansError(DurableSessionsError):
    """{scans_waiting_per_key_max} lists and filtered reads of this key wait already. Try again in two
    seconds, with fewer at the same time."""

    code = "too_many_scans"


class TooManyExportsError(DurableSessionsError):
    """{exports_per_key_max} exports of this key are under way. Try again when one of them has ended."""

    code = "too_many_exports"


class QuotaExceededError(DurableSessionsError):
    """The workspace is at its quota of {most} {what}. Delete streams that are not needed any more, or ask
    the operator to raise the setting {setting}."""

    code = "quota_exceeded"


class KeyNotFoundError(DurableSessionsError):
    """There is no key {id}. List the keys to see which there are."""

    code = "key_not_found"


class TooManyKeysError(DurableSessionsError):
    """{holder} has {keys_max} keys that are not revoked. Revoke those that are not used."""

    code = "too_many_keys"


class KeysUnprovenError(DurableSessionsError):
    """This process of the server has lost touch with the one that keeps the keys, and cannot know whether
    yours is still valid. Try again shortly."""

    code = "keys_unproven"


class SignInRefusedError(DurableSessionsError):
    """A browser can sign in over TLS only, since everybody on the way could read the key. Put a proxy with
    TLS in front of the server and set public_url, or use 127.0.0.1 through an SSH tunnel."""

    code = "sign_in_refused"


class SignInsTooFastError(DurableSessionsError):
    """Too many sign-ins with wrong keys; the next in {retry_after_seconds} s."""

    code = "sign_ins_too_fast"


class KeysTooFastError(DurableSessionsError):
    """The workspace {workspace} may make {per_minute} keys a minute; the next in {retry_after_seconds} s."""

    code = "keys_too_fast"


# Artifacts ------------------------------------------------------------------------------


class ArtifactNotFoundError(DurableSessionsError):
    """There is no artifact {digest}. Artifacts are named by the SHA-256 of their bytes."""

    code = "artifact_not_found"


class ArtifactRedactedError(DurableSessionsError):
    """The artifact {digest} was redacted: its bytes are gone, and cannot be stored again."""

    code = "artifact_redacted"


class ArtifactMismatchError(DurableSessionsError):
    """The body has the SHA-256 {found}, not {expected}; nothing was stored. Send the bytes that the digest
    was made of."""

    code = "artifact_mismatch"


class ArtifactTooLargeError(DurableSessionsError):
    """The body is larger than {artifact_bytes_max} bytes. Store it in parts, each an artifact of its own."""

    code = "artifact_too_large"


class DossierTooLargeError(DurableSessionsError):
    """The dossier would have {what}. Ask for an earlier place with at, or export the sessions one by one."""

    code = "dossier_too_large"


class RangeNotSatisfiableError(DurableSessionsError):
    """The range {range!r} lies outside of the {size} bytes that there are. Ask for bytes=<first>-<last>
    inside of them."""

    code = "range_not_satisfiable"


# What the server cannot do now ----------------------------------------------------------


class OverloadedError(DurableSessionsError):
    """The server is at its limit of {what}. Try again shortly."""

    code = "overloaded"


class ViewUnavailableError(DurableSessionsError):
    """{problem} A view without it would be wrong, so there is none now. Try again shortly."""

    code = "view_unavailable"


class ShareExceededError(DurableSessionsError):
    """This key has its whole share of {what} in use ({limit}). Finish or close some of it, then try again."""

    code = "share_exceeded"


class SearchUnavailableError(DurableSessionsError):
    """Search is not available now: {reason}. Events are safe and can be read; try again shortly."""

    code = "search_unavailable"


class ShuttingDownError(DurableSessionsError):
    """The server is shutting down. Try again; another or the restarted process will answer."""

    code = "shutting_down"


class PartitionStoppedError(DurableSessionsError):
    """The log failed and nothing more is accepted until it has been opened again, which the server does by
    itself when the disk works: {reason}. This request changed nothing; try it again."""

    code = "partition_stopped"


class PartitionFencedError(DurableSessionsError):
    """Another server has become the writer of the bucket, so this one answers nothing more. Send the
    request to the other server. This request changed nothing."""

    code = "partition_fenced"


class PartitionMovedError(DurableSessionsError):
    """Another process has claimed the log, so this one answers nothing more. This request changed nothing;
    send it again, and the new owner answers."""

    code = "partition_moved"


class ManifestLostError(DurableSessionsError):
    """Another server has become the writer of the bucket: it wrote manifest {manifest}, and was started
    {how}. This server has stepped down and takes nothing more. What it acknowledged after position {after}
    of its log is in {log} and not in the bucket; durable-sessions dump log --from {after} shows it. Let
    only one server use a bucket."""

    code = "manifest_lost"


class OutcomeUnknownError(DurableSessionsError):
    """This request may or may not have taken effect: {reason}. Check when the server takes work again, or
    retry with producer headers."""

    code = "outcome_unknown"


class OwnershipUnprovenError(DurableSessionsError):
    """This server cannot tell whether it still owns the log, so it answers nothing from what it has:
    {reason}. This request changed nothing; try it again."""

    code = "ownership_unproven"


class LinkDownError(DurableSessionsError):
    """The process that owns the data cannot be reached: {reason}. This request changed nothing; try it
    again."""

    code = "partition_unavailable"


class LinkLostError(DurableSessionsError):
    """The connection to the process that owns the data was lost while this request was under way, so it
    may or may not have taken effect: {reason}. Check, or retry with producer headers."""

    code = "link_lost"


class ColdReadError(DurableSessionsError):
    """Records that have left memory could not be read back: {reason}."""

    code = "cold_read_failed"


class InternalError(DurableSessionsError):
    """The server met a fault of its own; it has been logged."""

    code = "internal"


# The bucket -----------------------------------------------------------------------------


class BucketError(DurableSessionsError):
    """The bucket failed: {reason}."""

    code = "bucket_failed"


class BucketDeniedError(BucketError):
    """The bucket does not let us in: {reason}. Check its name, the credentials and their permissions."""

    code = "bucket_denied"


class BucketRefusedError(DurableSessionsError):
    """The bucket cannot be used: {problem}. {remedy}"""

    code = "bucket_refused"


class ObjectExistsError(DurableSessionsError):
    """The object {path} exists already; another writer was first."""

    code = "object_exists"


class ObjectNotFoundError(DurableSessionsError):
    """The object {path} does not exist."""

    code = "object_not_found"


class ObjectDamagedError(DurableSessionsError):
    """The object {path} is damaged: {problem}. Nothing of it is served. Restore it from a copy, or see
    durable-sessions repair."""

    code = "object_damaged"


# What sessions refuse --------------------------------------------------------------------


class InvalidEventError(DurableSessionsError):
    """{problem}"""

    code = "invalid_event"
    told = ("member",)


class EventTooLargeError(DurableSessionsError):
    """The event has {size} bytes; send at most {event_bytes_max}. Put large payloads into an artifact and
    refer to it."""

    code = "event_too_large"


class InvalidSessionError(DurableSessionsError):
    """{problem}"""

    code = "invalid_session"


class DocumentTooLargeError(DurableSessionsError):
    """The {kind} has {size} bytes as JSON; at most {registered_document_bytes_max} are allowed. A session
    keeps a copy of its agent, so nothing larger could be used."""

    code = "document_too_large"


class SessionTooLargeError(DurableSessionsError):
    """What is said of the session has {size} bytes; send at most {session_document_bytes_max}."""

    code = "session_too_large"


class SessionNotFoundError(DurableSessionsError):
    """There is no session {session} in this workspace."""

    code = "session_not_found"


class TooManySlotsError(DurableSessionsError):
    """The events of a session can use {slots_per_session_max} different slots, and these would be more.
    Use slots again, or another session."""

    code = "too_many_slots"


class IncarnationMismatchError(DurableSessionsError):
    """The session {session} is now {incarnation}, not {expected}: that one was deleted, and its id given
    to another. Read it without incarnation= if you want this one."""

    code = "session_replaced"


class EventNotFoundError(DurableSessionsError):
    """The session has no event {event}."""

    code = "event_not_found"


class ThreadNotFoundError(DurableSessionsError):
    """The session has no thread {thread}."""

    code = "thread_not_found"


class EventIdConflictError(DurableSessionsError):
    """The id {event} belongs to another event already; nothing was stored. Send each event under an id of
    its own, or without one."""

    code = "event_id_conflict"


class SessionExistsError(DurableSessionsError):
    """The session {session} exists already {difference}. To go on with it, append to
    /v1/sessions/{session}/events; to change what is said of it, POST to /v1/sessions/{session}; for a new
    one, choose another id."""

    code = "session_exists"


class SessionArchivedError(DurableSessionsError):
    """The session {session} is archived: it can be read, but takes nothing more."""

    code = "session_archived"


class SessionRunningError(DurableSessionsError):
    """The session {session} is running. Send user.interrupt first, and wait for session.status_idle."""

    code = "session_running"


class InvalidAgentError(DurableSessionsError):
    """{problem}"""

    code = "invalid_agent"


class InvalidMemoryStoreError(DurableSessionsError):
    """{problem}"""

    code = "invalid_memory_store"


class InvalidMemoryError(DurableSessionsError):
    """{problem}"""

    code = "invalid_memory"


class InvalidEnvironmentError(DurableSessionsError):
    """{problem}"""

    code = "invalid_environment"


class InvalidResourceError(DurableSessionsError):
    """{problem}"""

    code = "invalid_resource"


class InvalidKeyError(DurableSessionsError):
    """{problem}"""

    code = "invalid_key"


class InvalidHookError(DurableSessionsError):
    """{problem}"""

    code = "invalid_hook"


class InvalidFileError(DurableSessionsError):
    """{problem}"""

    code = "invalid_file"


class InvalidTelemetryError(DurableSessionsError):
    """{problem}"""

    code = "invalid_telemetry"


class TelemetryTooLargeError(DurableSessionsError):
    """The export has more than {telemetry_bytes_max} bytes when it is unpacked. Let the exporter send
    smaller batches."""

    code = "telemetry_too_large"


class UnsupportedMediaTypeError(DurableSessionsError):
    """{problem}"""

    code = "unsupported_media_type"


class RegisteredObjectNotFoundError(DurableSessionsError):
    """There is no {kind} {name}."""

    code = "registered_object_not_found"


class ObjectArchivedError(DurableSessionsError):
    """The {kind} {name} is archived and can no longer be changed."""

    code = "object_archived"


class VersionConflictError(DurableSessionsError):
    """The {kind} {name} is at version {version} by now. Read it again, and send your change with that
    version."""

    code = "version_conflict"


class IdempotencyMismatchError(DurableSessionsError):
    """The Idempotency-Key was used before, with another body. Send the same body again, or another key."""

    code = "idempotency_mismatch"


# The log and the process ----------------------------------------------------------------


class LogError(DurableSessionsError):
    """The log failed: {reason}."""

    code = "log_failed"


class LogDamagedError(LogError):
    """{file} is damaged at byte {byte}: {problem}. What follows was acknowledged, so nothing is cut and
    the server does not start. Restore the file from a copy, or see durable-sessions repair."""

    code = "log_damaged"


class LogLockedError(LogError):
    """{path} is in use by another process (pid {pid})."""

    code = "log_locked"


class LogFencedError(LogError):
    """Another process has claimed the log in {log}: {problem}. What was to be appended is certainly not
    there."""

    code = "log_fenced"


class LogFullError(LogError):
    """The log in {log} is full: {problem}. What was to be appended is certainly not there."""

    code = "log_full"


class LogMisconfiguredError(LogError):
    """The log in {log} is kept in a way that can lose data: {problem}. Nothing was changed."""

    code = "log_misconfigured"


class LogRegressedError(LogError):
    """The log in {log} ends at position {ends}, but {heard} had been acknowledged: what lies between is
    gone. Nothing is served. Bring the lost replicas back, or go on from the bucket."""

    code = "log_regressed"


class FrameDamagedError(LogDamagedError):
    """The log in {log} is damaged at position {position}: {problem}. Nothing is skipped, so it is not
    opened."""

    code = "log_frame_damaged"


class LogVersionError(LogError):
    """{file} has format version {found}; this program reads version {supported}."""

    code = "log_version"


class LogEffectUnknownError(LogError):
    """The log has an effect that this program does not know ({problem}): a newer program wrote it, and
    only that one, or a newer one, can continue it."""

    code = "log_effect_unknown"


class ArchiveBehindError(DurableSessionsError):
    """The log begins at {begins}, but the bucket holds only what came before {flushed}: what lies between
    is missing. Point --bucket to the bucket that this data directory was flushed to."""

    code = "archive_behind"


class ArchiveAheadError(DurableSessionsError):
    """The log in {log} ends at {ends}, but the bucket already holds what came before {flushed}: a server
    with a copy of this data directory has written to it, or the log has lost its end. Nothing was changed.
    What was acknowledged after position {after} may be there only: durable-sessions dump log --from
    {after} shows it. Use the other copy, or point --bucket to the bucket that this data directory was
    flushed to, or start with an empty data directory, or see durable-sessions repair, which says what it
    would drop."""

    code = "archive_ahead"


class ArchiveMissingError(DurableSessionsError):
    """The log in {log} belongs to a bucket, and this one is empty. Point --bucket to the bucket that this
    data directory was flushed to. If that one is lost, durable-sessions repair --bucket-is-lost goes on
    with what the log has."""

    code = "archive_missing"


class LogForeignError(DurableSessionsError):
    """The bucket belongs to another log ({lineage}): a server with another data directory has become its
    writer since. The log in {log} can no longer go on with it, and nothing was changed. What was
    acknowledged after position {after} may be there only: durable-sessions dump log --from {after} shows
    it. Point --bucket to the log's own bucket, or start with an empty data directory, or see
    durable-sessions repair, which says what it would drop."""

    code = "log_foreign"


class LogDivergedError(DurableSessionsError):
    """The bucket was flushed up to position {flushed} by a server with a copy of this data directory: the
    log in {log} has something else there. It can no longer go on with the bucket, and nothing was changed.
    What was acknowledged after position {after} may be there only: durable-sessions dump log --from
    {after} shows it. Use the other copy, or start with an empty data directory, or see durable-sessions
    repair, which says what it would drop."""

    code = "log_diverged"


class RepartitionRefusedError(DurableSessionsError):
    """The bucket was not repartitioned: {problem}"""

    code = "repartition_refused"


# What the session as a unit of work refuses ------------------------------------------------


class UnknownEventTypeError(DurableSessionsError):
    """There is no event type {kind}: those that begin with ds. are fixed. {advice}"""

    code = "unknown_event_type"


class UnresolvedReferenceError(DurableSessionsError):
    """A reference leads nowhere: {what}. Send what it refers to first, or with it."""

    code = "unresolved_reference"
    told = ("member",)


class PrincipalMismatchError(DurableSessionsError):
    """Session-Principal says {declared}, but the key is {principal}'s. Leave the header out."""

    code = "principal_mismatch"


class NotIndependentError(DurableSessionsError):
    """{principal} has done work in this session (agent.* events) and cannot judge it. Let another
    principal do it, with a key of its own."""

    code = "not_independent"
    told = ("principal",)


class LeaseLostError(DurableSessionsError):
    """The lease of epoch {epoch} is {why}. Stop this worker, or wake the session again."""

    code = "lease_lost"


class WorkLostError(DurableSessionsError):
    """The claim on {work} is over: its session waits, or another worker has it. Stop, and poll again."""

    code = "work_lost"


class HeartbeatPreconditionFailedError(DurableSessionsError):
    """The claim of epoch {epoch} was renewed at {last}, and this request names another renewal as the
    last: somebody else works under the same claim. Stop, and wake the session or poll again."""

    code = "heartbeat_precondition_failed"


class WorkStoppedError(DurableSessionsError):
    """{work} was stopped: its session is not routed to the environment any more."""

    code = "work_stopped"


class LeaseRequiredError(DurableSessionsError):
    """{worker} holds this session alone (epoch {epoch}) until it is released or woken again, also when the
    time of the lease is over: {kind} is taken from it only. Wake the session, and send Session-Epoch."""

    code = "lease_required"


class SessionPausedError(DurableSessionsError):
    """The session is paused and takes no {kind} now; ds.session.resumed lifts it."""

    code = "session_paused"
    told = ("stops",)


class ApprovalPendingError(DurableSessionsError):
    """The session waits for a decision and takes no {kind} now; ds.approval.decided lifts it."""

    code = "approval_pending"
    told = ("stops",)


class BudgetExceededError(DurableSessionsError):
    """The budget is used up ({limit}: {value} of {max}), so the session takes no {kind} now. A judge can
    raise it with ds.budget.set."""

    code = "budget_exceeded"
    told = ("stops", "limit", "max", "value")


class SessionClaimedError(DurableSessionsError):
    """{holder} holds this session until {expires_at}. Try again in {retry_after_seconds} seconds, or take
    it with force as an evaluator."""

    code = "session_claimed"
    told = ("principal", "worker", "expires_at")


class NotRoutedError(DurableSessionsError):
    """The session is routed to {to}, and {principal} is somebody else."""

    code = "not_routed"


class NotAForkError(DurableSessionsError):
    """{session} is no fork of {source}: only what a fork has changed can be adopted."""

    code = "not_a_fork"


class AdoptConflictError(DurableSessionsError):
    """Both sides have changed {conflicts}; say with on_conflict whose value counts: theirs or ours."""

    code = "adopt_conflict"
    told = ("conflicts",)


class ContextTooSmallError(DurableSessionsError):
    """What must be in every context needs {needed} tokens; ask for at least that many with budget_tokens."""

    code = "context_too_small"
    told = ("needed",)


class GateClosedError(DurableSessionsError):
    """The route needs features that do not pass yet: {features}."""

    code = "gate_closed"
    told = ("features",)


class InvalidTransitionError(DurableSessionsError):
    """{problem}"""

    code = "invalid_transition"


class NothingPendingError(DurableSessionsError):
    """No request {request} waits for a decision: it was decided already, or is none of this session's."""

    code = "nothing_pending"


class RatchetError(DurableSessionsError):
    """The feature {feature} rests on files: a pass must carry exactly these, with the same digests. Amend
    the outcome if the check itself must change."""

    code = "ratchet"


class TooManyFactsError(DurableSessionsError):
    """A session takes {facts_per_session_max} facts, retractions included, of
    {facts_bytes_per_session_max} bytes in all. Keep larger things in artifacts or slots."""

    code = "too_many_facts"


class TooManyApprovalsError(DurableSessionsError):
    """{approvals_pending_max} requests wait for a decision already; decide some of them first."""

    code = "too_many_approvals"


class MemoryPathConflictError(DurableSessionsError):
    """The path {path} is taken by the memory {conflicting_memory_id}. Choose another, or update that one."""

    code = "memory_path_conflict"


class MemoryPreconditionError(DurableSessionsError):
    """The memory {memory} has the content {content_sha256} by now. Read it again, then decide anew."""

    code = "memory_precondition_failed"


class MemoryScopeFullError(DurableSessionsError):
    """The memory scope {scope} takes {memory_records_per_scope_max} records of
    {memory_bytes_per_scope_max} bytes in all, reads included. Go on in another scope."""

    code = "memory_scope_full"


class SettingsError(DurableSessionsError):
    """{problem}"""

    code = "invalid_settings"
