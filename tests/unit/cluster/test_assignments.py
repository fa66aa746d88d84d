"""The assignment is computed anew when nodes or wishes have changed, and only then."""

from collections.abc import Collection, Mapping, Sequence

import pytest

from durable_sessions.cluster import assignments
from durable_sessions.cluster.assignment import NO_WISHES, OperatorWishes, assign
from durable_sessions.cluster.assignments import Assignments

pytestmark = pytest.mark.anyio

SHARED, LIGHT = range(12), [99]
NODES = ("a", "b", "c")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Collection[str]]:
    """The nodes of each assignment that is computed."""
    noted: list[Collection[str]] = []

    def counted(
        shared: Sequence[int], nodes: Collection[str], wishes: OperatorWishes, *, light: Sequence[int]
    ) -> Mapping[int, str]:
        noted.append(nodes)
        return assign(shared, nodes, wishes, light=light)

    monkeypatch.setattr(assignments, "assign", counted)
    return noted


async def test_it_is_computed_once_for_the_same_nodes_and_wishes(computed: list[Collection[str]]) -> None:
    kept = Assignments(SHARED, LIGHT)
    first = await kept.owners(NODES, NO_WISHES)
    assert first == assign(SHARED, NODES, light=LIGHT)
    assert await kept.owners(("a", "b", "c"), OperatorWishes()) == first
    assert len(computed) == 1
    assert await kept.owners(NODES[:2], NO_WISHES) == assign(SHARED, NODES[:2], light=LIGHT)
    wishes = OperatorWishes(overrides={3: "c"}, drained=frozenset("a"))
    assert await kept.owners(NODES, wishes) == assign(SHARED, NODES, wishes, light=LIGHT)
    assert await kept.owners(NODES, NO_WISHES) == first
    assert len(computed) == 4


async def test_what_is_inherited_is_what_a_node_has_without_another(computed: list[Collection[str]]) -> None:
    kept = Assignments(SHARED, LIGHT)
    for gone in ("a", "b", "gone before"):
        owners = assign(SHARED, [name for name in NODES if name != gone], light=LIGHT)
        mine = {number for number, name in owners.items() if name == "c"}
        for _ in range(3):
            assert await kept.inherited(NODES, NO_WISHES, "c", gone) == mine
    assert len(computed) == 3
    await kept.inherited(NODES, OperatorWishes(drained=frozenset("b")), "c", "a")
    await kept.inherited(NODES, NO_WISHES, "c", "a")
    assert len(computed) == 5
