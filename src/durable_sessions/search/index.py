"""The index of one workspace: every event a document, ranked by BM25 over its text.

It is a Tantivy index in a directory of its own, and can be rebuilt from the log at any time. Documents are
sorted by stream, so that a search in one session touches little else. Stream and position identify a
document; that one is not added twice is up to the caller.
"""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tantivy
from tantivy import Query as Sought

from durable_sessions.search import call_names, tokenizer
from durable_sessions.search.matching import BOOKKEEPING, BOOKKEEPING_SHARE, SAID, Matching, all_of, positions
from durable_sessions.search.query import Query
from durable_sessions.search.scope import POSITION_MAX, Scope
from durable_sessions.search.text import Searchable

FORMAT = 9
"""Increased when schema, times, text or tokenizer change; an index of another format is rebuilt."""

HEAP_BYTES_MIN = 15_000_000
"""The smallest write buffer that Tantivy accepts."""
DEPTH_MAX = 10_000
"""How many hits of a ranking can be listed; those beyond it are only counted."""
TIES_MAX = 4_096
"""How many hits of equal rank are sorted by stream and position; among more, the order is Tantivy's."""
_STREAMS_PER_PAGE = 50_000
_SCORE_DIGITS = 5
"""How many digits of scores are compared: the last ones depend on the layout of segments."""

Order = Literal["score", "asc", "desc"]


class IndexDamagedError(Exception):
    """The index cannot be used; delete it and rebuild it from the log."""


class IndexBusyError(Exception):
    """Another process, or another object of this one, is writing to the index."""


class Document(NamedTuple):
    """One event to index."""

    stream: int
    position: int
    at_ms: int
    """When it was appended; an imported event is indexed with its original time instead, 0 if it has none."""
    searchable: Searchable
    erasures: int = 0
    """How many events of the stream had been erased when it was read."""
    refs: tuple[str, ...] = ()
    """What it leads to, as :mod:`ref_terms` names it."""


class IndexHit(NamedTuple):
    """An event that matched."""

    score: float
    stream: int
    position: int


class HitPage(NamedTuple):
    """A page of hits, and how many there are in all."""

    hits: list[IndexHit]
    total: int


class Groups(NamedTuple):
    """A page of sessions with their best hits, the best first, and how many there are in all."""

    sessions: list[tuple[int, list[IndexHit]]]
    total_hits: int
    total_sessions: int


class Index:
    """The documents of one workspace, on disk. One thread uses it at a time; views may be used by others."""

    def __init__(self, index: tantivy.Index, heap_bytes: int) -> None:
        self._index = index
        self._schema = index.schema
        self._writer = index.writer(max(heap_bytes, HEAP_BYTES_MIN), 1)

    @classmethod
    def open(cls, path: Path, heap_bytes: int) -> "Index":
        """Open the index in a directory, or make a new one there.

        Raises :class:`IndexDamagedError` if there is something else, or something of another format.
        """
        mark = path / "FORMAT"
        with _damage():
            if not path.exists() or not any(path.iterdir()):
                path.mkdir(parents=True, exist_ok=True)
                index = tantivy.Index(_schema(), str(path), reuse=False, sort_by_field="stream")
                mark.write_text(f"{FORMAT}\n")  # last: without it a half-made index counts as damaged
            elif not mark.exists() or mark.read_text() != f"{FORMAT}\n":
                raise IndexDamagedError(f"{path} is not of format {FORMAT}")
            else:
                index = tantivy.Index.open(str(path))
            index.register_tokenizer("parts", _analyzer())
            index.config_reader("Manual")
            opened = cls(index, heap_bytes)
            index.reload()
        return opened

    @staticmethod
    def delete(path: Path) -> None:
        """Remove an index that is not open, if it is there."""
        shutil.rmtree(path, ignore_errors=True)

    def add(self, *documents: Document) -> None:
        """Add documents; searches find them after the next commit."""
        made = [_made(document) for document in documents]
        with _damage():
            for one in made:
                self._writer.add_document(one)

    def call_name(self, key: str) -> str | None:
        """Return the name of the tool of a call that was committed."""
        start = call_names.beginning(key)
        with _damage():
            found = self._index.searcher().terms_with_prefix("call", start, limit=1)
        return next((term.removeprefix(start) for term, _ in found), None)

    def remove(self, stream: int, from_position: int = 0) -> None:
        """Remove the documents of a stream from a position on; visible after the next commit."""
        with _damage():
            of_stream = Sought.term_query(self._schema, "stream", stream, "basic")
            behind = positions(self._schema, from_position, POSITION_MAX)
            self._writer.delete_documents_by_query(all_of([of_stream, *behind]))

    def erase(self, document: Document) -> None:
        """Put a document in place of the one at its position; visible after the next commit.

        The files keep what they had until the index is written anew.
        """
        with _damage():
            of_stream = Sought.term_query(self._schema, "stream", document.stream, "basic")
            there = positions(self._schema, document.position, document.position + 1)
            self._writer.delete_documents_by_query(all_of([of_stream, *there]))
        self.add(document)

    def erasures(self) -> dict[int, int]:
        """Return for each stream how many erasures its documents know; only those that know of any."""
        with _damage():
            searcher = self._index.searcher()
            known = {"known": {"max": {"field": "erasures"}}}
            erased = Sought.range_query(self._schema, "erasures", tantivy.FieldType.Unsigned, 1, POSITION_MAX)
            found = _by_stream(searcher, erased, known)
            return {stream: int(bucket["known"]["value"]) for stream, bucket in found.items()}

    def commit(self) -> None:
        """Make what was added and removed durable, and visible to every view made from now on."""
        with _damage():
            self._writer.commit()
            self._index.reload()

    def tails(self) -> dict[int, int]:
        """Return for each stream the position after its last document, as of the last commit."""
        with _damage():
            searcher = self._index.searcher()
            last = {"last": {"max": {"field": "position"}}}
            found = _by_stream(searcher, Sought.all_query(), last)
            return {stream: int(bucket["last"]["value"]) + 1 for stream, bucket in found.items()}

    def view(self) -> "View":
        """Return a snapshot of the documents as of the last commit."""
        with _damage():
            return View(self._index.searcher(), self._schema)

    def close(self) -> None:
        """Wait for merges and release the directory; what was not committed is dropped."""
        with _damage():
            self._writer.wait_merging_threads()


class View:
    """A snapshot of the documents of one workspace; threads may use it concurrently."""

    def __init__(self, searcher: tantivy.Searcher, schema: tantivy.Schema) -> None:
        self._searcher = searcher
        self._matching = Matching(searcher, schema)
        self.documents = searcher.num_docs

    def search(
        self, query: Query, scope: Scope, limit: int, offset: int = 0, order: Order = "score"
    ) -> HitPage:
        """Return a page of the hits.

        ``asc`` and ``desc`` sort by position in a chain, elsewhere by time; only the order ``score`` has
        scores. Equals are sorted by stream and position. Without words to rank by, the newest come first.
        The total is exact; hits end at :data:`DEPTH_MAX`. An empty query finds nothing.
        """
        if order == "score" and not query.words:
            order = "desc"
        by = None if order == "score" else "at_ms" if scope.chain is None else "position"
        with _damage():
            lift = 0.0 if by else self._matching.lift(query, scope)
            sought = self._matching.lifted(self._matching.of(query, scope), lift)
            ranked, total = self._ranked(sought, min(offset + limit, DEPTH_MAX), by, order == "asc", lift)
        return HitPage(ranked[offset : offset + limit], total)

    def referring(self, terms: Sequence[str], limit: int) -> HitPage:
        """Return the events that have one of some terms of refs, the oldest first."""
        with _damage():
            ranked, total = self._ranked(self._matching.refs(terms), min(limit, DEPTH_MAX), "at_ms", True)
        return HitPage(ranked, total)

    def groups(
        self, query: Query, scope: Scope, sessions: int, offset: int = 0, hits_per_session: int = 3
    ) -> Groups:
        """Return a page of streams with their hits, sorted by the best hit of each.

        Both totals are exact. A stream is listed only if its best hit is among the first
        :data:`DEPTH_MAX`.
        """
        by = None if query.words else "at_ms"
        with _damage():
            lift = 0.0 if by else self._matching.lift(query, scope)
            sought = self._matching.lifted(self._matching.of(query, scope), lift)
            needed = offset + sessions
            # How many hits it takes to find so many streams is not known: rank more until there are enough.
            depth = min(4 * needed + 60, DEPTH_MAX)
            ranked, total = self._ranked(sought, depth, by, False, lift)
            while depth < min(total, DEPTH_MAX) and len({hit.stream for hit in ranked}) < needed:
                depth = min(4 * depth, DEPTH_MAX)
                ranked, total = self._ranked(sought, depth, by, False, lift)
            streams = list(dict.fromkeys(hit.stream for hit in ranked))[offset:needed]
            page = []
            for stream in streams:
                hits = [hit for hit in ranked if hit.stream == stream]
                if len(hits) < hits_per_session and total > len(ranked):
                    within = all_of([sought, self._matching.stream(stream)])
                    hits, _ = self._ranked(within, hits_per_session, by, False, lift)
                page.append((stream, hits[:hits_per_session]))
            return Groups(page, total, len(_by_stream(self._searcher, sought)))

    def _ranked(
        self, sought: Sought, needed: int, by: str | None, ascending: bool, lift: float = 0.0
    ) -> tuple[list[IndexHit], int]:
        """Return the first hits in their order, their scores without the lift, and the number of all."""
        order = tantivy.Order.Asc if ascending else tantivy.Order.Desc
        # One more than needed shows whether a tie crosses the end of the page; if so, all of it is needed to
        # sort it, or the same hit could be on two pages.
        asked = needed + 1
        while True:
            result = self._searcher.search(sought, max(asked, 1), True, by, 0, order)
            found = result.hits
            total: int = result.count  # type: ignore[attr-defined]  # missing in its stubs
            ties = len(found) == asked and needed > 0 and _same(found[-1][0], found[needed - 1][0])
            if not ties or asked >= needed + TIES_MAX:
                break
            asked = min(4 * asked + 60, needed + TIES_MAX)
        addresses = [address for _, address in found]
        streams: list[Any] = self._searcher.fast_field_values("stream", addresses)
        positions: list[Any] = self._searcher.fast_field_values("position", addresses)
        ranks = (_shown_score(rank, lift) if lift else rank for rank, _ in found)
        places = zip(ranks, streams, positions, strict=True)
        if by is None:
            ranked = sorted(places, key=lambda hit: (-_compared(hit[0]), hit[1], hit[2]))
            return [IndexHit(*hit) for hit in ranked[:needed]], total
        ranked = sorted(places, reverse=not ascending)
        return [IndexHit(0.0, stream, position) for _, stream, position in ranked[:needed]], total


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="parts", index_option="position")
    for name in ("type", "name", "role", "call", "ref"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("stream", indexed=True, fast=True)
    builder.add_unsigned_field("position", fast=True)
    builder.add_unsigned_field("at_ms", fast=True)
    builder.add_unsigned_field("erasures", indexed=True, fast=True)
    return builder.build()


def _made(document: Document) -> tantivy.Document:
    """Return a document as Tantivy takes it."""
    made = tantivy.Document()
    made.add_unsigned("stream", document.stream)
    made.add_unsigned("position", document.position)
    if document.erasures:
        made.add_unsigned("erasures", document.erasures)
    event = document.searchable
    made.add_unsigned("at_ms", document.at_ms if event.happened_ms is None else event.happened_ms)
    text = tokenizer.indexed(event.text)
    if text:
        made.add_text("text", text)
    made.add_text("type", event.type)
    if event.name is not None:
        made.add_text("name", event.name)
        if event.is_call and event.call is not None:
            key = call_names.key_of(document.stream, event.call)
            made.add_text("call", call_names.term(key, event.name))
    if event.role is not None:
        made.add_text("role", event.role)
    if event.is_error:
        made.add_text("role", "error")
    made.add_text("role", BOOKKEEPING if event.is_bookkeeping else SAID)
    for term in document.refs:
        made.add_text("ref", term)
    return made


def _analyzer() -> tantivy.TextAnalyzer:
    """Return an analyzer that splits at spaces; the separator is dropped, but no phrase matches across it."""
    between = tantivy.Filter.custom_stopword([tokenizer.APART])
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(between).build()


def _same(one: float, other: float) -> bool:
    return _compared(one) == _compared(other)


def _shown_score(score: float, lift: float) -> float:
    """Return the score that a hit is told with: that of bookkeeping is less than every other."""
    return score - lift if score >= lift else score * BOOKKEEPING_SHARE


def _compared(score: float) -> float:
    return float(f"{score:.{_SCORE_DIGITS}g}")


def _by_stream(
    searcher: tantivy.Searcher, sought: Sought, more: dict[str, Any] | None = None
) -> dict[int, dict[str, Any]]:
    """Return one bucket for each stream that has a match.

    All at once if they are not too many for Tantivy, which is faster; else page by page.
    """
    aggregations = {"aggs": more} if more else {}
    terms = {"field": "stream", "size": _STREAMS_PER_PAGE}
    found = searcher.aggregate(sought, {"streams": {"terms": terms, **aggregations}})["streams"]
    if not found["sum_other_doc_count"]:
        return {bucket["key"]: bucket for bucket in found["buckets"]}
    buckets: dict[int, dict[str, Any]] = {}
    composite: dict[str, Any] = {
        "size": _STREAMS_PER_PAGE,
        "sources": [{"stream": {"terms": {"field": "stream"}}}],
    }
    while True:
        page = searcher.aggregate(sought, {"streams": {"composite": composite, **aggregations}})["streams"]
        buckets |= {bucket["key"]["stream"]: bucket for bucket in page["buckets"]}
        if len(page["buckets"]) < _STREAMS_PER_PAGE:
            return buckets
        composite["after"] = page["after_key"]


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """Turn errors and panics of Tantivy into IndexDamagedError, and a held lock into IndexBusyError."""
    try:
        yield
    except UnicodeEncodeError:
        raise
    except (ValueError, OSError) as error:
        if "LockBusy" in str(error):
            raise IndexBusyError(str(error)) from error
        raise IndexDamagedError(str(error)) from error
    except BaseException as error:
        if type(error).__module__ == "pyo3_runtime":
            raise IndexDamagedError(str(error)) from error
        raise
