"""The index of one workspace: every event a document, ranked by BM25 over its text.

It is a Tantivy index in a directory of its own, and can be made again from the log at any time. Documents are
kept in the order of their streams, so that a search in one session touches little else. A stream and a
position make one document; adding the same twice is not noticed.
"""

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import tantivy
from tantivy import Occur
from tantivy import Query as Sought

from durable_sessions.search import words
from durable_sessions.search.query import Clause, Filter, Query
from durable_sessions.search.text import Searchable

FORMAT = 1
"""Goes up when the schema or the analysis of words changes; an index of another format is made again."""

HEAP_BYTES_MIN = 15_000_000
"""The least memory that Tantivy takes for writing."""
POSITION_MAX = 2**40
"""A part of a chain that reaches so far has no end."""
DEPTH_MAX = 10_000
"""How far down the ranking hits can be asked for. What is deeper counts, but is not listed."""
TIES_MAX = 4_096
"""Hits of the same rank that are put in order; among more of them the order is Tantivy's own."""
EXPANSIONS_MAX = 128
"""Words that a prefix stands for, the most frequent ones; of many prefixes each stands for fewer."""
_ALL_EXPANSIONS_MAX = 1_024
NAMES_MAX = 1_024
"""Types or tools that a prefix such as ``agent.*`` stands for, the most frequent ones."""
_STREAMS_PER_PAGE = 50_000

Order = Literal["score", "asc", "desc"]


class IndexDamagedError(Exception):
    """The index cannot be used; delete it and make it again from the log."""


class IndexBusyError(Exception):
    """Another process, or another object of this one, is writing to the index."""


class Document(NamedTuple):
    """One event, to be found."""

    stream: int
    position: int
    at_ms: int
    searchable: Searchable


class Scope(msgspec.Struct, frozen=True, array_like=True):
    """Where to search; what is not said is not narrowed down."""

    chain: tuple[tuple[int, int, int], ...] | None = None
    """Parts (stream, from position, before position): a session and what it inherits. An end of
    :data:`POSITION_MAX` or more is none, which is faster than a real one."""
    streams: tuple[int, ...] | None = None
    """Only these streams."""
    types: tuple[str, ...] = ()
    """Any of these types, exact or as ``agent.*``."""
    roles: tuple[str, ...] = ()
    """Any of these roles; ``error`` stands for all events that are errors."""
    errors_only: bool = False
    after_ms: int | None = None
    """Not before this time."""
    before_ms: int | None = None
    """Before this time, which is not included."""


class Hit(NamedTuple):
    """An event that was found."""

    score: float
    stream: int
    position: int


class Found(NamedTuple):
    """A page of hits, and how many there are in all."""

    hits: list[Hit]
    total: int


class Groups(NamedTuple):
    """A page of sessions with their best hits, the best first, and how many there are in all."""

    sessions: list[tuple[int, list[Hit]]]
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
                mark.write_text(f"{FORMAT}\n")
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

    def add(self, document: Document) -> None:
        """Add a document. It is found after the next commit."""
        made = tantivy.Document()
        made.add_unsigned("stream", document.stream)
        made.add_unsigned("position", document.position)
        made.add_unsigned("at_ms", document.at_ms)
        said = document.searchable
        text = words.indexed(said.text)
        if text:
            made.add_text("text", text)
        made.add_text("type", said.type)
        if said.name is not None:
            made.add_text("name", said.name)
        if said.role is not None:
            made.add_text("role", said.role)
        if said.is_error:
            made.add_text("role", "error")
        with _damage():
            self._writer.add_document(made)

    def remove(self, stream: int, from_position: int = 0) -> None:
        """Remove what was added of a stream until now, from a position on. The next commit shows it."""
        with _damage():
            of_stream = Sought.term_query(self._schema, "stream", stream, "basic")
            behind = _positions(self._schema, from_position, POSITION_MAX)
            self._writer.delete_documents_by_query(_all_of([of_stream, *behind]))

    def commit(self) -> None:
        """Make what was added and removed durable, and show it to every view from now on."""
        with _damage():
            self._writer.commit()
            self._index.reload()

    def tails(self) -> dict[int, int]:
        """Return for each stream the position behind its last document, as of the last commit."""
        with _damage():
            searcher = self._index.searcher()
            last = {"last": {"max": {"field": "position"}}}
            return {
                bucket["key"]["stream"]: int(bucket["last"]["value"]) + 1
                for bucket in _by_stream(searcher, Sought.all_query(), last)
            }

    def view(self) -> "View":
        """Return the documents as of the last commit; they stay as they are."""
        with _damage():
            return View(self._index.searcher(), self._schema)

    def close(self) -> None:
        """Let merges end and let go of the directory; what was not committed is dropped."""
        with _damage():
            self._writer.rollback()
            self._writer.wait_merging_threads()


class View:
    """The documents of one workspace at a point in time. Any thread may use it, several at a time."""

    def __init__(self, searcher: tantivy.Searcher, schema: tantivy.Schema) -> None:
        self._searcher = searcher
        self._schema = schema
        self.documents = searcher.num_docs

    def search(
        self, query: Query, scope: Scope, limit: int, offset: int = 0, order: Order = "score"
    ) -> Found:
        """Return a page of what matches.

        In the order of score, or of position in a chain, or of time elsewhere. Equals are in the order of
        stream and position. Without a word to rank by, the newest come first. Only the order of score has
        scores. The total is exact; hits end at :data:`DEPTH_MAX`. A query of nothing finds nothing.
        """
        sought = self._sought(query, scope)
        if order == "score" and not query.words:
            order = "desc"
        by = None if order == "score" else "at_ms" if scope.chain is None else "position"
        with _damage():
            ranked, total = self._ranked(sought, min(offset + limit, DEPTH_MAX), by, order == "asc")
        return Found(ranked[offset : offset + limit], total)

    def groups(
        self, query: Query, scope: Scope, sessions: int, offset: int = 0, hits_per_session: int = 3
    ) -> Groups:
        """Return a page of streams with what matches in each, ordered by the best of it.

        Both totals are exact. Streams are listed whose best hit is among the first :data:`DEPTH_MAX`.
        """
        sought = self._sought(query, scope)
        by = None if query.words else "at_ms"
        with _damage():
            needed = offset + sessions
            depth = min(4 * needed + 60, DEPTH_MAX)
            ranked, total = self._ranked(sought, depth, by, False)
            while depth < min(total, DEPTH_MAX) and len({hit.stream for hit in ranked}) < needed:
                depth = min(4 * depth, DEPTH_MAX)
                ranked, total = self._ranked(sought, depth, by, False)
            streams = list(dict.fromkeys(hit.stream for hit in ranked))[offset:needed]
            page = []
            for stream in streams:
                hits = [hit for hit in ranked if hit.stream == stream]
                if len(hits) < hits_per_session and total > len(ranked):
                    within = _all_of([sought, self._stream(stream)])
                    hits, _ = self._ranked(within, hits_per_session, by, False)
                page.append((stream, hits[:hits_per_session]))
            return Groups(page, total, sum(1 for _ in _by_stream(self._searcher, sought)))

    def _ranked(self, sought: Sought, needed: int, by: str | None, ascending: bool) -> tuple[list[Hit], int]:
        """Return the first hits in their order, some more if they tie, and the number of all."""
        order = tantivy.Order.Asc if ascending else tantivy.Order.Desc
        asked = needed + 1
        while True:
            result = self._searcher.search(sought, max(asked, 1), True, by, 0, order)
            found = result.hits
            total: int = result.count  # type: ignore[attr-defined]  # missing in its stubs
            ties = len(found) == asked and needed > 0 and found[-1][0] == found[needed - 1][0]
            if not ties or asked >= needed + TIES_MAX:
                break
            asked = min(4 * asked + 60, needed + TIES_MAX)
        addresses = [address for _, address in found]
        streams: list[Any] = self._searcher.fast_field_values("stream", addresses)
        positions: list[Any] = self._searcher.fast_field_values("position", addresses)
        ranked = sorted(
            zip((rank for rank, _ in found), streams, positions, strict=True),
            key=lambda hit: (hit[0] if ascending else -hit[0], hit[1], hit[2]),
        )
        return [Hit(rank if by is None else 0.0, stream, at) for rank, stream, at in ranked], total

    def _sought(self, query: Query, scope: Scope) -> Sought:
        with _damage():
            prefixes = sum(clause.is_prefix for clause in query.clauses)
            expansions = min(EXPANSIONS_MAX, _ALL_EXPANSIONS_MAX // max(prefixes, 1))
            ranking = [(clause.occur, self._clause(clause, expansions)) for clause in query.clauses]
            must = [(Occur.Must, each) for occur, each in ranking if occur == "must"]
            may = [(Occur.Should, each) for occur, each in ranking if occur == "may"]
            excluded = [(Occur.MustNot, each) for occur, each in ranking if occur == "not"]
            if may and not must:
                may = [(Occur.Must, may[0][1] if len(may) == 1 else Sought.boolean_query(may))]
            filters, excluded_filters = self._filters(query.filters)
            narrowing = [(Occur.Must, _unscored(each)) for each in (*self._scope(scope), *filters)]
            if not query.clauses and not query.filters:
                return Sought.empty_query()
            if not must and not may and not narrowing:
                narrowing = [(Occur.Must, _unscored(Sought.all_query()))]
            excluded += [(Occur.MustNot, each) for each in excluded_filters]
            return Sought.boolean_query([*must, *may, *narrowing, *excluded])

    def _clause(self, clause: Clause, expansions: int) -> Sought:
        """Match the parts in their order, or the same with words left whole; the better of both counts."""
        sequences = dict.fromkeys(sequence for sequence in (clause.wholes, clause.parts) if sequence)
        matches = [self._sequence(sequence, clause.is_prefix, expansions) for sequence in sequences]
        return matches[0] if len(matches) == 1 else Sought.disjunction_max_query(matches)

    def _sequence(self, sequence: tuple[str, ...], is_prefix: bool, expansions: int) -> Sought:
        if len(sequence) > 1:
            make = Sought.phrase_prefix_query if is_prefix else Sought.phrase_query
            return make(self._schema, "text", list(sequence))
        if not is_prefix:
            return self._term("text", sequence[0], "freq")
        expanded = self._searcher.terms_with_prefix("text", sequence[0], limit=expansions)
        if not expanded:
            return Sought.empty_query()
        return Sought.disjunction_max_query([self._term("text", term, "freq") for term, _ in expanded])

    def _filters(self, filters: Iterable[Filter]) -> tuple[list[Sought], list[Sought]]:
        """Return what must hold, one for each field, and what must not."""
        wanted: dict[str, list[Sought]] = {}
        unwanted = []
        for each in filters:
            if each.field == "error":
                match = self._term("role", "error")
            elif each.is_prefix:
                match = self._beginning(each.field, each.value)
            else:
                match = self._term(each.field, each.value)
            if each.is_negated:
                unwanted.append(match)
            else:
                wanted.setdefault(each.field, []).append(match)
        return [_any_of(matches) for matches in wanted.values()], unwanted

    def _scope(self, scope: Scope) -> Iterator[Sought]:
        if scope.chain is not None:
            yield _any_of([self._part(*part) for part in scope.chain])
        if scope.streams is not None:
            streams = sorted(set(scope.streams))
            yield Sought.term_set_query(self._schema, "stream", streams) if streams else Sought.empty_query()
        if scope.types:
            yield _any_of(
                [
                    self._beginning("type", each[:-1]) if each.endswith("*") else self._term("type", each)
                    for each in scope.types
                ]
            )
        if scope.roles:
            yield _any_of([self._term("role", role) for role in scope.roles])
        if scope.errors_only:
            yield self._term("role", "error")
        if scope.after_ms is not None or scope.before_ms is not None:
            yield _between(self._schema, "at_ms", scope.after_ms, scope.before_ms)

    def _part(self, stream: int, from_position: int, before: int) -> Sought:
        return _all_of([self._stream(stream), *_positions(self._schema, from_position, before)])

    def _stream(self, stream: int) -> Sought:
        return _unscored(Sought.term_query(self._schema, "stream", stream, "basic"))

    def _term(self, field: str, value: str, option: str = "basic") -> Sought:
        return Sought.term_query(self._schema, field, value, option)

    def _beginning(self, field: str, prefix: str) -> Sought:
        found = self._searcher.terms_with_prefix(field, prefix, limit=NAMES_MAX)
        if not found:
            return Sought.empty_query()
        return Sought.term_set_query(self._schema, field, [term for term, _ in found])


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="parts", index_option="position")
    for name in ("type", "name", "role"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field("stream", indexed=True, fast=True)
    builder.add_unsigned_field("position", fast=True)
    builder.add_unsigned_field("at_ms", fast=True)
    return builder.build()


def _analyzer() -> tantivy.TextAnalyzer:
    """Split at spaces. What stands apart leaves a gap that no phrase reaches over, and is no word itself."""
    between = tantivy.Filter.custom_stopword([words.APART])
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(between).build()


def _unscored(sought: Sought) -> Sought:
    return Sought.const_score_query(sought, 0.0)


def _all_of(each: list[Sought]) -> Sought:
    return each[0] if len(each) == 1 else Sought.boolean_query([(Occur.Must, one) for one in each])


def _any_of(each: list[Sought]) -> Sought:
    if not each:
        return Sought.empty_query()
    return each[0] if len(each) == 1 else Sought.boolean_query([(Occur.Should, one) for one in each])


def _positions(schema: tantivy.Schema, begin: int, end: int) -> list[Sought]:
    if begin <= 0 and end >= POSITION_MAX:
        return []
    return [_unscored(_between(schema, "position", begin, None if end >= POSITION_MAX else end))]


def _between(schema: tantivy.Schema, field: str, begin: int | None, end: int | None) -> Sought:
    """Match numbers from one on and below another."""
    if end is not None and end <= max(begin or 0, 0):
        return Sought.empty_query()
    begin = None if begin is None else max(begin, 0)
    return Sought.range_query(
        schema, field, tantivy.FieldType.Unsigned, begin, end, include_upper=end is None
    )


def _by_stream(
    searcher: tantivy.Searcher, sought: Sought, more: dict[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """Return one bucket for each stream that has a match, in the order of streams."""
    composite: dict[str, Any] = {
        "size": _STREAMS_PER_PAGE,
        "sources": [{"stream": {"terms": {"field": "stream"}}}],
    }
    aggregation = {"streams": {"composite": composite, **({"aggs": more} if more else {})}}
    while True:
        page = searcher.aggregate(sought, aggregation)["streams"]
        yield from page["buckets"]
        if len(page["buckets"]) < _STREAMS_PER_PAGE:
            return
        composite["after"] = page["after_key"]


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """Tell what Tantivy complains of, or panics at, as damage."""
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
