"""The end of a command whose reader went away, as in ``ds events x | head -1``."""

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

READER_LEFT = 128 + signal.SIGPIPE
"""The exit status that a shell shows for a program that wrote to a pipe which nobody reads."""


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """End without a word if the reader of standard output has gone; all of the output is flushed here."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise
        # What is still buffered would be written once more, and fail once more, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(READER_LEFT)
