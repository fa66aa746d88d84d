"""Refs as terms of the index: what an event leads to, found from the other end."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from durable_sessions.search import ref_terms
from durable_sessions.search.index import HEAP_BYTES_MIN, Document, Index
from durable_sessions.search.text import Searchable

LIFE = "0123456789ab"
MEMORY = {"scope": "user:a", "key": "k", "value": 1, "why": "reflection"}


def ref(event: str, session: str | None = None) -> dict[str, str]:
    return {"rel": "because", "id": event} | ({} if session is None else {"session": session})


@pytest.mark.parametrize(
    ("event", "terms"),
    [
        ({"type": "user.message", "content": "no refs"}, ()),
        ({"type": "note", "refs": [ref("a"), ref("a"), ref("b", "s")]}, ("#7/a", "@s/b")),
        ({"type": "note", "refs": "anything"}, ()),
        ({"type": "note", "refs": [ref("sha256:" + "0" * 64)]}, ()),
        ({"type": "agent.tool_result", "tool_use_id": "call"}, ("#7/call",)),
        (
            {
                "type": "ds.fact",
                "key": "k",
                "value": 1,
                "refs": [ref("a"), ref("b", "s")],
                "ref_incarnations": [None, LIFE],
            },
            ("#7/a", f"{LIFE}/b", "=7/k"),
        ),
        ({"type": "ds.fact.retracted", "key": "k"}, ("=7/k",)),
        ({"type": "ds.fact", "key": "k", "value": 1, "imported": "untrusted", "refs": [ref("a")]}, ()),
        ({"type": "ds.memory.written", "id": "w", **MEMORY, "refs": [ref("a")]}, ("#7/a", "+w")),
        ({"type": "ds.memory.rolled_back", "write": "w", "reason": "r"}, ("#7/w",)),
    ],
    ids=str,
)
def test_an_event_has_a_term_for_each_ref(event: dict[str, Any], terms: tuple[str, ...]) -> None:
    assert ref_terms.terms_of(7, msgspec.json.encode(event)) == terms


def test_events_are_found_by_what_they_lead_to(tmp_path: Path) -> None:
    index = Index.open(tmp_path / "index", HEAP_BYTES_MIN)

    def found(*terms: str, limit: int = 10) -> list[tuple[int, int]]:
        index.commit()
        return [(hit.stream, hit.position) for hit in index.view().referring(terms, limit).hits]

    for stream, position, refs in ((1, 0, ("#1/a",)), (1, 5, ("#1/a", "x/b")), (2, 0, ("x/b",))):
        index.add(Document(stream, position, 100 + position, Searchable(""), refs=refs))
    assert found("#1/a") == [(1, 0), (1, 5)], "the oldest first"
    assert found("x/b", "#1/a") == [(1, 0), (2, 0), (1, 5)]
    assert found("#1/a", limit=1) == [(1, 0)]
    assert index.view().referring(["#1/a"], 1).total == 2
    assert found("#1", "nothing") == []
    index.erase(Document(1, 5, 105, Searchable(""), 1))
    assert found("#1/a", "x/b") == [(1, 0), (2, 0)], "what was erased has what is left of it"
    index.remove(1)
    assert found("#1/a", "x/b") == [(2, 0)]
    index.close()


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", "\t:  ")])
def test_spaces_in_the_json_of_an_event_change_nothing(separators: tuple[str, str]) -> None:
    event = {
        "id": "e",
        "ref_incarnations": ["d2cdc685ee0e"],
        "type": "ds.memory.read",
        "scope": "project:x",
        "at": 1,
        "returned": [{"id": "w", "session": "s"}],
    }
    stored = json.dumps(event, separators=separators).encode()
    assert ref_terms.in_life("d2cdc685ee0e", "w") in ref_terms.terms_of(7, stored)
