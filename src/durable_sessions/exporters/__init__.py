"""Sessions in the formats of others: pure functions from stored events to pieces of a file, streamed.

Every exporter takes the session object, the stored events as lines of JSON, and options; it reads the events
once, in order, and keeps little of them in memory.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from durable_sessions.exporters.options import ExportOptions, Session

Exporter = Callable[[Session, Iterable[bytes], ExportOptions], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format to export to; the module of its name, with ``_`` for ``-``, has its exporter."""

    name: str
    suffix: str
    media_type: str

    @property
    def export(self) -> Exporter:
        """The exporter, which is loaded when it is needed: commands that export nothing start faster."""
        module = import_module(f"{__name__}.{self.name.replace('-', '_')}")
        return cast("Exporter", module.export)


FORMATS = {
    one.name: one
    for one in (
        Format("jsonl", ".jsonl", "application/x-ndjson"),
        Format("managed-agents", ".json", "application/json"),
        Format("atif", ".json", "application/json"),
        Format("markdown", ".md", "text/markdown; charset=utf-8"),
        Format("otlp", ".json", "application/json"),
        Format("prov", ".json", "application/json"),
        Format("inspect", ".json", "application/json"),
        Format("html", ".html", "text/html; charset=utf-8"),
    )
}

__all__ = ["FORMATS", "ExportOptions", "Exporter", "Format", "Session"]
