"""One stored event per line, byte for byte: the export that loses nothing and can be imported again."""

from collections.abc import Iterable, Iterator
from itertools import chain

from durable_sessions import export_header
from durable_sessions.exporters.options import ExportOptions, Session


def export(session: Session, lines: Iterable[bytes], options: ExportOptions) -> Iterator[bytes]:
    """Return the title and the metadata, if there are any, and the events as they are stored, by line."""
    header = export_header.encode(session)
    if header is not None:
        yield header + b"\n"
    for line in lines:
        yield line.rstrip(b"\n") + b"\n"


def read(lines: Iterable[bytes]) -> tuple[Session, Iterator[bytes]]:
    """Return the session and the events of an export, as the other formats take them."""
    rest = iter(lines)
    first = next(rest, None)
    if first is None:
        return {}, rest
    header = export_header.decode(first)
    if header is None:
        return {}, chain([first], rest)
    return {"id": header.session, "title": header.title, "metadata": header.metadata}, rest
