"""The parts of one graph while it is put together: within bounds, each once, and without a cycle."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator

from durable_sessions.sessions.graph.graph_nodes import GraphEdge, GraphNode

_NODE_BYTES, _EDGE_BYTES = 160, 40
"""About what a node and an edge take as JSON besides their names and labels."""
_STEP = 256
"""After how many small steps a long one lets others go first."""


class GraphParts:
    """Collects nodes and edges until there are too many of them, or too many bytes.

    ``is_truncated`` says that something was left out.
    """

    def __init__(self, nodes_max: int, bytes_max: int) -> None:
        self.nodes: dict[str, GraphNode] = {}
        self.nodes_max = nodes_max
        self.is_truncated = False
        self._edges: dict[tuple[str, str, str], GraphEdge] = {}
        self._unordered: set[tuple[str, str, str]] = set()
        self._bytes_left = bytes_max

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another node."""
        return len(self.nodes) >= self.nodes_max or self._bytes_left <= 0

    def add_node(self, node: GraphNode) -> bool:
        """Add a node unless it is there; say whether it is there now."""
        if node.id in self.nodes:
            return True
        size = _NODE_BYTES + _size(node.id) + _size(node.label)
        if self.is_full or size > self._bytes_left:
            self.is_truncated = True
            return False
        self.nodes[node.id] = node
        self._bytes_left -= size
        return True

    def add_edge(self, start: str, end: str, rel: str, *, unordered: bool = False) -> None:
        """Add an edge if both its ends are there.

        Of an ``unordered`` one it is not certain that its end is older than its start.
        """
        if start not in self.nodes or end not in self.nodes:
            self.is_truncated = True
            return
        key = start, end, rel
        if key in self._edges:
            return
        size = _EDGE_BYTES + _size(start) + _size(end)
        if size > self._bytes_left:
            self.is_truncated = True
            return
        self._edges[key] = GraphEdge(start, end, rel)
        if unordered:
            self._unordered.add(key)
        self._bytes_left -= size

    def break_cycles(self) -> Iterator[None]:
        """Take out edges of which it is not certain that they lead back in time, where there is a cycle.

        All other edges lead from what came later to what was there before, so that no cycle is left. Yields
        now and then, so that others can go first.
        """
        if not self._unordered:
            return
        followers: dict[str, list[str]] = defaultdict(list)
        entering: Counter[str] = Counter()
        for step, (start, end, _) in enumerate(self._edges):
            followers[start].append(end)
            entering[end] += 1
            if step % _STEP == 0:
                yield
        free = deque(node for node in self.nodes if not entering[node])
        step = 0
        while free:
            for end in followers.pop(free.popleft(), ()):
                step += 1
                entering[end] -= 1
                if not entering[end]:
                    free.append(end)
                if step % _STEP == 0:
                    yield
        # What still has an edge that enters lies on a cycle, or behind one.
        for key in self._unordered:
            if entering[key[0]] and entering[key[1]]:
                del self._edges[key]

    def edges(self) -> list[GraphEdge]:
        """Return the edges, in the order in which they were added."""
        return list(self._edges.values())


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
