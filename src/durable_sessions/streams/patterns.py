"""Which patterns match a path: one walk over its segments, however many patterns there are."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from durable_sessions.streams.globs import ANY, ONE

T = TypeVar("T", bound=Hashable)


class _Node(Generic[T]):
    """What patterns with the same beginning have in common."""

    __slots__ = ("children", "ends")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.ends: dict[T, None] = {}


class PatternIndex(Generic[T]):
    """Patterns as a tree of their segments.

    A walk keeps the set of nodes whose patterns fit the segments seen so far. Its cost depends only on the
    patterns that can still match; patterns with another beginning cost nothing.
    """

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PatternIndex) and _content(self._root) == _content(other._root)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def add(self, pattern: str, value: T) -> None:
        """Let a value be found by the paths that a pattern matches."""
        node = self._root
        for segment in pattern.split("/"):
            node = node.children.setdefault(segment, _Node())
        node.ends[value] = None

    def remove(self, pattern: str, value: T) -> None:
        """Forget what was added."""
        way = [self._root]
        segments = pattern.split("/")
        for segment in segments:
            way.append(way[-1].children[segment])
        del way[-1].ends[value]
        for segment, node, parent in zip(reversed(segments), reversed(way), reversed(way[:-1]), strict=False):
            if node.ends or node.children:
                return
            del parent.children[segment]

    def matching(self, path: str) -> Iterable[T]:
        """Return the values whose patterns match a path, each once."""
        nodes = _opened({self._root: None})
        for segment in path.split("/"):
            following: dict[_Node[T], None] = {}
            for node, stays in nodes.items():
                if stays:
                    following[node] = None  # a ** takes in one more segment
                for name in (segment, ONE):
                    child = node.children.get(name)
                    if child is not None and name != ANY:
                        following[child] = None
            nodes = _opened(following, {node for node, stays in nodes.items() if stays})
            if not nodes:
                return ()
        return {value: None for node in nodes for value in node.ends}


def _content(node: "_Node[T]") -> object:
    return set(node.ends), {segment: _content(child) for segment, child in node.children.items()}


def _opened(
    nodes: "dict[_Node[T], None]", staying: "set[_Node[T]] | frozenset[_Node[T]]" = frozenset()
) -> "dict[_Node[T], bool]":
    """Return nodes and those that a ``**`` reaches without taking a segment; ``staying`` are these."""
    opened: dict[_Node[T], bool] = {}
    for node in nodes:
        opened[node] = opened.get(node, False) or node in staying
        following = node.children.get(ANY)
        while following is not None:
            opened[following] = True
            following = following.children.get(ANY)
    return opened
