"""A dossier that is filled: as JSON, as a document, and what the server states about it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from durable_sessions.evidence.statement import OutcomeResult
from durable_sessions.sessions.dossier import text
from durable_sessions.sessions.dossier.builder import DossierBuilder
from durable_sessions.sessions.dossier.shape import FORMAT
from durable_sessions.sessions.graph import graph_nodes, graph_text
from durable_sessions.sessions.graph.graph_nodes import SessionGraph


@dataclass(frozen=True, slots=True)
class MadeDossier:
    """The dossier of a session as of an offset, with the graph of its family.

    ``is_current`` says whether no event was erased since the first one was read.
    """

    session: str
    offset: str
    principals: str
    builder: DossierBuilder
    graph: SessionGraph
    result: OutcomeResult
    is_current: Callable[[], bool]

    def json(self) -> Iterator[bytes]:
        """Yield the dossier as JSON in small pieces, so that encoding a large one holds nobody up."""
        builder, missing = self.builder, self.builder.missing
        head = {
            "format": FORMAT,
            "kind": builder.kind,
            "session": self.session,
            "offset": self.offset,
            "complete": not missing,
            "missing": missing,
        }
        yield msgspec.json.encode(head)[:-1] + b',"questions":{'
        for number, (name, refs) in enumerate(builder.questions.items()):
            yield b'%b"%b":[' % (b"," if number else b"", name.encode())
            yield from _joined(msgspec.json.encode({"session": ref[0], "id": ref[1]}) for ref in refs)
            yield b"]"
        yield b'},"sections":{'
        for number, name in enumerate(builder.sections):
            yield b'%b"%b":{"items":[' % (b"," if number else b"", name.encode())
            yield from _joined(item.encoded() for item in builder.items(name))
            yield b"]}"
        yield b'},"graph":'
        yield from self.graph_json()
        yield b',"principals":%b}' % msgspec.json.encode(self.principals)

    def graph_json(self) -> Iterator[bytes]:
        """Yield the graph as JSON."""
        return graph_nodes.encoded(self.graph)

    def graph_chart(self) -> Iterator[bytes]:
        """Yield the graph as a Mermaid chart."""
        return (line.encode(errors="replace") for line in graph_text.mermaid(self.graph))

    def document(self) -> Iterator[bytes]:
        """Yield the dossier as Markdown."""
        return text.document(self.builder, self.session, self.offset, self.principals, self.graph)


def _joined(values: Iterator[bytes]) -> Iterator[bytes]:
    for number, value in enumerate(values):
        yield b"," + value if number else value
