"""A dossier as a document to read."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from durable_sessions.rendering.text import one_line, plural
from durable_sessions.sessions.dossier.builder import DossierBuilder, DossierItem
from durable_sessions.sessions.dossier.kinds import MAY_BE_EMPTY, OPTIONAL
from durable_sessions.sessions.graph.graph_nodes import SessionGraph, SessionLife

_TICKS = re.compile("`+")
_VALUE_MAX = 500
_REFS_MAX = 10
"""Of an answer or item so many events are listed; the others are counted."""


def document(
    builder: DossierBuilder, session: str, offset: str, principals: str, graph: SessionGraph
) -> Iterator[bytes]:
    """Yield the dossier as Markdown, piece by piece; the graph says what the events of an answer are."""
    missing = builder.missing
    labels = {node.id: node.label for node in graph.nodes if node.kind == "event"}
    yield (
        f"# Dossier of {_code(session)}: {builder.kind}\n\n"
        f"- Offset: {_code(offset)}\n"
        f"- Complete: {'yes' if not missing else 'no, nothing about ' + ', '.join(missing)}\n"
        f"- Principals: {principals}\n\n## Questions\n\n"
    ).encode()
    for name, refs in builder.questions.items():
        none = "nothing, which may be" if name in MAY_BE_EMPTY else "**nothing**"
        yield f"- {name}:{'' if refs else ' ' + none}\n".encode()
        yield "".join(f"  - {_answer(ref, labels)}\n" for ref in refs[:_REFS_MAX]).encode()
        if (left := len(refs) - _REFS_MAX) > 0:
            yield f"  - and {left:,} more {plural(left, 'event')}\n".encode()
    for name, found in builder.sections.items():
        yield f"\n## {name.replace('_', ' ').capitalize()}\n\n".encode()
        if not found:
            yield b"None.\n" if name in OPTIONAL[builder.kind] else b"**Missing.**\n"
        for item in builder.items(name):
            yield _item(item).encode()


def _answer(ref: tuple[str, str], labels: Mapping[str, str]) -> str:
    """Return an event of an answer: what it says, if the graph has it, and which it is."""
    session, event = ref
    label = labels.get(SessionLife(session, "").event(event))
    return f"{_code(label)} ({_refs([ref])})" if label else _refs([ref])


def _item(item: DossierItem) -> str:
    said = "; ".join(f"{name}: {_value(value)}" for name, value in item.said.items())
    refs = _refs(item.refs)
    return f"- {said}{f' ({refs})' if refs else ''}\n"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _code(value)
    return _code(msgspec.json.encode(value).decode(errors="replace"))


def _refs(refs: Sequence[tuple[str, str]]) -> str:
    listed = ", ".join(_code(f"{session}/{name}") for session, name in refs[:_REFS_MAX])
    left = len(refs) - _REFS_MAX
    return f"{listed} and {left:,} more {plural(left, 'event')}" if left > 0 else listed


def _code(text: str) -> str:
    """Return a text as it is shown in Markdown, on one line, whatever characters it has."""
    line = one_line(text, _VALUE_MAX)
    fence = "`" * (max(map(len, _TICKS.findall(line)), default=0) + 1)
    space = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{space}{line}{space}{fence}"
