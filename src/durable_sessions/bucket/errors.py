"""What can go wrong with the bucket; see ``durable_sessions.errors`` for the pattern."""

from durable_sessions.errors import DurableSessionsError


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
    """The object {path} is damaged: {problem}. Nothing of it is served. Restore it from a copy."""

    code = "object_damaged"
