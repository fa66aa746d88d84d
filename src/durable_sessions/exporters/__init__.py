"""Sessions in the formats of others: pure functions from stored events to pieces of a file, streamed.

Every exporter takes the session object, the stored events as lines of JSON, and options; it reads the events
once, in order, and keeps little of them in memory.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from durable_sessions.exporters import atif, html, jsonl, managed_agents, markdown
from durable_sessions.exporters.options import ExportOptions, Session

Exporter = Callable[[Session, Iterable[bytes], ExportOptions], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format to export to."""

    name: str
    suffix: str
    media_type: str
    export: Exporter


FORMATS = {
    one.name: one
    for one in (
        Format("jsonl", ".jsonl", "application/x-ndjson", jsonl.export),
        Format("managed-agents", ".json", "application/json", managed_agents.export),
        Format("atif", ".json", "application/json", atif.export),
        Format("markdown", ".md", "text/markdown; charset=utf-8", markdown.export),
        Format("html", ".html", "text/html; charset=utf-8", html.export),
    )
}

__all__ = ["FORMATS", "ExportOptions", "Exporter", "Format", "Session"]
