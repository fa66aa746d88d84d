"""Tool outputs that were too large for the transcript, and were saved in files beside it."""

import base64
from collections.abc import Iterator
from pathlib import Path

from durable_sessions.importers.claude_code.context import TOOL
from durable_sessions.importers.events import Event, EventMaker, SessionMetadata, instant, text_block
from durable_sessions.importers.sources import DocumentPart
from durable_sessions.importers.tally import Tally

FOLDER = "tool-results"
FILE_BYTES_MAX = 64 * 1024 * 1024


def outputs(session: str, folder: Path, name: str) -> DocumentPart:
    """Return the saved outputs of a session as a part: one record for each file."""

    def files() -> list[Path]:
        return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())

    def fingerprint() -> str:
        stats = [path.stat() for path in files()]
        newest = max((stat.st_mtime_ns for stat in stats), default=0)
        return f"{len(stats)}:{sum(stat.st_size for stat in stats)}:{newest}"

    def produce(about: SessionMetadata, tally: Tally) -> Iterator[Event]:
        make = EventMaker(TOOL, session, name)
        for path in files():
            tally.records += 1
            stat = path.stat()
            place = path.relative_to(folder).as_posix()
            if stat.st_size > FILE_BYTES_MAX:
                tally.skipped["saved output of more than 64 MiB"] += 1
                continue
            tally.kept["saved output"] += 1
            yield make.make(
                "import.record",
                f"{FOLDER}/{place} {stat.st_size}",
                at=instant(stat.st_mtime),
                call_id=path.stem if path.stem.startswith("toolu_") else None,
                kind="saved_output",
                name=place,
                content=[_block(path.read_bytes())],
            )

    return DocumentPart(folder, name, produce, fingerprint=fingerprint)


def _block(data: bytes) -> Event:
    try:
        return text_block(data.decode())
    except UnicodeDecodeError:
        encoded = base64.b64encode(data).decode()
        source = {"type": "base64", "media_type": "application/octet-stream", "data": encoded}
        return {"type": "document", "source": source}
