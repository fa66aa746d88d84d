"""The base of parsers for JSON lines: counts records, keeps damaged ones, and notes repairs."""

from abc import ABC, abstractmethod
from typing import Any

from durable_sessions.importers.events import Event, EventMaker, SessionMetadata
from durable_sessions.importers.lines import SourceRecord
from durable_sessions.importers.tally import Tally


class RecordParser(ABC):
    """Maps the records of one file to events, one after another; subclasses know the format."""

    def __init__(self, make: EventMaker, about: SessionMetadata, tally: Tally) -> None:
        self._make = make
        self.about = about
        self.tally = tally

    def feed(self, record: SourceRecord) -> list[Event]:
        """Return the events of the next record."""
        self.tally.records += 1
        if not isinstance(record.value, dict):
            return self._take_damaged(record)
        events = self._take(record, record.value)
        if record.repaired is not None and events:
            events[0]["source_text"] = record.repaired
            self.tally.notes["lone surrogates replaced, the source text is kept"] += 1
        return events

    @abstractmethod
    def _take(self, record: SourceRecord, value: dict[str, Any]) -> list[Event]:
        """Return the events of a record that is an object."""

    @abstractmethod
    def _take_damaged(self, record: SourceRecord) -> list[Event]:
        """Return the events of a record that is not an object, or is damaged."""

    def _damaged(self, record: SourceRecord, place: str, thread: str | None) -> Event:
        """Return the remains of a damaged record as an event."""
        reason = record.damage or "not an object"
        self.tally.kept[reason] += 1
        detail = record.remains() if record.damage else {"source_record": record.value}
        return self._make.make(
            "import.record", place, line=record.line, thread=thread, damage=reason, **detail
        )
