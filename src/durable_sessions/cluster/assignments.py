"""The assignment as nodes ask for it all the time: computed when nodes or wishes change, not before."""

import asyncio
from collections.abc import Mapping, Sequence

from durable_sessions.cluster.assignment import OperatorWishes, assign


class Assignments:
    """Who should own each partition, and who would inherit those of a node that is gone.

    With thousands of nodes and partitions it takes seconds, so it is computed in a thread, and kept for as
    long as it is asked for the same nodes and wishes. ``shared`` and ``light`` are as for ``assign``.
    """

    def __init__(self, shared: Sequence[int], light: Sequence[int]) -> None:
        self._shared = tuple(shared)
        self._light = tuple(light)
        self._basis: tuple[tuple[str, ...], OperatorWishes] | None = None
        self._owners: Mapping[int, str] | None = None
        self._inherited: dict[tuple[str, str], frozenset[int]] = {}

    async def owners(self, nodes: tuple[str, ...], wishes: OperatorWishes) -> Mapping[int, str]:
        """Return who should own each partition."""
        basis = self._based_on(nodes, wishes)
        if self._owners is not None:
            return self._owners
        found = await self._computed(nodes, wishes)
        if self._basis is basis:
            self._owners = found
        return found

    async def inherited(
        self, nodes: tuple[str, ...], wishes: OperatorWishes, heir: str, without: str
    ) -> frozenset[int]:
        """Return what one node should own if another were not there."""
        basis = self._based_on(nodes, wishes)
        kept = self._inherited.get((heir, without))
        if kept is not None:
            return kept
        owners = await self._computed([name for name in nodes if name != without], wishes)
        # Of the whole assignment only the heir's share is kept: there is one for every node that may go.
        found = frozenset(number for number, name in owners.items() if name == heir)
        if self._basis is basis:
            self._inherited[heir, without] = found
        return found

    def _based_on(
        self, nodes: tuple[str, ...], wishes: OperatorWishes
    ) -> tuple[tuple[str, ...], OperatorWishes]:
        """Forget what was computed for other nodes or wishes."""
        if self._basis is None or self._basis != (nodes, wishes):
            self._basis = nodes, wishes
            self._owners, self._inherited = None, {}
        return self._basis

    async def _computed(self, nodes: Sequence[str], wishes: OperatorWishes) -> Mapping[int, str]:
        return await asyncio.to_thread(assign, self._shared, nodes, wishes, light=self._light)
