"""The index of one workspace: what is found, in which order, and what survives."""

import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import bm25s  # type: ignore[import-untyped]
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.rendering import lenses
from durable_sessions.search import index as index_module
from durable_sessions.search import matching, tokenizer
from durable_sessions.search.index import (
    HEAP_BYTES_MIN,
    Document,
    Index,
    IndexBusyError,
    IndexDamagedError,
    IndexHit,
    Order,
    View,
)
from durable_sessions.search.matching import PAIRS_MAX
from durable_sessions.search.query import CLAUSES_MAX, parse
from durable_sessions.search.scope import POSITION_MAX, Scope
from durable_sessions.search.text import Searchable
from tests.support.searching import apart

ALL = Scope()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    opened = Index.open(tmp_path / "index", HEAP_BYTES_MIN)
    yield opened
    opened.close()


def added(index: Index, *texts: str, stream: int = 1) -> View:
    for position, text in enumerate(texts):
        index.add(
            Document(stream, position, 1_000 + position, Searchable(text, "agent.message", None, "agent"))
        )
    index.commit()
    return index.view()


def positions(view: View, q: str, scope: Scope = ALL, **options: object) -> list[int]:
    found = view.search(parse(q), scope, 100, **options)  # type: ignore[arg-type]
    assert found.total == len(found.hits)
    return [hit.position for hit in found.hits]


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("auth", {0, 2}),
        ("AUTH", {0, 2}),
        ("checkAuthToken", {0, 2}),
        ("check_auth_token", {0, 2}),
        ("+checkauthtoken", {0}),
        ("src/auth/token.py", {0}),
        ("github", {1}),
        ('"javascript heap"', {1}),
        ('"JavaScript heap"', {1}),
        ('"heap javascript"', set()),
        ('"github javascript"', set()),
        ('"auth token"', {0, 2}),
        ("+token auth", {0, 2, 5}),
        ("token -auth", {5}),
        ("-token", {1, 3, 4}),
        ("tok* heap", {0, 1, 2, 5}),
        ("checkAuth*", {0, 2}),
        ("+src/auth/to*", {0}),
        ("登录", {4}),
        ("登录错误", {4}),
        ("+登录错误", set()),
        ("xyz*", set()),
        ("nowhere", set()),
        ("?!", set()),
    ],
)
def test_what_is_found(index: Index, q: str, found: set[int]) -> None:
    view = added(
        index,
        "checkAuthToken failed in src/auth/token.py",
        "JavaScript heap out of memory on GitHub",
        "check_auth_token works",
        "nothing here",
        "错误信息 登录失败",
        "token token token",
    )
    assert set(positions(view, q)) == found


@pytest.fixture
def mixed(index: Index) -> View:
    rows = [
        (7, 0, 100, Searchable("word", "user.message", None, "user")),
        (7, 1, 200, Searchable("word word", "agent.tool_use", "bash", "tool")),
        (7, 2, 300, Searchable("word", "agent.tool_result", None, "tool", True)),
        (9, 0, 150, Searchable("word", "agent.message", None, "agent")),
        (9, 1, 250, Searchable("", "agentish", "Mine", None)),
    ]
    for row in rows:
        index.add(Document(*row))
    index.commit()
    return index.view()


def found(view: View, q: str, scope: Scope = ALL) -> list[tuple[int, int]]:
    result = view.search(parse(q), scope, 100)
    assert result.total == len(result.hits)
    return sorted((hit.stream, hit.position) for hit in result.hits)


@pytest.mark.parametrize(
    ("q", "where"),
    [
        ("type:user.message", [(7, 0)]),
        ("type:agent.*", [(7, 1), (7, 2), (9, 0)]),
        ("type:agent* -type:agent.*", [(9, 1)]),
        ("type:user.message type:agent.message", [(7, 0), (9, 0)]),
        ("type:agent.* name:bash", [(7, 1)]),
        ("is:error", [(7, 2)]),
        ("-is:error", [(7, 0), (7, 1), (9, 0), (9, 1)]),
        ("name:BA*", [(7, 1)]),
        ("word type:agent.tool_use", [(7, 1)]),
        ("nowhere type:agent.tool_use", []),
        ("type:nowhere.*", []),
    ],
)
def test_filters(mixed: View, q: str, where: list[tuple[int, int]]) -> None:
    assert found(mixed, q) == where


@pytest.mark.parametrize(
    ("scope", "where"),
    [
        (Scope(chain=((7, 0, POSITION_MAX),)), [(7, 0), (7, 1), (7, 2)]),
        (Scope(chain=((7, 0, 2), (9, 0, POSITION_MAX))), [(7, 0), (7, 1), (9, 0)]),
        (Scope(chain=((7, 1, 2),)), [(7, 1)]),
        (Scope(chain=((7, 2, 2),)), []),
        (Scope(chain=()), []),
        (Scope(streams=(9, 11)), [(9, 0)]),
        (Scope(streams=()), []),
        (Scope(types=("agent.*", "user.message")), [(7, 0), (7, 1), (7, 2), (9, 0)]),
        (Scope(types=("agent.message",)), [(9, 0)]),
        (Scope(roles=("user", "agent")), [(7, 0), (9, 0)]),
        (Scope(roles=("error", "user")), [(7, 0), (7, 2)]),
        (Scope(errors_only=True), [(7, 2)]),
        (Scope(after_ms=150, before_ms=300), [(7, 1), (9, 0)]),
        (Scope(after_ms=300), [(7, 2)]),
        (Scope(before_ms=100), []),
        (Scope(after_ms=-5, before_ms=-1), []),
        (Scope(after_ms=300, before_ms=200), []),
        (Scope(streams=(7,), roles=("tool",), before_ms=300), [(7, 1)]),
    ],
)
def test_scopes(mixed: View, scope: Scope, where: list[tuple[int, int]]) -> None:
    assert found(mixed, "word", scope) == where


def test_filters_do_not_add_to_the_score(mixed: View) -> None:
    plain = mixed.search(parse("word"), ALL, 10).hits
    scope = Scope(types=("*",), roles=("user", "agent", "tool"), after_ms=0, streams=(7, 9))
    assert mixed.search(parse("word type:agent* type:user.*"), scope, 10).hits == plain


def test_order(mixed: View) -> None:
    query = parse("word")
    assert [hit[1:] for hit in mixed.search(query, ALL, 10).hits] == [(7, 1), (7, 0), (7, 2), (9, 0)]
    assert [hit[1:] for hit in mixed.search(query, ALL, 10, 0, "asc").hits] == [
        (7, 0),
        (9, 0),
        (7, 1),
        (7, 2),
    ]
    assert [hit[1:] for hit in mixed.search(query, ALL, 10, 0, "desc").hits] == [
        (7, 2),
        (7, 1),
        (9, 0),
        (7, 0),
    ]
    chain = Scope(chain=((7, 0, POSITION_MAX),))
    assert [hit.position for hit in mixed.search(query, chain, 10, 0, "desc").hits] == [2, 1, 0]
    assert [hit[1:] for hit in mixed.search(parse("type:agent.*"), ALL, 2).hits] == [(7, 2), (7, 1)]


def test_equal_hits_are_in_the_order_of_stream_and_position_on_every_page(index: Index) -> None:
    places = [(stream, position) for stream in range(3, 9) for position in range(40)]
    shuffled = list(places)
    random.Random(1).shuffle(shuffled)
    for number, (stream, position) in enumerate(shuffled):
        index.add(Document(stream, position, 5, Searchable("same words")))
        if number % 50 == 0:
            index.commit()
    index.commit()
    view = index.view()
    orders: tuple[Order, ...] = ("score", "asc", "desc")
    for order in orders:
        pages = [view.search(parse("same"), ALL, 7, offset, order) for offset in range(0, 245, 7)]
        listed = [(hit.stream, hit.position) for page in pages for hit in page.hits]
        assert listed == (places[::-1] if order == "desc" else places)
        assert {page.total for page in pages} == {240}


def test_groups(index: Index) -> None:
    for stream in range(1, 31):
        for position in range(stream % 3 + 1):
            index.add(
                Document(
                    stream, position, stream, Searchable("rare " * (position + 1) + "common " * (stream % 5))
                )
            )
    index.commit()
    view = index.view()
    every = view.search(parse("rare"), ALL, 1_000)
    order = list(dict.fromkeys(hit.stream for hit in every.hits))
    for offset in (0, 7, 28, 40):
        groups = view.groups(parse("rare"), ALL, 7, offset, 2)
        assert [stream for stream, _ in groups.sessions] == order[offset : offset + 7]
        for stream, hits in groups.sessions:
            assert hits == [hit for hit in every.hits if hit.stream == stream][:2]
        assert (groups.total_hits, groups.total_sessions) == (every.total, 30)
    assert view.groups(parse("nowhere"), ALL, 7) == ([], 0, 0)


def test_groups_when_one_session_has_all_the_best_hits(index: Index) -> None:
    for position in range(500):
        index.add(Document(1, position, 0, Searchable("word word word")))
    for stream in range(2, 6):
        index.add(Document(stream, 0, 0, Searchable("word and something else")))
    index.commit()
    groups = index.view().groups(parse("word"), ALL, 3, 0, 3)
    assert [(stream, len(hits)) for stream, hits in groups.sessions] == [(1, 3), (2, 1), (3, 1)]
    assert (groups.total_hits, groups.total_sessions) == (504, 5)


def test_hits_end_at_a_depth_but_all_are_counted(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "DEPTH_MAX", 5)
    for stream in range(8):
        index.add(Document(stream, 0, 0, Searchable("word")))
    index.commit()
    view = index.view()
    assert len(view.search(parse("word"), ALL, 5).hits) == 5
    assert [hit.stream for hit in view.search(parse("word"), ALL, 5, 3).hits] == [3, 4]
    assert view.search(parse("word"), ALL, 5, 5) == ([], 8)
    groups = view.groups(parse("word"), ALL, 4, 3)
    assert [stream for stream, _ in groups.sessions] == [3, 4]
    assert (groups.total_hits, groups.total_sessions) == (8, 8)


def test_more_ties_than_are_put_in_order_are_still_found(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "TIES_MAX", 10)
    view = added(index, *["same"] * 50)
    pages = [view.search(parse("same"), ALL, 10, offset) for offset in range(0, 50, 10)]
    assert {hit.position for page in pages for hit in page.hits} == set(range(50))


def test_a_prefix_stands_for_the_most_frequent_words(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "EXPANSIONS_MAX", 2)
    view = added(index, "abc abd", "abc", "abd", "abe")
    assert set(positions(view, "ab*")) == {0, 1, 2}
    monkeypatch.setattr(matching, "EXPANSIONS_MAX", 3)
    assert set(positions(view, "ab*")) == {0, 1, 2, 3}


def test_a_view_stays_as_it_is(index: Index) -> None:
    before = added(index, "one")
    index.add(Document(1, 1, 0, Searchable("one")))
    assert index.view().documents == 1
    index.commit()
    index.remove(1)
    index.commit()
    assert positions(before, "one") == [0]
    assert before.documents == 1
    assert index.view().documents == 0


def test_removing(index: Index) -> None:
    for stream in (1, 2):
        for position in range(5):
            index.add(Document(stream, position, 0, Searchable("word")))
    index.remove(1, 3)
    index.remove(2)
    index.add(Document(2, 0, 0, Searchable("word again")))
    index.commit()
    assert found(index.view(), "word") == [(1, 0), (1, 1), (1, 2), (2, 0)]
    assert index.tails() == {1: 3, 2: 1}


@pytest.mark.parametrize("streams_per_page", [3, 7, 8, 50_000])
def test_tails_are_exact(index: Index, monkeypatch: pytest.MonkeyPatch, streams_per_page: int) -> None:
    monkeypatch.setattr(index_module, "_STREAMS_PER_PAGE", streams_per_page)
    expected = {2**64 - 1: 2**40, 2**64 - 2: 1, 2**53 + 1: 7, 0: 1, 5: 2**40 - 1, 6: 1, 8: 1}
    for stream, tail in expected.items():
        index.add(Document(stream, tail - 1, 0, Searchable("")))
    assert index.tails() == {}
    index.commit()
    assert index.tails() == expected
    assert index.view().groups(parse("-word"), ALL, 2).total_sessions == len(expected)
    assert index.view().search(parse("-x"), Scope(streams=(2**64 - 1,)), 1).hits == [
        IndexHit(0.0, 2**64 - 1, 2**40 - 1)
    ]


def test_what_is_committed_is_there_after_opening_again(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index", HEAP_BYTES_MIN)
    added(index, "kept")
    index.add(Document(1, 1, 0, Searchable("dropped")))
    index.close()
    again = Index.open(tmp_path / "index", HEAP_BYTES_MIN)
    assert again.tails() == {1: 1}
    assert positions(again.view(), "kept dropped") == [0]
    again.close()


def test_one_writer_at_a_time(tmp_path: Path, index: Index) -> None:
    with pytest.raises(IndexBusyError):
        Index.open(tmp_path / "index", HEAP_BYTES_MIN)


def test_another_format_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "index"
    Index.open(path, HEAP_BYTES_MIN).close()
    (path / "FORMAT").write_text("0\n")
    with pytest.raises(IndexDamagedError):
        Index.open(path, HEAP_BYTES_MIN)
    Index.delete(path)
    Index.open(path, HEAP_BYTES_MIN).close()


def test_the_format_goes_up_when_words_are_taken_apart_differently() -> None:
    """If this fails, raise FORMAT: what is on disk was made of other words than are asked for now."""
    written = "checkAuthToken HTTPServer URLs sha256 é ﬁ 错误 x" + "y" * 64
    assert (index_module.FORMAT, lenses.VERSION, tokenizer.indexed(written)) == (
        9,
        1,
        "checkauthtoken httpserver urls sha256 é fi 错 误 | check auth token | http server",
    )


def test_something_else_is_damage(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "other").write_text("x")
    with pytest.raises(IndexDamagedError):
        Index.open(tmp_path / "index", HEAP_BYTES_MIN)


@pytest.mark.parametrize("harm", ["cut", "empty", "gone", "flipped"])
def test_damaged_files_are_told_or_harmless(tmp_path: Path, harm: str) -> None:
    index = Index.open(tmp_path / "index", HEAP_BYTES_MIN)
    added(index, *(f"common w{number}" for number in range(300)))
    index.close()
    files = sorted(
        file.name
        for file in (tmp_path / "index").iterdir()
        if file.suffix in (".json", ".term", ".idx", ".pos", ".fast", ".fieldnorm")
    )
    assert files
    for name in files:
        file = tmp_path / "index" / name
        whole = file.read_bytes()
        if harm == "gone":
            file.unlink()
        elif harm == "flipped":
            file.write_bytes(bytes(byte ^ 0x5A for byte in whole))
        else:
            file.write_bytes(whole[: len(whole) // 2] if harm == "cut" else b"")
        try:
            hurt = Index.open(tmp_path / "index", HEAP_BYTES_MIN)
        except IndexDamagedError:
            pass
        else:
            try:
                hurt.view().search(parse('common "common w7" w1*'), ALL, 10)
                hurt.tails()
            except IndexDamagedError:
                pass
            hurt.close()
        file.write_bytes(whole)


def bm25(texts: list[str], q: list[str]) -> list[float]:
    """BM25 as it is written in books."""
    documents = [tokenizer.wholes(text) for text in texts]
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        counts = Counter(document)
        score = 0.0
        for word in q:
            have = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - have + 0.5) / (have + 0.5))
            saturation = counts[word] + 1.2 * (0.25 + 0.75 * len(document) / mean)
            score += idf * 2.2 * counts[word] / saturation
        scores.append(score)
    return scores


VOCABULARY = [f"w{number}" for number in range(12)]
TEXTS = st.lists(
    st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=38).map(" ".join), min_size=1, max_size=20
)


@settings(max_examples=20, deadline=None)
@given(TEXTS, st.lists(st.sampled_from([*VOCABULARY, "nowhere"]), min_size=1, max_size=5, unique=True))
def test_scores_are_those_of_bm25(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], q: list[str]
) -> None:
    index = Index.open(tmp_path_factory.mktemp("bm25") / "index", HEAP_BYTES_MIN)
    try:
        hits = added(index, *texts).search(parse(apart(q)), ALL, 100).hits
    finally:
        index.close()
    expected = {at: score for at, score in enumerate(bm25(texts, q)) if score}
    assert {hit.position for hit in hits} == set(expected)
    for hit in hits:
        assert hit.score == pytest.approx(expected[hit.position], rel=1e-4)
    ranks = [round(hit.score, 4) for hit in hits]
    assert ranks == sorted(ranks, reverse=True)


def test_the_order_is_that_of_another_implementation(index: Index) -> None:
    chance = random.Random(3)
    vocabulary = [f"w{number}" for number in range(3_000)]
    frequencies = [1 / (rank + 3) for rank in range(len(vocabulary))]
    texts = [" ".join(chance.choices(vocabulary, frequencies, k=chance.randint(1, 39))) for _ in range(2_000)]
    other = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    other.index([text.split() for text in texts], show_progress=False)
    for position, text in enumerate(texts):
        index.add(Document(1, position, 0, Searchable(text)))
        if position % 600 == 0:
            index.commit()
    index.commit()
    view = index.view()
    for _ in range(20):
        q = chance.choices(vocabulary, frequencies, k=4)
        expected = numpy.asarray(other.get_scores(sorted(set(q)))) * 2.2
        found = view.search(parse(apart(q)), ALL, 50)
        assert found.total == int((expected > 0).sum())
        assert [hit.score for hit in found.hits] == pytest.approx(
            sorted(expected, reverse=True)[: len(found.hits)], rel=1e-4
        )
        assert [hit.score for hit in found.hits] == pytest.approx(
            [expected[hit.position] for hit in found.hits], rel=1e-4
        )


def ranked(index: Index, q: str, *texts: str) -> list[int]:
    return [hit.position for hit in added(index, *texts).search(parse(q), ALL, 100).hits]


LONG = " ".join(f"line{number} of a long build log" for number in range(400))


def test_words_side_by_side_count_more_than_short_texts(index: Index) -> None:
    bookkeeping = [f"permission mode {mode}" for mode in ("default", "plan", "accept", "bypass")] * 3
    elsewhere = f"denied {LONG} permission"
    failure = f"{LONG} open /etc/shadow: Permission denied {LONG}"
    assert ranked(index, "permission denied", *bookkeeping, elsewhere, failure)[0] == len(bookkeeping) + 1


def test_bookkeeping_comes_after_what_was_said_and_done(index: Index) -> None:
    """However well it matches: the failure is long, and has only one of the words."""
    status = Searchable("permission denied", "session.status_idle")
    span = Searchable("permission denied permission denied", "span.model_request_end")
    record = Searchable("denied", "import.record")
    failure = Searchable(f"{LONG} denied {LONG}", "agent.tool_result")
    for position, each in enumerate((status, span, record, failure)):
        index.add(Document(1, position, 0, each))
    index.commit()
    view = index.view()
    found = view.search(parse("permission denied"), ALL, 10)
    assert found.total == 4
    assert [hit.position for hit in found.hits] == [3, 1, 0, 2]
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0
    (group,) = view.groups(parse("permission denied"), ALL, 10, hits_per_session=4).sessions
    assert [hit.position for hit in group[1]] == [3, 1, 0, 2]


def test_scores_are_the_same_beside_bookkeeping(index: Index) -> None:
    texts = ["denied", "permission denied", f"{LONG} denied", "a permission that was denied"]
    for position, each in enumerate(texts):
        index.add(Document(1, position, 0, Searchable(each, "agent.message")))
    index.commit()
    plain = index.view().search(parse("permission denied"), ALL, 10).hits
    for position in range(4, 8):
        index.add(Document(1, position, 0, Searchable("", "span.x")))
    index.add(Document(1, 8, 0, Searchable("status", "span.x")))
    index.commit()
    beside = index.view().search(parse("permission denied"), ALL, 10).hits
    assert [hit.position for hit in beside] == [hit.position for hit in plain]
    assert all(0 < hit.score < 50 for hit in beside), "what ranks them first is not told"


def test_bookkeeping_that_is_asked_for_is_ranked_like_everything(index: Index) -> None:
    index.add(Document(1, 0, 0, Searchable(f"{LONG} denied {LONG}", "agent.message")))
    index.add(Document(1, 1, 0, Searchable("denied", "span.x")))
    index.commit()
    view = index.view()
    by_scope = view.search(parse("denied"), Scope(types=("span.*", "agent.*")), 10)
    by_query = view.search(parse("denied type:span.* type:agent.message"), ALL, 10)
    excluding = view.search(parse("denied -type:user.message"), ALL, 10)
    assert [hit.position for hit in by_scope.hits] == [hit.position for hit in by_query.hits] == [1, 0]
    assert [hit.position for hit in excluding.hits] == [0, 1]


def test_the_reward_follows_the_rarity_of_both_words(index: Index) -> None:
    common = ["the test passed", "the test was run", "the test is over", "the zebra"]
    assert ranked(index, "the zebra", *common, "a zebra")[:2] == [3, 4]


@pytest.mark.parametrize(
    ("q", "is_rewarded"),
    [
        ("permission denied", True),
        ("+permission denied", True),
        ("permission* denied", False),
        ("permission absent denied", False),
        ("denied permission x", False),
    ],
)
def test_only_whole_words_in_their_order_are_rewarded(index: Index, q: str, is_rewarded: bool) -> None:
    view = added(index, "permission denied", "denied x permission", *["other"] * 5)
    scores = {hit.position: hit.score for hit in view.search(parse(q), Scope(), 10).hits}
    assert (scores[0] > scores[1] * 1.5) == is_rewarded


def test_only_so_many_neighbours_are_looked_for(index: Index) -> None:
    q = [f"w{number}" for number in range(PAIRS_MAX + 3)]
    a, b, c = q[PAIRS_MAX:]
    view = added(index, f"{a} {b} {c} x x", f"{a} x {b} x {c}", *["other words"] * 9, *q)
    last, before = (view.search(parse(text), ALL, 2).hits for text in (" ".join(q), f"{a} {b} {c}"))
    assert last[0].score == pytest.approx(last[1].score, rel=1e-4)
    assert before[0].score > before[1].score * 1.5


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 2), st.sampled_from(["red", "green blue", "redGreen", ""])),
    st.tuples(st.just("remove"), st.integers(0, 2), st.integers(0, 4)),
    st.tuples(st.just("commit"), st.just(0), st.just(0)),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_any_course_of_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, str | int]]
) -> None:
    """Add at the end, remove from somewhere on, commit now and then: an index is as a few lists are."""
    path = tmp_path_factory.mktemp("course") / "index"
    index = Index.open(path, HEAP_BYTES_MIN)
    model: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for what, stream, with_what in steps:
        if what == "add":
            text = str(with_what)
            index.add(Document(stream, len(model[stream]), 0, Searchable(text)))
            model[stream].append(text)
        elif what == "remove":
            index.remove(stream, int(with_what))
            del model[stream][int(with_what) :]
        else:
            index.commit()
            if stream == 0 and with_what == 0 and len(steps) % 2:
                index.close()
                index = Index.open(path, HEAP_BYTES_MIN)
    index.commit()
    assert index.tails() == {stream: len(texts) for stream, texts in model.items() if texts}
    for q in ("red", "green", "+redgreen", "-red"):
        wanted = q.removeprefix("+").removeprefix("-")
        expected = [
            (stream, position)
            for stream, texts in model.items()
            for position, text in enumerate(texts)
            if ({wanted} <= {*tokenizer.wholes(text), *tokenizer.parts(text)}) != q.startswith("-")
        ]
        assert found(index.view(), q) == expected
    assert index.view().documents == sum(map(len, model.values()))
    index.close()


def test_hostile_queries_are_answered(index: Index) -> None:
    view = added(index, *("a b c d e f g h i j k l m n o p " * 20 for _ in range(200)))
    phrases = " ".join(
        '"' + " ".join(chr(97 + (n * step) % 16) for n in range(32)) + '"' for step in range(1, CLAUSES_MAX)
    )
    for q in (
        phrases,
        "*" * 5_000,
        "a* " * 3_000,
        "-" * 4_000,
        '"' * 4_001,
        "(" * 4_000,
        "+" + "a.b" * 1_000,
    ):
        assert view.search(parse(q), ALL, 10).total >= 0
    assert view.search(parse("a"), ALL, 10, 10_000_000).hits == []
    assert view.search(parse("a"), ALL, 0).total == 200
