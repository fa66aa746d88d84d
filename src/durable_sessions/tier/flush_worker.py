"""The process that folds flushes and encodes their objects; it ends when the server does.

It reads the catalog, which the server does not change meanwhile, and writes nothing: what it makes has no
effect before the server has committed a manifest.
"""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import BinaryIO

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage.allocator import release_memory
from durable_sessions.threads import lower_this_thread
from durable_sessions.tier.catalog_view import CatalogView
from durable_sessions.tier.flush_contents import flush_contents
from durable_sessions.tier.flush_message import Wanted, answer, receive, requested, send


def main() -> None:
    """Answer requests from standard input, one at a time, until there are no more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever is printed must not come between the answers
    while True:
        try:
            wanted, batches = requested(receive(sys.stdin.buffer))
        except EOFError:
            return
        # A thread cannot raise its priority again, so that each request has a thread of its own.
        thread = Thread(target=_serve, args=(answers, wanted, list(batches)))
        del batches
        thread.start()
        thread.join()
        release_memory()


def _serve(answers: BinaryIO, wanted: Wanted, batches: list[bytes]) -> None:
    try:
        if not wanted.urgent:
            lower_this_thread()
        uri = (
            Path(wanted.catalog).as_uri() + "?mode=rw"
        )  # a reader of a write-ahead file writes beside it, too
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("pragma query_only = on")
            # What the limits say of accesses that are not recorded is no part of what is written.
            contents = flush_contents(batches, CatalogView(connection, DEFAULT_LIMITS), wanted.next_stream)
        batches.clear()
        send(answers, answer(contents))
    except BrokenPipeError:
        os._exit(0)  # the server has ended
    except BaseException as error:
        sys.stderr.write(f"the flush process cannot go on: {error!r}\n")
        os._exit(1)  # the server does this flush itself


if __name__ == "__main__":
    main()
