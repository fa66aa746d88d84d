"""Graphs as commands print them: as tables and trees for people, or as texts that other programs draw."""

from collections.abc import Iterator
from typing import Any

import click
import msgspec
from rich.text import Text

from durable_sessions.cli.terminal import Output
from durable_sessions.rendering.text import one_line, plural

Graph = dict[str, Any]
FORMATS = ("mermaid", "dot")
_AROUND = frozenset(("in", "by", "ran_in"))
_LABEL_MAX = 70
_LINES_MAX = 1_000


def require_one_form(output: Output, form: str | None) -> None:
    """Refuse two forms at the same time."""
    if output.json and form is not None:
        raise click.UsageError("--json and --format exclude each other; give one of them.")


def show_drawing(output: Output, drawing: str) -> None:
    """Print a text that another program draws, as it is."""
    output.bytes(drawing.encode())


def drawn(found: Graph, form: str) -> str:
    """Return a graph as a text that another program draws."""
    # Imported here: commands that need no such text start without it.
    from durable_sessions.sessions.graph import graph_text
    from durable_sessions.sessions.graph.graph_nodes import SessionGraph

    graph = msgspec.convert(found, SessionGraph)
    return "".join(graph_text.mermaid(graph) if form == "mermaid" else graph_text.dot(graph))


def show_edges(output: Output, found: Graph) -> None:
    """Print the refs of a graph, one in a line, and how much there is of everything."""
    shown = _labels(found)
    rows = [
        (Text(shown[one["from"]]), Text(one["rel"], style="bold"), Text(shown[one["to"]]))
        for one in found["edges"]
        if one["rel"] not in _AROUND
    ]
    if rows:
        output.table(("EVENT", "", "LEADS TO"), rows, frozenset(), gives_way=2)
    nodes, edges = len(found["nodes"]), len(found["edges"])
    said = f"{nodes:,} {plural(nodes, 'node')}, {edges:,} {plural(edges, 'edge')}"
    output.note(f"{found['session']}: {said}{', and more' if found['truncated'] else ''}")


def show_tree(output: Output, found: Graph, *, forwards: bool) -> None:
    """Print a graph as a tree from its first node; what was shown before is not taken apart again."""
    lines = list(_tree(found, forwards=forwards))
    for line in lines[:_LINES_MAX]:
        output.show(Text(line))
    if len(lines) > _LINES_MAX or found["truncated"]:
        output.note("There is more; --json has all of it.")


def _tree(found: Graph, *, forwards: bool) -> Iterator[str]:
    begin, end = ("to", "from") if forwards else ("from", "to")
    followers: dict[str, list[tuple[str, str]]] = {}
    for edge in found["edges"]:
        followers.setdefault(edge[begin], []).append((edge["rel"], edge[end]))
    shown = _labels(found)
    root = found["nodes"][0]["id"]
    seen: set[str] = set()
    waiting = [(0, "", root)]
    while waiting:
        depth, rel, node = waiting.pop()
        again = " (above)" if node in seen and node in followers else ""
        said = f"{rel} <- " if rel and forwards else f"{rel} -> " if rel else ""
        yield f"{'  ' * depth}{said}{shown[node]}{again}"
        if node not in seen:
            seen.add(node)
            waiting += [(depth + 1, name, other) for name, other in reversed(followers.get(node, ()))]


def _labels(found: Graph) -> dict[str, str]:
    """Return how each node is shown: its label, and where it is."""
    labels = {}
    for node in found["nodes"]:
        place = node["id"].partition(":")[2]
        said = " (missing)" if node.get("missing") else " (redacted)" if node.get("redacted") else ""
        label = one_line(node["label"], _LABEL_MAX)
        what = f"{label} [{one_line(place, 120)}]" if node["kind"] == "event" else f"{node['kind']} {label}"
        labels[node["id"]] = what + said
    return labels
