"""What a partition should do, as simply as it can be said: lists, copies and no concurrency.

A fork copies what it inherits. Nothing here is shared with the implementation.
"""

import json
from copy import deepcopy
from dataclasses import dataclass, field

Answer = tuple[object, ...]


@dataclass
class ModelStream:
    """One stream: its records as a list, of messages or of single bytes."""

    content_type: str
    records: list[bytes]
    closed: bool = False
    closed_by: tuple[str, int, int] | None = None
    seq: str | None = None
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    source: str | None = None
    anchor: int = 0
    at_tail: bool = False
    forks: int = 0
    soft_deleted: bool = False


class Model:
    """All streams; every method returns the answer as a tuple that begins with a word."""

    def __init__(self) -> None:
        self.streams: dict[str, ModelStream] = {}
        self.held: set[str] = set()

    def copy(self) -> "Model":
        return deepcopy(self)

    def create(
        self,
        path: str,
        content_type: str | None,
        body: bytes,
        closed: bool,
        source: str | None,
        anchor: int | None,
    ) -> Answer:
        there = self.streams.get(path)
        if there is not None:
            if there.soft_deleted:
                return ("path_blocked",)
            asked = content_type or (there.content_type if source else "application/octet-stream")
            same = (
                there.source == source
                and asked == there.content_type
                and closed == there.closed
                and (source is None or self._same_fork(there, source, anchor))
            )
            return ("confirmed", len(there.records), there.closed) if same else ("stream_exists",)
        inherited: list[bytes] = []
        if source is not None:
            origin = self.streams.get(source)
            if origin is None:
                return ("stream_not_found",)
            if origin.soft_deleted:
                return ("path_blocked",)
            if content_type is not None and content_type != origin.content_type:
                return ("content_type_mismatch",)
            if anchor is not None and anchor > len(origin.records):
                return ("invalid_fork",)
            content_type = origin.content_type
            inherited = origin.records[: len(origin.records) if anchor is None else anchor]
        content_type = content_type or "application/octet-stream"
        try:
            added = _records(content_type, body) if body else []
        except ValueError:
            return ("invalid_json",)
        if source is not None:
            self.streams[source].forks += 1
        stream = ModelStream(content_type, inherited + added, closed, source=source)
        stream.anchor, stream.at_tail = len(inherited), anchor is None
        self.streams[path] = stream
        return ("created", len(stream.records), closed)

    def _same_fork(self, there: ModelStream, source: str, anchor: int | None) -> bool:
        if anchor is not None:
            return anchor == there.anchor
        return there.at_tail or there.anchor == len(self.streams[source].records)

    def append(
        self,
        path: str,
        content_type: str,
        body: bytes,
        producer: tuple[str, int, int] | None,
        seq: str | None,
        close: bool,
        if_tail: int | None,
    ) -> Answer:
        stream = self.streams.get(path)
        if stream is None:
            return ("stream_not_found",)
        if stream.soft_deleted:
            return ("stream_gone",)
        if not body and not close:
            return ("empty_body",)
        tail = len(stream.records)
        if stream.closed:
            if producer is not None and producer == stream.closed_by:
                return ("duplicate", tail, True)
            return ("duplicate", tail, True) if not body and producer is None else ("stream_closed",)
        if body and content_type != stream.content_type:
            return ("content_type_mismatch",)
        if producer is not None:
            verdict = self._producer(stream, *producer)
            if verdict is not None:
                return (verdict, tail, False) if verdict == "duplicate" else (verdict,)
        if if_tail is not None and if_tail != tail:
            return ("precondition_failed",)
        if seq is not None and stream.seq is not None and seq <= stream.seq:
            return ("sequence_conflict",)
        try:
            added = _records(stream.content_type, body) if body else []
        except ValueError:
            return ("invalid_json",)
        if body and not added:
            return ("empty_body",)
        stream.records += added
        stream.seq = seq if seq is not None else stream.seq
        if producer is not None:
            stream.producers[producer[0]] = producer[1:]
        if close:
            stream.closed, stream.closed_by = True, producer
        return ("appended", len(stream.records), close)

    @staticmethod
    def _producer(stream: ModelStream, name: str, epoch: int, seq: int) -> str | None:
        if name not in stream.producers:
            return None if seq == 0 else "producer_gap"
        known_epoch, last = stream.producers[name]
        if epoch < known_epoch:
            return "stale_epoch"
        if epoch > known_epoch:
            return None if seq == 0 else "new_epoch_sequence"
        if seq <= last:
            return "duplicate"
        return None if seq == last + 1 else "producer_gap"

    def delete(self, path: str) -> Answer:
        stream = self.streams.get(path)
        if stream is None:
            return ("stream_not_found",)
        if stream.soft_deleted:
            return ("stream_gone",)
        if path in self.held:
            return ("legal_hold",)
        if stream.forks:
            stream.soft_deleted = True
            return ("deleted",)
        self._drop(path)
        return ("deleted",)

    def _drop(self, path: str) -> None:
        source = self.streams.pop(path).source
        if source is None:
            return
        origin = self.streams[source]
        origin.forks -= 1
        if origin.soft_deleted and not origin.forks:
            self._drop(source)

    def read(self, path: str) -> Answer:
        stream = self.streams.get(path)
        if stream is None:
            return ("stream_not_found",)
        if stream.soft_deleted:
            return ("stream_gone",)
        return ("read", b"".join(stream.records), len(stream.records), stream.closed)


def _records(content_type: str, body: bytes) -> list[bytes]:
    if content_type != "application/json":
        return [bytes([byte]) for byte in body]
    value = json.loads(body)
    values = value if isinstance(value, list) else [value]
    return [json.dumps(item, separators=(",", ":")).encode() + b"," for item in values]
