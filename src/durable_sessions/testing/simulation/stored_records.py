"""What a machine has stored: the files of its log, and the bodies of the events in its bucket."""

import io

import pyarrow.parquet as pq

from durable_sessions.testing.simulation.process import LOG_DIRECTORY, Process


async def stored_bodies(process: Process) -> list[tuple[str, bytes]]:
    """Return the contents of all files of the log, and of all segments that count, each with its place."""
    files = process.machine.disk.contents().items()
    found = [(str(path), data) for path, data in files if path.parent == LOG_DIRECTORY]
    archive = process.archive
    assert archive is not None, "the process runs"
    for segment in archive.manifest.segments:
        table = pq.read_table(io.BytesIO(await archive.bucket.get(segment.path)), columns=["body"])
        bodies = (str(body).encode() for body in table.column(0).to_pylist())
        found.append((segment.path, b"\n".join(bodies)))
    return found
