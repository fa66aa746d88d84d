"""A server's claim on its bucket among the servers of its machine: a lock that ends with the process.

Manifests fence servers on any machine, but only once a newer one has started. This refuses a second server
that was started by mistake beside the one that has the bucket. It is no protection: where nothing can be
locked, as on some network file systems, the claim is granted, and the manifests decide as ever.
"""

import fcntl
import os
import tempfile
from hashlib import sha256
from pathlib import Path

from durable_sessions.directories import make_directory

_ENDPOINT = "AWS_ENDPOINT_URL"
"""The variable that says in which store a bucket of this name is."""


class MachineClaim:
    """The claim of this process on a bucket: a directory, or the address of one in an object store."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Say whether no other process of this machine has the bucket; it is then ours for good."""
        if self._descriptor is not None:
            return True
        try:
            descriptor = self._opened()
        except OSError:
            return True  # the start that follows says what is wrong with the directory
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            return not isinstance(error, BlockingIOError)
        self._descriptor = descriptor
        return True

    def _opened(self) -> int:
        if "://" not in self._bucket:
            # The directory itself: whatever name leads to it, it is the same one.
            directory = Path(self._bucket).absolute()
            make_directory(directory)
            return os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        store = f"{os.environ.get(_ENDPOINT, '')} {self._bucket.rstrip('/')}"
        name = f"durable-sessions-{os.getuid()}-{sha256(store.encode()).hexdigest()[:16]}.lock"
        return os.open(Path(tempfile.gettempdir()) / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
