"""Translates queries and scopes into Tantivy's queries."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

import tantivy
from tantivy import Occur
from tantivy import Query as Sought

from durable_sessions.search import tokenizer
from durable_sessions.search.query import Clause, Filter, Query
from durable_sessions.search.scope import POSITION_MAX, Scope

EXPANSIONS_MAX = 128
"""How many words a prefix expands to, the most frequent first; with many prefixes each gets fewer."""
_ALL_EXPANSIONS_MAX = 1_024
PAIRS_MAX = 8
"""How many pairs of neighbouring words in a query are rewarded for being adjacent in the text."""
BM25_MAX = 2.2
"""The highest BM25 score of a word, in units of its rarity: 1 + k1."""
NAMES_MAX = 1_024
"""How many types or tools a prefix such as ``agent.*`` expands to, the most frequent first."""

SAID, BOOKKEEPING = "said", "bookkeeping"
"""One of these is among the roles of each document; no request can name them."""
BOOKKEEPING_SHARE = 1e-6
"""What scores of bookkeeping are multiplied by: less than the rarest words can make up for."""


class Matching:
    """Builds Tantivy queries for one snapshot: prefixes expand to the words that it contains."""

    def __init__(self, searcher: tantivy.Searcher, schema: tantivy.Schema) -> None:
        self._searcher = searcher
        self._schema = schema

    def of(self, query: Query, scope: Scope) -> Sought:
        """Return the query for a request and its scope; only words and phrases contribute to the score."""
        if not query.clauses and not query.filters:
            return Sought.empty_query()
        prefixes = sum(clause.is_prefix for clause in query.clauses)
        expansions = min(EXPANSIONS_MAX, _ALL_EXPANSIONS_MAX // max(prefixes, 1))
        ranking = [(clause.occur, self._clause(clause, expansions)) for clause in query.clauses]
        must = [(Occur.Must, each) for occur, each in ranking if occur == "must"]
        may = [(Occur.Should, each) for occur, each in ranking if occur == "may"]
        common = [clause.is_common for clause in query.clauses if clause.occur == "may"]
        excluded = [(Occur.MustNot, each) for occur, each in ranking if occur == "not"]
        # Beside required words the others only add to the score; without any, at least one must match. Words
        # such as "the" do not count for that, unless there are no others.
        if may and not must:
            if all(common):
                common = [False] * len(may)
            telling = [each for each, is_common in zip(may, common, strict=True) if not is_common]
            beside = [each for each, is_common in zip(may, common, strict=True) if is_common]
            one = telling[0][1] if len(telling) == 1 else Sought.boolean_query(telling)
            may = [(Occur.Must, one), *beside]
        may += [(Occur.Should, each) for each in self._together(query)]
        filters, excluded_filters = self._filters(query.filters)
        narrowing = [(Occur.Must, _unscored(each)) for each in (*self._scope(scope), *filters)]
        if not must and not may and not narrowing:
            narrowing = [(Occur.Must, _unscored(Sought.all_query()))]
        excluded += [(Occur.MustNot, each) for each in excluded_filters]
        return Sought.boolean_query([*must, *may, *narrowing, *excluded])

    def lift(self, query: Query, scope: Scope) -> float:
        """Return what to add to the scores of what was said and done, so that bookkeeping comes after it.

        Texts of bookkeeping are short, which BM25 rewards: a status of two words would precede the failure
        that is looked for. The lift is more than all words of the query can score together. It is zero if
        there is no bookkeeping, or if the request names types, which are then ranked alike.
        """
        if not query.words or _names_types(query, scope) or not self._searcher.doc_freq("role", BOOKKEEPING):
            return 0.0
        parts = sum(max(len(clause.parts), len(clause.wholes)) for clause in query.words)
        rarest = math.log(2 * self._searcher.num_docs + 2)
        # A power of two, and no larger than it must be: scores are single-precision numbers.
        return math.exp2(math.ceil(math.log2(BM25_MAX * rarest * (parts + PAIRS_MAX) + 1)))

    def lifted(self, sought: Sought, lift: float) -> Sought:
        """Match the same, with this added to the scores of what was said and done."""
        said = Sought.const_score_query(self._term("role", SAID), lift)
        return Sought.boolean_query([(Occur.Must, sought), (Occur.Should, said)]) if lift else sought

    def _clause(self, clause: Clause, expansions: int) -> Sought:
        """Match the parts in order, or the same with words left whole; the better score counts."""
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

    def _together(self, query: Query) -> Iterator[Sought]:
        """Reward events in which words that stand side by side in the query do so in the text as well.

        BM25 counts words wherever they are, so a short text with one of two words can beat a long one that
        has both. The reward does not depend on the length of the text: it is the most that a word of their
        mean rarity can score. So ``permission denied`` ranks texts with these two words first.
        """
        for one, other in islice(pairwise(query.words), PAIRS_MAX):
            rarity = math.sqrt(self._rarity(one) * self._rarity(other))
            if rarity:
                both = Clause("may", one.parts + other.parts, one.wholes + other.wholes)
                yield Sought.const_score_query(self._clause(both, 0), BM25_MAX * rarity)

    def _rarity(self, clause: Clause) -> float:
        """Return the inverse document frequency of a word as BM25 defines it; of several parts, the rarest.

        Zero for a word that does not occur, and for what is not a whole word: a prefix, or a character of a
        script without spaces.
        """
        if clause.is_prefix or any(map(tokenizer.is_single, clause.parts)):
            return 0.0
        documents = self._searcher.num_docs
        counts = [self._searcher.doc_freq("text", part) for part in clause.parts]
        if not all(counts):
            return 0.0
        return math.log(1 + (documents - min(counts) + 0.5) / (min(counts) + 0.5))

    def _filters(self, filters: Iterable[Filter]) -> tuple[list[Sought], list[Sought]]:
        """Return the queries that must match, one for each field, and those that must not."""
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
            # An event of time 0 is one of which nobody knows when it happened: it is in no range.
            yield _between(self._schema, "at_ms", max(scope.after_ms or 0, 1), scope.before_ms)

    def _part(self, stream: int, from_position: int, before: int) -> Sought:
        return all_of([self.stream(stream), *positions(self._schema, from_position, before)])

    def refs(self, terms: Sequence[str]) -> Sought:
        """Match the documents that have one of some terms of refs."""
        return _unscored(Sought.term_set_query(self._schema, "ref", list(terms)))

    def stream(self, stream: int) -> Sought:
        """Match the documents of one stream."""
        return _unscored(Sought.term_query(self._schema, "stream", stream, "basic"))

    def _term(self, field: str, value: str, option: str = "basic") -> Sought:
        return Sought.term_query(self._schema, field, value, option)

    def _beginning(self, field: str, prefix: str) -> Sought:
        found = self._searcher.terms_with_prefix(field, prefix, limit=NAMES_MAX)
        if not found:
            return Sought.empty_query()
        return Sought.term_set_query(self._schema, field, [term for term, _ in found])


def _names_types(query: Query, scope: Scope) -> bool:
    return bool(scope.types) or any(each.field == "type" and not each.is_negated for each in query.filters)


def _unscored(sought: Sought) -> Sought:
    return Sought.const_score_query(sought, 0.0)


def all_of(each: list[Sought]) -> Sought:
    """Match what every one matches."""
    return each[0] if len(each) == 1 else Sought.boolean_query([(Occur.Must, one) for one in each])


def _any_of(each: list[Sought]) -> Sought:
    if not each:
        return Sought.empty_query()
    return each[0] if len(each) == 1 else Sought.boolean_query([(Occur.Should, one) for one in each])


def positions(schema: tantivy.Schema, begin: int, end: int) -> list[Sought]:
    """Match positions from ``begin`` before ``end``; nothing if that is no restriction."""
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
