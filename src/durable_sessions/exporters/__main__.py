"""Exports a session in a process of its own: what a server gives it on standard input, to standard output.

The input is the session object and then the events, each behind its length in four bytes; a length of all
ones is the end. Without it the export fails: the server could not read the rest.
"""

import sys
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from durable_sessions.exporters import FORMATS, ExportOptions

END = b"\xff\xff\xff\xff"
_LENGTH_BYTES = 4


def frame(data: bytes) -> bytes:
    """Return what the process is given for a session object or an event."""
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


def _frames(source: BinaryIO) -> Iterator[bytes]:
    while (length := source.read(_LENGTH_BYTES)) != END:
        data = source.read(int.from_bytes(length, "big"))
        if len(length) < _LENGTH_BYTES or len(data) < int.from_bytes(length, "big"):
            raise EOFError("the input has ended before its end")
        yield data


def main(name: str, *words: str) -> None:
    """Export what comes in, in a format; the words are ``full`` and ``content``."""
    frames = _frames(sys.stdin.buffer)
    session = msgspec.json.decode(next(frames))
    options = ExportOptions(full="full" in words, content="content" in words)
    for piece in FORMATS[name].export(session, frames, options):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
