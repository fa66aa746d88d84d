"""Graphs as texts that other programs draw: Mermaid and Graphviz's DOT.

Labels hold whatever clients wrote. In Mermaid every character that could mean something is written as its
number, in DOT quotes and backslashes are escaped, so that no label ends before its end.
"""

import re
from collections.abc import Iterator

from durable_sessions.sessions.graph.graph_nodes import GraphNode, SessionGraph

_MERMAID_SHAPES = {
    "session": ('[("', '")]'),
    "event": ('["', '"]'),
    "artifact": ('[/"', '"/]'),
    "principal": ('(["', '"])'),
    "sandbox": ('[["', '"]]'),
}
_SPECIAL = re.compile(r"[^\w ]|_")
_DOT_SHAPES = {
    "session": "folder",
    "event": "box",
    "artifact": "note",
    "principal": "ellipse",
    "sandbox": "component",
}


def mermaid(graph: SessionGraph) -> Iterator[str]:
    """Yield the lines of a Mermaid flow chart, each with its end."""
    yield "graph TD\n"
    names = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        opening, closing = _MERMAID_SHAPES[node.kind]
        yield f"  {names[node.id]}{opening}{_mermaid_label(_shown(node))}{closing}\n"
    for edge in graph.edges:
        yield f"  {names[edge.from_]} -->|{edge.rel}| {names[edge.to]}\n"
    if graph.truncated:
        yield "  %% there is more than this graph may have\n"


def dot(graph: SessionGraph) -> Iterator[str]:
    """Yield the lines of a Graphviz graph, each with its end."""
    yield "digraph session {\n  node [fontsize=10];\n"
    for node in graph.nodes:
        style = ", style=dashed" if node.missing else ""
        label = _dot_text(_shown(node))
        yield f"  {_dot_text(node.id)} [label={label}, shape={_DOT_SHAPES[node.kind]}{style}];\n"
    for edge in graph.edges:
        yield f"  {_dot_text(edge.from_)} -> {_dot_text(edge.to)} [label={_dot_text(edge.rel)}];\n"
    if graph.truncated:
        yield "  // there is more than this graph may have\n"
    yield "}\n"


def _shown(node: GraphNode) -> str:
    said = " (redacted)" if node.redacted else " (missing)" if node.missing else ""
    return node.label + said


def _mermaid_label(text: str) -> str:
    """Return a text in which only letters, digits and spaces stand for themselves."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", text)


def _dot_text(text: str) -> str:
    """Return a quoted text; a backslash would begin an escape, and a NUL end the file."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if not escaped.isprintable():
        escaped = "".join(one if one.isprintable() else "\ufffd" for one in escaped)
    return f'"{escaped}"'
